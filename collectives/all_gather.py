"""All-gather: every rank gets every rank's block, in rank order."""

from collections.abc import Callable

import numpy as np

from ubnet.schedule import COPY, INPUT, OUTPUT, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .all_gather_v import by
from .block_stages import around
from .blocks import Ints, pieces
from .fan import others
from .hierarchical import all_gather as hierarchical
from .ring import chains
from .two_rings import opposite, rings
from .work import Work


def mesh(ranks: int, count: int) -> Schedule:
    """Let every rank write its block to every other rank, all in one step.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of every rank's block.

    Examples
    --------
    >>> mesh(3, 7)
    <Schedule all_gather mesh: 3 ranks, 9 operations, 1 steps>
    """
    builder, rank = _start("all_gather mesh", ranks, count)
    own = rank[:, None]
    builder.add(0, own, others(rank, ranks), 0, own * count, count)
    return builder.build()


def ring(ranks: int, count: int, *, chunks: int = 1) -> Schedule:
    """Pass every block on around the ring.

    Parameters
    ----------
    ranks, count : int
        As for `mesh`.
    chunks : int
        Chunks of a block that travel one behind the other.
    """
    builder, rank = _start("all_gather ring", ranks, count, in_order=True)
    part = pieces(rank * count, np.full(len(rank), count), chunks)
    chain = chains(builder, part.block, ranks - 1, part, chunks)
    builder.add(
        chain.step,
        chain.src,
        chain.dst,
        part.start - np.where(chain.hop == 0, part.block * count, 0),
        part.start,
        part.size,
        src_buf=np.where(chain.hop == 0, INPUT, OUTPUT),
        after=chain.before,
    )
    return builder.build()


def _start(
    name: str, ranks: int, count: int, *, in_order: bool = False
) -> tuple[ScheduleBuilder, Ints]:
    """Begin with the ranks' copies to themselves; return the ranks that have something."""
    builder = ScheduleBuilder(name, ranks, [count, ranks * count, 0], in_order=in_order)
    rank = np.arange(ranks if count else 0)
    builder.add(0, rank, rank, 0, rank * count, count)
    return builder, rank


def bidirectional_ring(ranks: int, count: int) -> Schedule:
    """Pass one half of every block on around the ring, the other half the other way round.

    Parameters
    ----------
    ranks, count : int
        As for `mesh`.
    """
    builder = ScheduleBuilder(
        "all_gather bidirectional_ring", ranks, [count, ranks * count, 0], in_order=True
    )
    rank = np.arange(ranks if count else 0)
    ready = np.full(ranks, -1)
    ready[rank] = builder.add(0, rank, rank, 0, rank * count, count)
    blocks = np.arange(ranks) * count, np.full(ranks, count)
    around(Work(builder, ready), rings(opposite(ranks), *blocks), 0, COPY)
    return builder.build()


def _even(name: str) -> Callable[[int, int], Schedule]:
    def even(ranks: int, count: int) -> Schedule:
        """Do what the algorithm does with blocks of any length, with equal ones."""
        return by(name, "all_gather")([count] * ranks)

    return even


ALGORITHMS: dict[str, Callable[..., Schedule]] = {
    "mesh": mesh,
    "ring": ring,
    "bidirectional_ring": bidirectional_ring,
    **{name: _even(name) for name in ("nhr", "nb")},
    "hierarchical": hierarchical,
}
