"""Info: hints by name, which change nothing here and are kept as they were given."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from .exception import ERR_INFO, ERR_INFO_KEY, ERR_INFO_NOKEY, ERR_INFO_VALUE
from .exception import Exception as MPIException
from .handle import Handle

MAX_INFO_KEY, MAX_INFO_VAL = 255, 4096

Items = Mapping[str, str] | Iterable[tuple[str, str]]

_MISSING = object()


class Info(Handle):
    """Hints by name; it is used as a dict, too.

    Examples
    --------
    >>> hints = Info.Create({"a": "1"})
    >>> hints["b"] = "2"
    >>> hints.items(), hints.Get("c")
    ([('a', '1'), ('b', '2')], None)
    """

    __slots__ = ()

    @property
    def _hints(self) -> dict[str, str]:
        if self._ref is None:
            raise MPIException(ERR_INFO, "the info is INFO_NULL")
        hints: dict[str, str] = self._ref
        return hints

    @classmethod
    def Create(cls, items: Items | None = None) -> Self:
        """Return new hints."""
        made = cls._of({})
        if items is not None:
            made.update(items)
        return made

    @classmethod
    def Create_env(cls, args: Sequence[str] | None = None) -> Self:
        """Return what is known of the start of the program."""
        if isinstance(args, str):
            args = [args]
        return cls._of(_surroundings(args))

    def Free(self) -> None:
        """Let the hints go; the handle is INFO_NULL then."""
        _ = self._hints
        self._let_go()

    def Dup(self) -> Self:
        """Return other hints that say the same."""
        return type(self)._of(dict(self._hints))

    def Get(self, key: str) -> str | None:
        """Return a hint, None if there is none."""
        return self._hints.get(_key(key))

    def Set(self, key: str, value: str) -> None:
        """Set a hint."""
        if len(value) > MAX_INFO_VAL:
            raise MPIException(ERR_INFO_VALUE, f"a value of {len(value)} characters")
        self._hints[_key(key)] = str(value)

    def Delete(self, key: str) -> None:
        """Take a hint away."""
        if self._hints.pop(_key(key), None) is None:
            raise MPIException(ERR_INFO_NOKEY, f"there is no hint {key!r}")

    def Get_nkeys(self) -> int:
        """Return the number of hints."""
        return len(self._hints)

    def Get_nthkey(self, n: int) -> str:
        """Return the name of hint n, in the order in which they were set."""
        names = list(self._hints)
        if not 0 <= n < len(names):
            raise MPIException(ERR_INFO_KEY, f"hint {n} of {len(names)}")
        return names[n]

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._name or self._ref is None:
            return super().__reduce__()
        return Info.Create, (dict(self._hints),)

    def __len__(self) -> int:
        return len(self._ref) if self else 0

    def __bool__(self) -> bool:
        return self._ref is not None

    def __contains__(self, key: str) -> bool:
        return bool(self) and key in self._hints

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, key: str) -> str:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return str(value)

    def __setitem__(self, key: str, value: str) -> None:
        if not self:
            raise KeyError(key)
        self.Set(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self.Delete(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a hint, or `default`."""
        return self._hints.get(key, default) if self else default

    def keys(self) -> list[str]:
        """Return the names of the hints."""
        return list(self._ref or ())

    def values(self) -> list[str]:
        """Return what the hints say."""
        return list((self._ref or {}).values())

    def items(self) -> list[tuple[str, str]]:
        """Return names and what they say."""
        return list((self._ref or {}).items())

    def update(self, items: Items = (), **more: str) -> None:
        """Set hints from a mapping or from pairs."""
        if not self:
            raise KeyError("INFO_NULL holds no hints")
        for key, value in dict(items, **more).items():
            self.Set(key, value)

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Take a hint away and return it."""
        if key in self:
            value = self[key]
            self.Delete(key)
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[str, str]:
        """Take the last hint away and return its name and what it says."""
        if not len(self):
            raise KeyError("popitem: there are no hints")
        key = self.keys()[-1]
        return key, str(self.pop(key))

    def copy(self) -> Self:
        """Return other hints that say the same."""
        return self.Dup() if self else type(self)._of(None)

    def clear(self) -> None:
        """Take all hints away."""
        if self:
            self._hints.clear()


Info._kind = Info


def _key(key: str) -> str:
    if not 0 < len(key) <= MAX_INFO_KEY:
        raise MPIException(ERR_INFO_KEY, f"a name of {len(key)} characters")
    return key


def _surroundings(args: Sequence[str] | None = None) -> dict[str, str]:
    command, *rest = list(args or ()) or [sys.executable, *sys.argv]
    return {"command": command, "argv": " ".join(rest), "thread_level": "MPI_THREAD_FUNNELED"}


INFO_NULL = Info._of(None, "INFO_NULL")
INFO_ENV = Info._of(_surroundings(), "INFO_ENV")
