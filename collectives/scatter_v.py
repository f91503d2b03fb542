"""Scatter of uneven blocks: rank r gets its block of the root's array."""

from collections.abc import Sequence

import numpy as np

from ubnet.schedule import INPUT, Schedule, ScheduleBuilder

from .fan import others
from .uneven import blocks


def mesh(counts: Sequence[int], *, root: int = 0) -> Schedule:
    """Let the root write every other rank's block to it, all in one step.

    Parameters
    ----------
    counts : sequence of int
        Elements of each rank's block; they stand one behind the other at the root.
    root : int
        The rank that has them all, in its input.

    Examples
    --------
    >>> mesh([2, 0, 1])
    <Schedule scatter_v mesh: 3 ranks, 2 operations, 1 steps>
    """
    team = blocks(counts)
    start, size = team.start[0], team.size[0]
    sizes = np.zeros((len(size), 3), dtype=np.int64)
    sizes[:, 1] = size
    sizes[root, INPUT] = size.sum()
    builder = ScheduleBuilder("scatter_v mesh", len(size), sizes)
    if size[root]:
        builder.add(0, root, root, start[root], 0, size[root])
    peer = others(np.array([root]), len(size))[0]
    peer = peer[size[peer] > 0]
    builder.add(0, root, peer, start[peer], 0, size[peer])
    return builder.build()


ALGORITHMS = {"mesh": mesh}
