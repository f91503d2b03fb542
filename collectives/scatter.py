"""Scatter: rank r gets block r of the root's array."""

import numpy as np

from ubnet.schedule import INPUT, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import turned
from .root_blocks import scattered
from .tree import downwards, subtree


def mesh(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Let the root write every other rank's block to it, all in one step.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of a block.
    root : int
        The rank that has them all, in its input.

    Examples
    --------
    >>> mesh(4, 10, root=2)
    <Schedule scatter mesh: 4 ranks, 4 operations, 1 steps>
    """
    return scattered("scatter mesh", np.arange(ranks) * count, np.full(ranks, count), root)


def binomial(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Hand on half of what a rank holds, in ceil(log2 n) steps, by way of scratch.

    A rank begins its next send when the last one has arrived, so that they do not share its engine.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    """
    sizes = np.tile([0, count, 0], (ranks, 1))
    sizes[root, INPUT] = ranks * count
    sizes[:, SCRATCH] = np.roll(subtree(ranks), root) * count
    builder = ScheduleBuilder("scatter binomial", ranks, sizes)
    if not count:
        return builder.build()
    rank = (np.arange(ranks) + root) % ranks
    from_root, from_zero, blocks = turned(ranks, root)
    source, target = from_zero * count, from_root * count
    held = builder.add(0, root, root, source, target, blocks * count, dst_buf=SCRATCH)
    last = np.full(ranks, builder.join(0, root, held)[0])
    for edges in downwards(ranks):
        last[edges.parent] = last[edges.child] = builder.add(
            edges.step,
            rank[edges.parent],
            rank[edges.child],
            (edges.child - edges.parent) * count,
            0,
            edges.below * count,
            src_buf=SCRATCH,
            dst_buf=SCRATCH,
            after=last[edges.parent],
        )
    builder.add(0, rank, rank, 0, 0, count, src_buf=SCRATCH, after=last)
    return builder.build()


ALGORITHMS = {"mesh": mesh, "binomial": binomial}
