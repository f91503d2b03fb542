"""What a bench sends and what must arrive: small whole numbers from (seed, rank, index).

Whole numbers make every sum exact in every order, so that ``wrong`` counts unequal elements and
nothing needs a tolerance. What must arrive is worked out element by element from the meaning of the
operation, not by running the schedule a second time.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError, did_you_mean
from ubnet.jit import kernel

LARGEST = 16
"""No number is larger than this."""

CONTIGUOUS = 1 << 60
"""The width of a block that has no end."""

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
        if native(values.dtype):
            _fill(values, self.seed, rank, first, width, unit, self.top, self.every)
            return
        whole = np.empty(len(values), dtype=np.float32)
        _fill(whole, self.seed, rank, first, width, unit, self.top, self.every)
        values[:] = whole.astype(values.dtype)

    def wrong_moved(
        self, values: Values, at: Values, source: Values, first: Values, count: Values
    ) -> int:
        """Count the elements of `values` that are not what was to be moved into them.

        Parameters
        ----------
        values : ndarray
            What arrived.
        at, source, first, count : ndarray of int64, shape (parts,)
            Part ``k`` of `values` starts at ``at[k]`` and must hold ``count[k]`` numbers of rank
            ``source[k]``'s input, from index ``first[k]`` on.
        """
        return int(
            _wrong_moved(
                _readable(values), at, source, first, count, self.seed, self.top, self.every
            )
        )

    def sums(
        self, count: int, ranks: int, first: int = 0, width: int = CONTIGUOUS, unit: int = 0
    ) -> Values:
        """Return sums over all ranks, int64 (count,); indices as for `fill`."""
        total = np.zeros(count, dtype=np.int64)
        for begin in range(0, count, width):
            index = first + begin // width * unit
            _add_ranks(total[begin : begin + width], ranks, index, self.seed, self.top, self.every)
        return total


def wrong_equal(values: Values, expected: Values) -> int:
    """Count the elements of `values` that differ from those expected (whole numbers)."""
    return int(_wrong_equal(_readable(values), expected))


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


@kernel
def _number(seed: int, rank: int, index: int, top: int) -> int:
    # A 32-bit mixer (multiply and shift, after MurmurHash3's last step), masked so that Python's
    # own integers give the same numbers as the compiled 64-bit ones.
    mixed = (index * 0x9E3779B1 + rank * 0x85EBCA77 + seed * 0xC2B2AE3D) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 13)) * 0x297A2D39) & 0xFFFFFFFF
    return 1 + ((mixed ^ (mixed >> 16)) * top >> 32)


@kernel
def _fill(
    values: Values, seed: int, rank: int, first: int, width: int, unit: int, top: int, every: int
) -> None:
    for begin in range(0, len(values), width):
        part, index = values[begin : begin + width], first + begin // width * unit
        if every == 1:
            for i in range(len(part)):
                part[i] = _number(seed, rank, index + i, top)
            continue
        for i in range(len(part)):
            present = (rank + index + i) % every == 0
            part[i] = _number(seed, rank, index + i, top) if present else 0


@kernel
def _wrong_moved(
    values: Values,
    at: Values,
    source: Values,
    first: Values,
    count: Values,
    seed: int,
    top: int,
    every: int,
) -> int:
    wrong = 0
    for k in range(len(at)):
        part, rank, begin = values[at[k] : at[k] + count[k]], source[k], first[k]
        if every == 1:
            for i in range(len(part)):
                wrong += part[i] != _number(seed, rank, begin + i, top)
            continue
        for i in range(len(part)):
            present = (rank + begin + i) % every == 0
            wrong += part[i] != (_number(seed, rank, begin + i, top) if present else 0)
    return wrong


@kernel
def _add_ranks(total: Values, ranks: int, first: int, seed: int, top: int, every: int) -> None:
    block = 2048  # sums that stay in the nearest cache while all ranks pass over them
    for start in range(0, len(total), block):
        end = min(start + block, len(total))
        for rank in range(ranks):
            if every == 1:
                for i in range(start, end):
                    total[i] += _number(seed, rank, first + i, top)
                continue
            for i in range(start, end):
                if (rank + first + i) % every == 0:
                    total[i] += _number(seed, rank, first + i, top)


@kernel
def _wrong_equal(values: Values, expected: Values) -> int:
    wrong = 0
    for i in range(len(values)):
        wrong += values[i] != expected[i]
    return wrong
