"""Gather of uneven blocks: the root gets every rank's block, in rank order."""

from collections.abc import Sequence

import numpy as np

from ubnet.schedule import OUTPUT, Schedule, ScheduleBuilder

from .fan import others
from .uneven import blocks


def mesh(counts: Sequence[int], *, root: int = 0) -> Schedule:
    """Let every other rank write its block to the root, all in one step.

    Parameters
    ----------
    counts : sequence of int
        Elements of each rank's block; they stand one behind the other at the root.
    root : int
        The rank that gets them all, in its output.

    Examples
    --------
    >>> mesh([2, 0, 1])
    <Schedule gather_v mesh: 3 ranks, 2 operations, 1 steps>
    """
    team = blocks(counts)
    start, size = team.start[0], team.size[0]
    sizes = np.zeros((len(size), 3), dtype=np.int64)
    sizes[:, 0] = size
    sizes[root, OUTPUT] = size.sum()
    builder = ScheduleBuilder("gather_v mesh", len(size), sizes)
    if size[root]:
        builder.add(0, root, root, 0, start[root], size[root])
    peer = others(np.array([root]), len(size))[0]
    peer = peer[size[peer] > 0]
    builder.add(0, peer, root, 0, start[peer], size[peer])
    return builder.build()


ALGORITHMS = {"mesh": mesh}
