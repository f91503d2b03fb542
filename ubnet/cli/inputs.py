"""What a bench sends and what must arrive: small whole numbers from (seed, rank, index).

Whole numbers make every sum exact in every order, so that ``wrong`` counts unequal elements and
nothing needs a tolerance. What must arrive is worked out element by element from the meaning of the
operation, not by running the schedule a second time. The numbers of a rank repeat after a prime
number of them, and every rank begins at another one: filling and comparing is as fast as the
memory, and sums over all ranks repeat, too.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError, did_you_mean
from ubnet.jit import inner_kernel, kernel

LARGEST = 16
"""No number is larger than this."""

CONTIGUOUS = 1 << 60
"""The width of a block that has no end."""

PRIME, SMALL_PRIME = 65_521, 1_259
"""Numbers until a rank's repeat; the small one, times `every`, where most of them are zero."""

APART = 40_493
"""So many numbers later begins the next rank: by the golden ratio, so that near ranks are far."""

DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)
"""The element types that a bench can send."""

Values = NDArray[Any]


def bench_dtype(name: str) -> np.dtype[Any]:
    """Return the element type called `name`.

    >>> bench_dtype("bfloat16").itemsize
    2

    Raises
    ------
    OptionError
        If there is none of that name.
    """
    if name not in DTYPES:
        raise OptionError(f"no element type {name!r}; {did_you_mean(name, DTYPES)}")
    return np.dtype(getattr(ml_dtypes, name, name))


