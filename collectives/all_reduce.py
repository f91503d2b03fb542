"""All-reduce: every rank gets every rank's array, combined element by element."""

import numpy as np

from ubnet.schedule import COPY, OUTPUT, REDUCE, Schedule, ScheduleBuilder

from .blocks import pieces, split
from .fan import in_rank_order, others
from .ring import chains


def mesh(ranks: int, count: int) -> Schedule:
    """Reduce-scatter in one step of the full mesh, then all-gather in another, in rank order.

    Each block of the array is combined by one rank and copied from there, so that the results
    are the same to the bit on all ranks.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of every rank's array.

    Examples
    --------
    >>> mesh(3, 7)
    <Schedule all_reduce mesh: 3 ranks, 18 operations, 2 steps>
    """
    builder = ScheduleBuilder("all_reduce mesh", ranks, [count, count, 0])
    start, size = split(count, ranks)
    owner = np.flatnonzero(size)
    start, size = start[owner], size[owner]
    own = builder.add(0, owner, owner, start, start, size)
    to, at, length = owner[:, None], start[:, None], size[:, None]
    peer, kind = in_rank_order(owner, ranks)
    summed = builder.add(0, peer, to, at, at, length, kind=kind, after=own[:, None])
    joined = builder.join(0, owner, summed)
    target = others(owner, ranks)
    builder.add(1, to, target, at, at, length, src_buf=OUTPUT, after=joined[:, None])
    return builder.build()


def ring(ranks: int, count: int, *, chunks: int = 1) -> Schedule:
    """Pass every block around the ring twice: first it collects, then it is handed out.

    The rank order of the operands is not kept.

    Parameters
    ----------
    ranks, count : int
        As for `mesh`.
    chunks : int
        Chunks of a block, so that one is combined while the next is on its way.

    Examples
    --------
    >>> ring(3, 7)
    <Schedule all_reduce ring: 3 ranks, 15 operations, 4 steps>
    """
    builder = ScheduleBuilder("all_reduce ring", ranks, [count, count, 0], in_order=True)
    part = pieces(*split(count, ranks), chunks)
    rank = np.arange(ranks if count else 0)
    own = builder.add(0, rank, rank, 0, 0, count)
    chain = chains(builder, part.block, 2 * (ranks - 1), part, chunks)
    collects = chain.hop < ranks - 1
    starts = np.where(chain.hop == 0, own[chain.src], -1)
    builder.add(
        chain.step,
        chain.src,
        chain.dst,
        part.start,
        part.start,
        part.size,
        src_buf=OUTPUT,
        kind=np.where(collects, REDUCE, COPY),
        after=chain.after(starts, np.where(collects, own[chain.dst], -1)),
    )
    return builder.build()


ALGORITHMS = {"mesh": mesh, "ring": ring}
