"""Blocks of all ranks at one of them, the root: it gets them, or gives them, in one step."""

import numpy as np

from ubnet.schedule import INPUT, OUTPUT, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import Ints
from .fan import others


def gathered(name: str, start: Ints, size: Ints, root: int) -> Schedule:
    """Let every rank write its block to the root, which has place for all in its output.

    Parameters
    ----------
    name : str
        Operation and algorithm.
    start, size : ndarray of int64, shape (ranks,)
        Where each rank's block begins at the root, and its elements.
    root : int
        The rank that gets them.
    """
    builder, peer = _begin(name, size, root, own=INPUT, whole=OUTPUT)
    builder.add(0, peer, root, 0, start[peer], size[peer])
    return builder.build()


def scattered(name: str, start: Ints, size: Ints, root: int) -> Schedule:
    """Let the root, which has all in its input, write to every rank its block.

    Parameters
    ----------
    name, start, size, root
        As for `gathered`.
    """
    builder, peer = _begin(name, size, root, own=OUTPUT, whole=INPUT)
    builder.add(0, root, peer, start[peer], 0, size[peer])
    return builder.build()


def _begin(
    name: str, size: Ints, root: int, *, own: int, whole: int
) -> tuple[ScheduleBuilder, Ints]:
    """Return a builder, and the ranks after the root that have a block; it is the first."""
    sizes = np.zeros((len(size), 3), dtype=np.int64)
    sizes[:, own] = size
    sizes[root, whole] = size.sum()
    peer = np.concatenate([[root], others(np.array([root]), len(size))[0]])
    return ScheduleBuilder(name, len(size), sizes), peer[size[peer] > 0]
