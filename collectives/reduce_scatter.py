"""Reduce-scatter: rank r gets block r of every rank's array, combined element by element."""

from collections.abc import Callable

import numpy as np

from ubnet.schedule import INPUT, OUTPUT, REDUCE, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import pieces
from .fan import in_rank_order
from .hierarchical import reduce_scatter as hierarchical
from .reduce_scatter_v import by
from .ring import chains


def mesh(ranks: int, count: int) -> Schedule:
    """Let every rank write block r to rank r, which combines in rank order, all in one step.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of a block.

    Examples
    --------
    >>> mesh(3, 7)
    <Schedule reduce_scatter mesh: 3 ranks, 9 operations, 1 steps>
    """
    builder = ScheduleBuilder("reduce_scatter mesh", ranks, [ranks * count, count, 0])
    rank = np.arange(ranks if count else 0)
    own = builder.add(0, rank, rank, rank * count, 0, count)[:, None]
    peer, kind = in_rank_order(rank, ranks)
    owner = rank[:, None]
    builder.add(0, peer, owner, owner * count, 0, count, kind=kind, after=own)
    return builder.build()


def ring(ranks: int, count: int, *, chunks: int = 1) -> Schedule:
    """Pass every block around the ring to its owner, collecting; no rank order.

    Partial results wait in scratch, which is as large as the input.

    Parameters
    ----------
    ranks, count : int
        As for `mesh`.
    chunks : int
        Chunks of a block, so that one is combined while the next is on its way.
    """
    builder = ScheduleBuilder(
        "reduce_scatter ring",
        ranks,
        [ranks * count, count, ranks * count if ranks > 2 else 0],
        in_order=True,
    )
    rank = np.arange(ranks if count else 0)
    mine = builder.add(0, rank, rank, rank * count, 0, count)
    passing = rank if ranks > 2 else rank[:0]
    theirs = builder.add(0, passing, passing, 0, 0, ranks * count, dst_buf=SCRATCH)
    part = pieces(rank * count, np.full(len(rank), count), chunks)
    chain = chains(builder, (part.block + 1) % ranks, ranks - 1, part, chunks)
    last = chain.dst == part.block
    kept = theirs[chain.dst] if len(theirs) else np.full(chain.dst.shape, -1)
    builder.add(
        chain.step,
        chain.src,
        chain.dst,
        part.start,
        part.start - np.where(last, part.block * count, 0),
        part.size,
        src_buf=np.where(chain.hop == 0, INPUT, SCRATCH),
        dst_buf=np.where(last, OUTPUT, SCRATCH),
        kind=REDUCE,
        # In place the last hop overwrites a part of what went to scratch.
        after=chain.after(np.where(last, mine[chain.dst], -1), kept),
    )
    return builder.build()


def _even(name: str) -> Callable[[int, int], Schedule]:
    def even(ranks: int, count: int) -> Schedule:
        """Do what the algorithm does with blocks of any length, with equal ones."""
        return by(name, "reduce_scatter")([count] * ranks)

    return even


ALGORITHMS: dict[str, Callable[..., Schedule]] = {
    "mesh": mesh,
    "ring": ring,
    **{name: _even(name) for name in ("nhr", "nb")},
    "hierarchical": hierarchical,
}
