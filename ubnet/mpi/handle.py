"""A handle: what a program holds of a communicator, datatype, group, operation or request.

Two handles are equal when they stand for the same thing; one that stands for nothing is null.
Freeing makes it null. Predefined handles are the same objects for all ranks, and pickle by name.
"""

from typing import Any, ClassVar, Self

_PREDEFINED: dict[str, "HandleMethods"] = {}

_numbers: dict[int, int] = {}
_numbered: dict[int, tuple[type["HandleMethods"], Any, str]] = {}
"""What programs have asked the number of: by number the class, what it stands for, its name."""


class HandleMethods:
    """The common methods of all handles.

    Where a handle keeps its two words its class says: a window's is memory, too, and brings a
    place of its own.

    Parameters
    ----------
    other : Handle, optional
        A handle of the same kind, to stand for the same thing.
    """

    __slots__ = ()

    _ref: Any
    _name: str
    __hash__ = None  # type: ignore[assignment]  # as in mpi4py: what compares by value has none

    _kind: ClassVar[type["HandleMethods"]]

    def __new__(cls, other: "HandleMethods | None" = None) -> Self:
        """Make a handle; subclasses of a program may take other arguments in ``__init__``."""
        if other is None:
            return cls._of(None)
        if not isinstance(other, cls._kind):
            raise TypeError(f"expecting {cls._kind.__name__}, got {type(other).__name__}")
        return cls._of(other._ref, other._name)

    @classmethod
    def _of(cls, ref: Any, name: str = "") -> Self:
        """Return a handle of something; `name` makes it a predefined one."""
        made = object.__new__(cls)
        made._ref, made._name = ref, name  # type: ignore[misc]  # slots of the class
        if name:
            made._stand_for(ref, name)
        return made

    def _stand_for(self, ref: Any, name: str) -> None:
        """Stand for something; `name` makes it a predefined handle."""
        self._ref, self._name = ref, name  # type: ignore[misc]  # slots of the class
        if name:
            # The first of a name is MPI's own; later ones are copies that programs make of it.
            _PREDEFINED.setdefault(name, self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self._kind):
            return NotImplemented
        return self._ref is other._ref

    def __repr__(self) -> str:
        if self._name:
            return f"MPI.{self._name}"
        return f"<MPI.{type(self).__name__}{'' if self else ': null'}>"

    def __bool__(self) -> bool:
        return self._ref is not None

    def __reduce__(self) -> str | tuple[Any, ...]:
        if not self._name and self._ref is None:
            return type(self), ()
        if not self._name:
            raise ValueError(f"cannot pickle {type(self).__name__}: only predefined handles can be")
        constant = predefined(self._name)
        if constant is self:
            return predefined, (self._name,)
        return type(self), (constant,)

    @property
    def handle(self) -> int:
        """A number that stands for the same thing; 0 for nothing."""
        if self._ref is None:
            return 0
        number = _numbers.setdefault(id(self._ref), len(_numbers) + 1)
        _numbered.setdefault(number, (type(self), self._ref, self._name))
        return number

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        """Return a handle of what a number stands for."""
        if handle == 0:
            return cls._of(None)
        found = _numbered.get(handle)
        if found is None or not issubclass(found[0], cls._kind):
            raise ValueError(f"{handle} is the number of no {cls._kind.__name__}")
        kind, ref, name = found
        made: Self = kind._of(ref, name)  # type: ignore[assignment]  # of the class it had
        return made

    def toint(self) -> int:
        """Return a number that stands for the same thing."""
        return self.handle

    @classmethod
    def fromint(cls, arg: int) -> Self:
        """Return a handle of what a number stands for."""
        return cls.fromhandle(arg)

    def py2f(self) -> int:
        """Return a number that stands for the same thing, as Fortran would have it."""
        return self.handle

    @classmethod
    def f2py(cls, arg: int) -> Self:
        """Return a handle of what a number of Fortran stands for."""
        return cls.fromhandle(arg)

    def free(self) -> None:
        """Free what it stands for, unless it is predefined or null."""
        if not self._name:
            self._let_go()

    def _let_go(self) -> None:
        """Stand for nothing any more, unless this is MPI's own handle."""
        if not (self._name and predefined(self._name) is self):
            self._stand_for(None, "")


class Handle(HandleMethods):
    """A handle that is nothing else."""

    __slots__ = ("__weakref__", "_name", "_ref")


def predefined(name: str) -> HandleMethods:
    """Return the predefined handle of that name.

    >>> predefined("COMM_WORLD")
    MPI.COMM_WORLD
    """
    return _PREDEFINED[name]
