"""A table of a user's TOML file, read strictly: a typo is answered with the key and the place."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from string import Formatter
from typing import Any

from ubnet.errors import FabricError, UnitError, did_you_mean
from ubnet.units import parse_rate, parse_time

MOST = 1_000_000
"""An entry stands for no more endpoints, switches or links than this."""

HIGHEST = 1e6
"""The largest plain number, such as a share."""

_REQUIRED = object()
_WIDTH = re.compile(r"(0?[1-9])?\Z")


class TomlTable:
    """One table of a file, with its place in it for errors.

    Parameters
    ----------
    place : str
        Where it stands, such as ``my.toml, [[links]] number 2``.
    values : mapping
        What tomllib read.
    allowed : sequence of str
        The keys that it may have.

    Raises
    ------
    FabricError
        If it has another key.
    """

    def __init__(self, place: str, values: Any, allowed: Sequence[str]) -> None:
        self.place = place
        if not isinstance(values, Mapping):
            raise FabricError(f"{place} must be a table with the keys {', '.join(allowed)}")
        self.values = values
        for key in values:
            if key not in allowed:
                near = did_you_mean(key, allowed)
                near = "" if near.startswith("allowed") else f"; {near}"
                raise FabricError(
                    f"{place} has no key {key!r}{near} (allowed: {', '.join(allowed)})"
                )

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def tables(self, key: str, allowed: Sequence[str]) -> Iterator["TomlTable"]:
        """Yield the tables of an array such as ``[[links]]``."""
        entries = self.values.get(key, [])
        if not isinstance(entries, list):
            raise FabricError(f"{self.place}: write [[{key}]] with two brackets, once for each")
        for number, entry in enumerate(entries, start=1):
            yield TomlTable(f"{self.place}, [[{key}]] number {number}", entry, allowed)

    def named(self, key: str, allowed: Sequence[str]) -> Iterator[tuple[str, "TomlTable"]]:
        """Yield the tables with names of their own, such as ``[planes.ub]``."""
        entries = self.values.get(key, {})
        if not isinstance(entries, Mapping):
            raise FabricError(f"{self.place}: write [{key}.NAME], once for each")
        for name, entry in entries.items():
            yield name, TomlTable(f"{self.place}, [{key}.{name}]", entry, allowed)

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """Return a text."""
        return str(self._typed(key, default, str, f'write {key} = "..."'))

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        return bool(self._typed(key, default, bool, f"write {key} = true or false"))

    def whole(self, key: str, default: int) -> int:
        """Return a whole number from 1 to `MOST`."""
        right = f"write {key} = 1 or more, up to {MOST}"
        number = self._typed(key, default, int, right)
        if isinstance(number, bool) or not 1 <= number <= MOST:
            raise FabricError(f"{self.place}: {key} is {number!r}; {right}")
        return int(number)

    def number(self, key: str, default: float, *, low: float) -> float:
        """Return a number of at least `low`."""
        value = self._typed(key, default, (int, float), f"write {key} = {low:g} or more")
        if isinstance(value, bool) or not low <= value <= HIGHEST:
            raise FabricError(f"{self.place}: {key} is {value!r}; write {low:g} or more")
        return float(value)

    def rate(self, key: str, default: Any = _REQUIRED) -> float:
        """Return a rate above zero in bytes/s, from a text with its unit."""
        if key not in self.values and default is not _REQUIRED:
            return float(default)
        rate = self._quantity(key, parse_rate, f'write {key} = "200GB/s" or "400Gb/s"')
        if not rate > 0:
            raise FabricError(f"{self.place}: {key} is 0, give a rate above 0")
        return rate

    def time(self, key: str, default: int) -> int:
        """Return a time in picoseconds, from a text with its unit."""
        if key not in self.values:
            return default
        return int(self._quantity(key, parse_time, f'write {key} = "100ns"'))

    def names(self, key: str, allowed: Sequence[str]) -> dict[str, str]:
        """Return a small table of texts, such as ``engine = {write = "dma"}``."""
        inner = TomlTable(f"{self.place}, {key}", self.values.get(key, {}), allowed)
        return {name: inner.text(name) for name in inner.values}

    def loop(self) -> list[dict[str, Any]]:
        """Return the values of the variables of ``for``, one row a turn, the last runs fastest."""
        ranges = self._typed("for", {}, Mapping, "write for = {n = 2, d = 16}")
        values = {name: self._range(name, count) for name, count in ranges.items()}
        turns = 1
        for choices in values.values():
            turns *= len(choices)
        if turns > MOST:
            raise FabricError(f"{self.place}: for makes {turns} entries, at most {MOST}")
        return [dict(zip(values, turn, strict=True)) for turn in product(*values.values())]

    def fill(self, key: str, turn: Mapping[str, Any], default: str | None = None) -> str:
        """Return a text with its ``{variables}`` replaced by those of a turn."""
        pattern = self.text(key) if default is None else self.text(key, default)
        for name in self._variables(key, pattern):
            if name not in turn:
                known = ", ".join(turn) or "none: write for = {n = 2}"
                raise FabricError(
                    f"{self.place}: {key} = {pattern!r} uses {{{name}}}, which for does not "
                    f"give (it gives {known})"
                )
        return pattern.format_map(turn)

    def _variables(self, key: str, pattern: str) -> list[str]:
        """Return the variables of a pattern; Python's other ways to format are refused."""
        try:
            parts = [part[1:] for part in Formatter().parse(pattern) if part[1] is not None]
        except ValueError:
            parts = [("", "", None)]
        for name, width, conversion in parts:
            plain = (name or "").isidentifier() and conversion is None
            if not plain or not _WIDTH.match(width or ""):
                raise FabricError(
                    f"{self.place}: {key} = {pattern!r} is no pattern; write {{n}} or {{n:02}}"
                )
        return [str(name) for name, _, _ in parts]

    def _range(self, name: str, count: Any) -> Sequence[Any]:
        if isinstance(count, list) and all(type(value) in (int, str) for value in count):
            return count
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST:
            return range(count)
        raise FabricError(
            f"{self.place}: for.{name} is {count!r}; write a count such as 16 or a list [0, 2, 5]"
        )

    def _typed(self, key: str, default: Any, kind: Any, right: str) -> Any:
        value = self.values.get(key, default)
        if value is _REQUIRED:
            raise FabricError(f"{self.place} needs {key}: {right}")
        if not isinstance(value, kind):
            raise FabricError(f"{self.place}: {key} is {value!r}; {right}")
        return value

    def _quantity(self, key: str, parse: Callable[[str], float], right: str) -> float:
        text = self._typed(key, _REQUIRED, str, right)
        try:
            return parse(text)
        except UnitError as error:
            raise FabricError(f"{self.place}: {key}: {error}") from None
