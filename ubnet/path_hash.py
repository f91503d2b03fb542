"""The hash by which policies pick one of several equal paths: fixed, so that runs repeat."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def path_hash(*columns: ArrayLike) -> NDArray[np.uint64]:
    """Mix whole numbers (source, destination, flow ...) into 64 bits, one a flow.

    Each column is folded in by one round of splitmix64, so that neighbouring endpoints land far
    apart and the order of the columns counts.

    Parameters
    ----------
    *columns : array_like of int
        Columns that broadcast together.

    Returns
    -------
    ndarray of uint64

    Examples
    --------
    >>> path_hash([0, 1, 2], 5, 0) % 16
    array([5, 3, 3], dtype=uint64)
    """
    parts = np.broadcast_arrays(*(np.atleast_1d(np.asarray(c, dtype=np.int64)) for c in columns))
    state = np.zeros(parts[0].shape, dtype=np.uint64)
    for part in parts:
        state = (state ^ part.astype(np.uint64)) + _GOLDEN
        state = (state ^ (state >> np.uint64(30))) * _MIX1
        state = (state ^ (state >> np.uint64(27))) * _MIX2
        state ^= state >> np.uint64(31)
    return state


def pick(hashed: NDArray[np.uint64], choices: int) -> NDArray[np.int64]:
    """Turn hashes into numbers from 0 to `choices` - 1."""
    return (hashed % np.uint64(choices)).astype(np.int64)
