"""Scatter of uneven blocks: rank r gets its block of the root's array."""

from collections.abc import Sequence

from ubnet.schedule import Schedule

from .root_blocks import scattered
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
    return scattered("scatter_v mesh", team.start[0], team.size[0], root)


ALGORITHMS = {"mesh": mesh}
