"""Rows of different lengths behind each other in one array, with pointers to where each begins."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SPARSE = 8
"""Keys are sorted where there is less than one in so many."""


def pointers(lengths: NDArray[Any]) -> Ints:
    """Return where each row begins, and behind the last where it ends.

    >>> pointers(np.array([2, 0, 3]))
    array([0, 2, 2, 5])
    """
    ptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return ptr


def owners(ptr: Ints) -> Ints:
    """Return the row of every entry.

    >>> owners(np.array([0, 2, 2, 5]))
    array([0, 0, 2, 2, 2])
    """
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def number_of(key: Ints) -> tuple[Ints, Ints]:
    """Return the different keys, ascending, and for each entry the place of its key among them.

    As `numpy.unique` does, but without sorting where the keys, from 0 on, lie close together.

    >>> number_of(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))
    """
    end = int(key.max(initial=-1)) + 1
    if end > SPARSE * len(key) + SPARSE:
        found, number = np.unique(key, return_inverse=True)
        return found, number
    there = np.zeros(end, dtype=bool)
    there[key] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[key]


def take_rows(ptr: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the pointers of some rows put behind each other, and the entries they hold.

    >>> take_rows(np.array([0, 2, 2, 5]), np.array([2, 0]))
    (array([0, 3, 5]), array([2, 3, 4, 0, 1]))
    """
    first = ptr[rows]
    taken = pointers(ptr[rows + 1] - first)
    entries = np.arange(taken[-1]) + np.repeat(first - taken[:-1], np.diff(taken))
    return taken, entries
