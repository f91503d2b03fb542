"""What a block of operations waits for, in the forms in which a schedule's builder takes it."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import ScheduleError

Ints = NDArray[np.int64]


def waits(after: Any, shape: tuple[int, ...], name: str) -> tuple[Ints, Ints]:
    """Return how many operations each of a block waits for, and which.

    Parameters
    ----------
    after : array_like of int, (ptr, dep) or None
        As `ubnet.schedule_builder.ScheduleBuilder.add` takes it.
    shape : tuple of int
        The shape of the block.
    name : str
        The schedule's name, for messages.

    Returns
    -------
    counts : ndarray of int64, shape (operations,)
    deps : ndarray of int64, shape (sum of counts,)

    Raises
    ------
    ScheduleError
        If the shapes do not go together.

    Examples
    --------
    >>> waits([[4, -1], [5, 6]], (2,), "pair")
    (array([1, 2]), array([4, 5, 6]))
    """
    total = prod(shape)
    if after is None:
        return np.zeros(total, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if isinstance(after, tuple):
        return _compressed(after, total, name)
    wanted = np.asarray(after, dtype=np.int64)
    several = wanted.ndim == len(shape) + 1
    full = (*shape, wanted.shape[-1]) if several else (*shape, 1)
    try:
        spread = np.broadcast_to(wanted if several else wanted[..., None], full)
    except ValueError:
        raise ScheduleError(
            f"after has shape {wanted.shape} for a block of shape {shape} in schedule {name}; "
            f"give one operation each, shape {shape}, or d of them, one axis more"
        ) from None
    rows = spread.reshape(total, full[-1])
    there = rows >= 0
    return there.sum(axis=1), rows[there]


def _compressed(after: tuple[Any, ...], total: int, name: str) -> tuple[Ints, Ints]:
    """Return counts and dependencies of a pair in compressed rows."""
    ptr, dep = (np.asarray(part, dtype=np.int64) for part in after)
    if len(ptr) != total + 1 or ptr[0] != 0 or ptr[-1] != len(dep):
        raise ScheduleError(
            f"after=(ptr, dep) of schedule {name} has {len(ptr)} pointers and {len(dep)} entries; "
            f"{total} operations need {total + 1}, from 0 to the number of entries"
        )
    return np.diff(ptr), dep