@dataclass(frozen=True, slots=True)
class Numbers:
    """A rule that gives every element of every rank's input its number.

    Attributes
    ----------
    seed : int
        Another seed, other numbers.
    top : int
        The numbers lie in 1..top.
    every : int
        An element is such a number on every so manieth rank and zero on the others, where the
        type could not hold the sum of all of them.
    """

    seed: int
    top: int
    every: int

    @classmethod
    def for_sums(cls, seed: int, dtype: np.dtype[Any], ranks: int) -> "Numbers":
        """Return numbers whose sum over `ranks` ranks is exact in `dtype`.

        >>> Numbers.for_sums(1, np.dtype("float32"), 768)
        Numbers(seed=1, top=16, every=1)
        >>> Numbers.for_sums(1, np.dtype("int8"), 768)
        Numbers(seed=1, top=1, every=7)
        """
        limit = _largest_exact(dtype)
        top = min(LARGEST, limit // max(ranks, 1))
        return cls(seed, max(top, 1), 1 if top else -(-ranks // limit))

    def fill(
        self, values: Values, rank: int, first: int = 0, width: int = CONTIGUOUS, unit: int = 0
    ) -> None:
        """Write rank `rank`'s numbers into `values`.

        Element ``p`` gets the number of index ``first + p // width * unit + p % width``.
        """
        at, source, index, count = np.array([[0], [rank], [first], [len(values)]])
        self.fill_parts(values, at, source, index, count, width, unit)

    def fill_parts(
        self,
        values: Values,
        at: Values,
        source: Values,
        first: Values,
        count: Values,
        width: int = CONTIGUOUS,
        unit: int = 0,
    ) -> None:
        """Write numbers of many ranks into parts of `values`; parameters as in `wrong_moved`."""
        if native(values.dtype):
            table = _table_in(self, values.dtype)
            _repeat_parts(values, table, at, first + self._begin(source), count, width, unit)
            return
        for k, start in enumerate(at):
            part = np.empty(count[k], dtype=np.float32)
            self.fill(part, source[k], first[k], width, unit)
            values[start : start + count[k]] = part.astype(values.dtype)

    def wrong_moved(
        self,
        values: Values,
        at: Values,
        source: Values,
        first: Values,
        count: Values,
        width: int = CONTIGUOUS,
        unit: int = 0,
    ) -> int:
        """Count the elements of `values` that are not what was to be moved into them.

        Parameters
        ----------
        values : ndarray
            What arrived.
        at, source, first, count : ndarray of int64, shape (parts,)
            Part ``k`` of `values` starts at ``at[k]`` and must hold ``count[k]`` numbers of rank
            ``source[k]``'s input, from index ``first[k]`` on.
        width, unit : int
            Which numbers follow it, as in `fill`.
        """
        there = _readable(values)
        begin = first + self._begin(source)
        table = _table_in(self, there.dtype)
        return int(_unequal_parts(there, table, at, begin, count, width, unit))

    def wrong_sums(
        self,
        values: Values,
        ranks: int,
        at: Values,
        first: Values,
        count: Values,
        width: int = CONTIGUOUS,
        unit: int = 0,
    ) -> int:
        """Count the elements of parts of `values` that are not sums over all ranks."""
        if native(values.dtype):
            table = _sums_in(self, ranks, values.dtype)
            return int(_unequal_parts(values, table, at, first, count, width, unit))
        wrong, table = 0, _sums_in(self, ranks, np.dtype(np.float32))
        for start, begin, n in zip(at, first, count, strict=True):
            wrong += wrong_repeated(values[start : start + n], table, begin, width, unit)
        return wrong

    def of_rank(self, rank: int) -> Values:
        """Return a rank's numbers from index 0 until they repeat, int64."""
        table = _table(self)
        return np.roll(table, -self._begin(rank) % len(table))

    def _begin(self, rank: Any) -> Any:
        """Return where in the table a rank's numbers begin; zeros stay where they belong."""
        return rank * (APART * self.every) + rank % self.every


def wrong_repeated(
    values: Values, numbers: Values, first: int = 0, width: int = CONTIGUOUS, unit: int = 0
) -> int:
    """Count the elements of `values` that are not `numbers`, which repeat; indices as in `fill`."""
    there = _readable(values)
    at, index, count = np.array([[0], [first], [len(there)]])
    table = numbers.astype(there.dtype)
    return int(_unequal_parts(there, table, at, index, count, width, unit))


def native(dtype: np.dtype[Any]) -> bool:
    """Say whether kernels know an element type; the others pass through float32."""
    return dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize >= 4)


def _readable(values: Values) -> Values:
    return values if native(values.dtype) else values.astype(np.float32)


def _largest_exact(dtype: np.dtype[Any]) -> int:
    """Return the largest 2^k - 1 for which all of 0..2^k - 1 are exact in an element type."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    limit = 1
    while int(dtype.type(2 * limit + 1)) == 2 * limit + 1:
        limit = 2 * limit + 1
    return limit


@lru_cache(maxsize=16)
def _table(numbers: Numbers) -> Values:
    """Return the numbers that every rank sends, beginning at places of their own, int64."""
    period = PRIME if numbers.every == 1 else SMALL_PRIME * numbers.every
    index = np.arange(period)
    # A 32-bit mixer (multiply and shift, after MurmurHash3's last step).
    mixed = (index * 0x9E3779B1 + numbers.seed % (1 << 32) * 0x42B2AE3D) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 13)) * 0x297A2D39) & 0xFFFFFFFF
    found = 1 + ((mixed ^ (mixed >> 16)) * numbers.top >> 32)
    return np.where(index % numbers.every == 0, found, 0)


@lru_cache(maxsize=16)
def _table_in(numbers: Numbers, dtype: np.dtype[Any]) -> Values:
    return _table(numbers).astype(dtype)


@lru_cache(maxsize=16)
def _sums_in(numbers: Numbers, ranks: int, dtype: np.dtype[Any]) -> Values:
    """Return the sums over all ranks, which repeat like the numbers; the type holds them."""
    total = np.zeros_like(_table(numbers))
    for rank in range(ranks):
        total += numbers.of_rank(rank)
    return total.astype(dtype)


@kernel
def _repeat_parts(
    values: Values,
    table: Values,
    at: Values,
    first: Values,
    count: Values,
    width: int,
    unit: int,
) -> None:
    for k in range(len(at)):
        _repeat(values[at[k] : at[k] + count[k]], table, first[k], width, unit)


@inner_kernel
def _repeat(values: Values, table: Values, first: int, width: int, unit: int) -> None:
    for begin in range(0, len(values), width):
        part = values[begin : begin + width]
        done, at = 0, (first + begin // width * unit) % len(table)
        while done < len(part):
            run = min(len(part) - done, len(table) - at)
            there, here = table[at : at + run], part[done : done + run]
            for i in range(len(here)):
                here[i] = there[i]
            done, at = done + run, 0


@inner_kernel
def _unequal(values: Values, table: Values, first: int, width: int, unit: int) -> int:
    wrong = 0
    for begin in range(0, len(values), width):
        part = values[begin : begin + width]
        done, at = 0, (first + begin // width * unit) % len(table)
        while done < len(part):
            run = min(len(part) - done, len(table) - at)
            there, here = table[at : at + run], part[done : done + run]
            for i in range(len(here)):
                wrong += here[i] != there[i]
            done, at = done + run, 0
    return wrong


@kernel
def _unequal_parts(
    values: Values,
    table: Values,
    at: Values,
    first: Values,
    count: Values,
    width: int,
    unit: int,
) -> int:
    wrong = 0
    for k in range(len(at)):
        wrong += _unequal(values[at[k] : at[k] + count[k]], table, first[k], width, unit)
    return wrong
