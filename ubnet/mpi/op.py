"""Reduction operations: MPI's own and those of the program."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, and_, mul, or_, xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .datatype import Datatype
from .exception import ERR_OP
from .exception import Exception as MPIException
from .handle import Handle
from .kept import kept
from .memory import buffer

MOST_OWN = 32
"""How many operations of its own a program may have at a time, as in mpi4py."""

Array = NDArray[Any]

NUMBERS = ("integer", "floating", "complex")


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """What an operation does.

    Attributes
    ----------
    on_objects : callable
        ``f(x, y)`` of two Python objects; a program's own function gets None as third argument.
    on_arrays : str, callable or None
        The same on arrays: a name of `ubnet.reductions`, or ``f(left, right) -> array``.
    kinds : tuple of str
        The kinds of datatypes it is defined for; empty: any.
    commutes : bool
        Whether the order of operands may change.
    own : callable or None
        The program's function ``f(in, inout, datatype)``.
    """

    on_objects: Callable[[Any, Any], Any]
    on_arrays: str | Callable[[Array, Array], Array] | None
    kinds: tuple[str, ...] = ()
    commutes: bool = True
    own: Callable[..., Any] | None = None


class Op(Handle):
    """A reduction operation.

    Examples
    --------
    >>> OPS["SUM"](2, 3), OPS["MAXLOC"]((5, 1), (5, 0))
    (5, (5, 0))
    """

    __slots__ = ("_by_number",)

    _by_number: bool

    @property
    def _reduction(self) -> Reduction:
        if self._ref is None:
            raise MPIException(ERR_OP, "the operation is OP_NULL")
        reduction: Reduction = self._ref
        return reduction

    def __call__(self, x: Any, y: Any) -> Any:
        """Combine two Python objects."""
        if self._ref is None or self._anonymous:
            raise ValueError("cannot call user-defined operation")
        return self._reduction.on_objects(x, y)

    @classmethod
    def Create(cls, function: Callable[..., Any], commute: bool = False) -> "Op":
        """Return an operation of the program's own.

        Parameters
        ----------
        function : callable
            ``function(in, inout, datatype)`` combines two buffers of equal length into the second;
            the first is that of the lower rank.
        commute : bool
            Whether the order of operands may change.
        """
        if not callable(function):
            raise TypeError("function: expecting callable")
        own = kept("own operations")
        if len(own) >= MOST_OWN:
            raise RuntimeError(
                f"cannot create too many user-defined reduction operations: there are {MOST_OWN}; "
                "free some by Op.Free"
            )
        objects = Reduction(lambda x, y: function(x, y, None), None, (), bool(commute), function)
        own[id(objects)] = objects
        return cls._of(objects)

    @classmethod
    def fromhandle(cls, handle: int) -> "Op":
        """Return a handle of what a number stands for; a program's function it does not know."""
        made = super().fromhandle(handle)
        made._by_number = True
        return made

    @property
    def _anonymous(self) -> bool:
        return getattr(self, "_by_number", False) and self._ref is not None and not self._name

    def __reduce__(self) -> str | tuple[Any, ...]:
        own = self._ref.own if self and not self._anonymous else None
        if own is None:
            return super().__reduce__()
        return Op.Create, (own, self._reduction.commutes)

    def Is_commutative(self) -> bool:
        """Return whether the order of operands may change."""
        return self._reduction.commutes

    def Free(self) -> None:
        """Free the operation."""
        if self._name:
            raise MPIException(ERR_OP, f"MPI.{self._name} is predefined and cannot be freed")
        kept("own operations").pop(id(self._reduction), None)
        self._let_go()

    def Reduce_local(self, inbuf: Any, inoutbuf: Any) -> None:
        """Combine two buffers of this rank into the second."""
        from .buffers import read_spec

        left = read_spec(inbuf, writable=False)
        right = read_spec(inoutbuf, writable=True)
        if left.datatype != right.datatype:
            raise ValueError("mismatch in send and receive MPI datatypes")
        if left.count != right.count:
            raise ValueError(f"mismatch in send count {left.count} and receive count {right.count}")
        combine = self._combine(left.datatype)
        held = right.elements()
        held[...] = combine(left.elements(), held)

    def _on(self, datatype: Datatype) -> str | Callable[[Array, Array], Array]:
        """Return how arrays of a datatype are combined, as `ubnet.replay.replay` takes it.

        Raises
        ------
        Exception
            Of class ERR_OP if the operation is not defined for the type.
        """
        what = self._reduction
        if what.own is not None:
            return _call_with_buffers(what.own, datatype)
        layout = datatype._layout
        if what.on_arrays is None or layout.kind not in what.kinds:
            raise MPIException(
                ERR_OP, f"MPI.{self._name} is not defined for elements of {layout.name}"
            )
        return what.on_arrays

    def _combine(self, datatype: Datatype) -> Callable[[Array, Array], Array]:
        """Return how arrays of a datatype are combined, as a function."""
        combine = self._on(datatype)
        if isinstance(combine, str):
            from ubnet.reductions import reduction

            return reduction(combine).combine
        return combine

    is_commutative = property(Is_commutative, doc="Whether the order of operands may change.")

    @property
    def is_predefined(self) -> bool:
        """Whether it is one of MPI's own, or null."""
        return self._ref is None or bool(self._name)


