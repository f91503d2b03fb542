"""Gather: the root gets every rank's block, in rank order."""

import numpy as np

from ubnet.schedule import OUTPUT, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import turned
from .root_blocks import gathered
from .tree import subtree, upwards


def mesh(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Let every rank write its block to the root, all in one step.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of every rank's block.
    root : int
        The rank that gets them, in its output.

    Examples
    --------
    >>> mesh(4, 10, root=2)
    <Schedule gather mesh: 4 ranks, 4 operations, 1 steps>
    """
    return gathered("gather mesh", np.arange(ranks) * count, np.full(ranks, count), root)


def binomial(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Collect ever longer runs of blocks in scratch, in ceil(log2 n) steps.

    A rank sends when it has its whole run and the receiver has its last one.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    """
    sizes = np.tile([count, 0, 0], (ranks, 1))
    sizes[root, OUTPUT] = ranks * count
    sizes[:, SCRATCH] = np.roll(subtree(ranks), root) * count
    builder = ScheduleBuilder("gather binomial", ranks, sizes)
    if not count:
        return builder.build()
    rank = (np.arange(ranks) + root) % ranks
    last = builder.add(0, rank, rank, 0, 0, count, dst_buf=SCRATCH)
    for edges in upwards(ranks):
        last[edges.parent] = builder.add(
            edges.step,
            rank[edges.child],
            rank[edges.parent],
            0,
            (edges.child - edges.parent) * count,
            edges.below * count,
            src_buf=SCRATCH,
            dst_buf=SCRATCH,
            after=np.stack([last[edges.child], last[edges.parent]], axis=-1),
        )
    from_root, from_zero, blocks = turned(ranks, root)
    size = blocks * count
    source, target = from_root * count, from_zero * count
    builder.add(0, root, root, source, target, size, src_buf=SCRATCH, after=last[0])
    return builder.build()


ALGORITHMS = {"mesh": mesh, "binomial": binomial}
