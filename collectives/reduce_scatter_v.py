"""Reduce-scatter of uneven blocks: rank r gets its block of every rank's array, combined."""

from collections.abc import Sequence

import numpy as np

from ubnet.schedule import Schedule, ScheduleBuilder

from .fan import in_rank_order


def mesh(counts: Sequence[int]) -> Schedule:
    """Let every rank write block r to rank r, which combines in rank order, all in one step.

    Parameters
    ----------
    counts : sequence of int
        Elements of each rank's block; they stand one behind the other in every rank's input.

    Examples
    --------
    >>> mesh([2, 0, 1])
    <Schedule reduce_scatter_v mesh: 3 ranks, 6 operations, 1 steps>
    """
    size = np.asarray(counts, dtype=np.int64)
    start = np.cumsum(size) - size
    ranks = len(size)
    sizes = np.stack([np.full(ranks, size.sum()), size, np.zeros_like(size)], axis=1)
    builder = ScheduleBuilder("reduce_scatter_v mesh", ranks, sizes)
    rank = np.flatnonzero(size)
    own = builder.add(0, rank, rank, start[rank], 0, size[rank])[:, None]
    peer, kind = in_rank_order(rank, ranks)
    owner = rank[:, None]
    builder.add(0, peer, owner, start[owner], 0, size[owner], kind=kind, after=own)
    return builder.build()
