"""Descriptors: lists of (address, length, device) as arrays, and strided ones written out.

A list is an array of shape (n, 3), as NIXL takes it. Two lists of one shape make the rows (source
address, target address, length) of a transfer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import OptionError

Ints = NDArray[np.int64]
TOP = 2**63


@dataclass(frozen=True, slots=True)
class Strided:
    """Equal runs of bytes at equal distances: one row of a table instead of thousands.

    Attributes
    ----------
    address, length : int
        The first run.
    stride, count : int
        Bytes from the begin of one to that of the next, and how many.
    device : int
        The device number of all.

    Examples
    --------
    >>> Strided(4096, length=64, stride=256, count=3).rows().tolist()
    [[4096, 64, 0], [4352, 64, 0], [4608, 64, 0]]
    """

    address: int
    length: int
    stride: int
    count: int
    device: int = 0

    def rows(self) -> Ints:
        """Write it out, shape (count, 3).

        Raises
        ------
        OptionError
            If a figure is negative.
        """
        if min(self.address, self.length, self.stride, self.count, self.device) < 0:
            raise OptionError(f"a strided descriptor has no negative figures: {self}")
        out = np.empty((self.count, 3), dtype=np.int64)
        out[:, 0] = self.address + np.arange(self.count) * self.stride
        out[:, 1], out[:, 2] = self.length, self.device
        return out


def as_descriptors(given: ArrayLike | Strided | list[Strided]) -> Ints:
    """Return descriptors as an array of shape (n, 3): address, length, device.

    Parameters
    ----------
    given : array_like of int, `Strided` or list of `Strided`
        Rows of address, length and, where there are three columns, device.

    Raises
    ------
    OptionError
        For another shape, negative or fractional numbers, or an end beyond 2**63.

    Examples
    --------
    >>> as_descriptors([(4096, 64), (8192, 64)]).tolist()
    [[4096, 64, 0], [8192, 64, 0]]
    >>> len(as_descriptors([Strided(0, 8, 16, 100), Strided(4096, 8, 16, 20)]))
    120
    """
    if isinstance(given, Strided):
        return given.rows()
    if isinstance(given, list) and given and all(isinstance(d, Strided) for d in given):
        return np.concatenate([d.rows() for d in given if isinstance(d, Strided)])
    rows = np.asarray(given)
    if rows.size == 0:
        return np.zeros((0, 3), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] not in (2, 3) or rows.dtype.kind not in "iu":
        raise OptionError(
            f"descriptors are whole numbers of shape (n, 3): address, length, device; given: "
            f"{rows.dtype} of shape {rows.shape}"
        )
    wrong = rows < 0 if rows.dtype.kind == "i" else rows >= np.uint64(TOP)
    out = np.zeros((len(rows), 3), dtype=np.int64)
    out[:, : rows.shape[1]] = rows
    # Only a row whose sum passes 2**63 turns negative here.
    bad = wrong.any(axis=1) | (out[:, 0] + out[:, 1] < 0)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise OptionError(
            f"descriptor {i} is {rows[i].tolist()}; addresses and lengths are 0 or more and end "
            "below 2**63"
        )
    return out


def arrays_among(given: Any) -> list[NDArray[Any]] | None:
    """Return the arrays of a list of memory, None for descriptors."""
    if isinstance(given, list) and given and all(isinstance(a, np.ndarray) for a in given):
        return given
    return None


def pair_rows(source: Ints, target: Ints) -> Ints:
    """Return (source address, target address, length) of two lists that match run by run.

    Raises
    ------
    OptionError
        If they differ in number, or two runs differ in length.

    Examples
    --------
    >>> pair_rows(as_descriptors([(0, 8)]), as_descriptors([(64, 8)])).tolist()
    [[0, 64, 8]]
    """
    if len(source) != len(target):
        raise OptionError(
            f"{len(source)} source descriptors and {len(target)} target descriptors: give as many "
            "of each"
        )
    differ = np.flatnonzero(source[:, 1] != target[:, 1])
    if len(differ):
        i = int(differ[0])
        raise OptionError(
            f"descriptor {i} is {source[i, 1]} bytes long at the source and {target[i, 1]} at the "
            "target: give both the same length"
        )
    return np.stack([source[:, 0], target[:, 0], source[:, 1]], axis=1)
