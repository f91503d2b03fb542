"""Scan: rank r gets the arrays of ranks 0 to r combined; exscan: of ranks 0 to r - 1."""

import numpy as np

from ubnet.schedule import OUTPUT, REDUCE_LEFT, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import Ints
from .tree import depth


def inclusive(ranks: int, count: int) -> Schedule:
    """Combine with what stands 1, 2, 4 ... ranks below, in ceil(log2 n) steps and rank order.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of every rank's array.

    Examples
    --------
    >>> inclusive(4, 7)
    <Schedule scan doubling: 4 ranks, 14 operations, 2 steps>
    """
    builder = ScheduleBuilder("scan doubling", ranks, [count, count, count if ranks > 1 else 0])
    if count:
        rank = np.arange(ranks)
        own = builder.add(0, rank, rank, 0, 0, count)
        _collect(builder, rank, count, own, 0)
    return builder.build()


def exclusive(ranks: int, count: int) -> Schedule:
    """Hand every array on to the next rank, then scan there; rank 0 gets nothing.

    Parameters
    ----------
    ranks, count : int
        As for `inclusive`.

    Examples
    --------
    >>> exclusive(4, 7)
    <Schedule exscan doubling: 4 ranks, 9 operations, 3 steps>
    """
    scratch = count if ranks > 2 else 0
    builder = ScheduleBuilder("exscan doubling", ranks, [count, count, scratch])
    if count and ranks > 1:
        rank = np.arange(1, ranks)
        shifted = builder.add(0, rank - 1, rank, 0, 0, count)
        _collect(builder, rank, count, shifted, 1)
    return builder.build()


def _collect(builder: ScheduleBuilder, rank: Ints, count: int, last: Ints, first: int) -> None:
    """Add to each rank's output what stands in the outputs below; `last` are what filled them.

    What a rank sends in a step it keeps in scratch, because in the same step its output grows.
    """
    kept, sent = np.full((2, len(rank)), -1)
    for step in range(depth(len(rank))):
        reach = 1 << step
        sender, receiver = rank[:-reach], rank[reach:]
        kept[:] = -1
        kept[:-reach] = builder.add(
            first + step,
            sender,
            sender,
            0,
            0,
            count,
            src_buf=OUTPUT,
            dst_buf=SCRATCH,
            after=np.stack([last[:-reach], sent[:-reach]], axis=-1),
        )
        last = last.copy()
        sent[:-reach] = last[reach:] = builder.add(
            first + step,
            sender,
            receiver,
            0,
            0,
            count,
            src_buf=SCRATCH,
            dst_buf=OUTPUT,
            kind=REDUCE_LEFT,
            after=np.stack([kept[:-reach], last[reach:], kept[reach:]], axis=-1),
        )


ALGORITHMS = {"doubling": inclusive}
EXCLUSIVE_ALGORITHMS = {"doubling": exclusive}