Op._kind = Op


def _call_with_buffers(
    function: Callable[..., Any], datatype: Datatype
) -> Callable[[Array, Array], Array]:
    def combine(left: Array, right: Array) -> Array:
        inout = right.copy()
        function(buffer(left.view(np.uint8)), buffer(inout.view(np.uint8)), datatype)
        return inout

    return combine


def _at_extreme(best: Callable[[Any, Any], Any]) -> Reduction:
    """Return MAXLOC or MINLOC: the better value and its index; of equal ones the lower index."""

    def objects(x: Any, y: Any) -> Any:
        (u, i), (v, j) = x, y
        if best(u, v):
            return u, i
        if best(v, u) or j < i:
            return v, j
        return u, i

    def arrays(left: Array, right: Array) -> Array:
        u, v = left["value"], right["value"]
        tie = ~best(u, v) & ~best(v, u)
        keep = best(u, v) | (tie & (left["index"] <= right["index"]))
        return np.where(keep, left, right)

    return Reduction(objects, arrays, ("pair",))


def _greater(x: Any, y: Any) -> Any:
    return x > y


def _less(x: Any, y: Any) -> Any:
    return x < y


_ORDERED = ("integer", "floating")
_TRUTHS = ("integer", "logical")
_BITS = ("integer", "byte")

OPS: dict[str, Op] = {
    name: Op._of(what, name)
    for name, what in {
        "OP_NULL": None,
        "MAX": Reduction(lambda x, y: y if y > x else x, "max", _ORDERED),
        "MIN": Reduction(lambda x, y: y if y < x else x, "min", _ORDERED),
        "SUM": Reduction(add, "sum", NUMBERS),
        "PROD": Reduction(mul, "prod", NUMBERS),
        "LAND": Reduction(lambda x, y: bool(x) & bool(y), "land", _TRUTHS),
        "BAND": Reduction(and_, "band", _BITS),
        "LOR": Reduction(lambda x, y: bool(x) | bool(y), "lor", _TRUTHS),
        "BOR": Reduction(or_, "bor", _BITS),
        "LXOR": Reduction(lambda x, y: bool(x) ^ bool(y), "lxor", _TRUTHS),
        "BXOR": Reduction(xor, "bxor", _BITS),
        "MAXLOC": _at_extreme(_greater),
        "MINLOC": _at_extreme(_less),
        # Of remote accesses alone: they replace what is there, or leave it.
        "REPLACE": Reduction(lambda x, y: y, None, commutes=False),
        "NO_OP": Reduction(lambda x, y: x, None, commutes=False),
    }.items()
}
"""Every predefined operation by its name."""
