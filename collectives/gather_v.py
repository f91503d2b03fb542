"""Gather of uneven blocks: the root gets every rank's block, in rank order."""

from collections.abc import Sequence

from ubnet.schedule import Schedule

from .root_blocks import gathered
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
    return gathered("gather_v mesh", team.start[0], team.size[0], root)


ALGORITHMS = {"mesh": mesh}
