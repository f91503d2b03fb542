"""Reduce-scatter of uneven blocks: rank r gets its block of every rank's array, combined."""

from collections.abc import Callable, Sequence

import numpy as np

from ubnet.schedule import OUTPUT, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .block_stages import REDUCE_SCATTER
from .fan import in_rank_order
from .uneven import blocks
from .whole_stages import SCRATCH_ROOMS
from .work import Work


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
    team = blocks(counts)
    start, size = team.start[0], team.size[0]
    ranks = len(size)
    sizes = np.stack([np.full(ranks, size.sum()), size, np.zeros_like(size)], axis=1)
    builder = ScheduleBuilder("reduce_scatter_v mesh", ranks, sizes)
    rank = np.flatnonzero(size)
    own = builder.add(0, rank, rank, start[rank], 0, size[rank])[:, None]
    peer, kind = in_rank_order(rank, ranks)
    owner = rank[:, None]
    builder.add(0, peer, owner, start[owner], 0, size[owner], kind=kind, after=own)
    return builder.build()


def by(name: str, operation: str = "reduce_scatter_v") -> Callable[[Sequence[int]], Schedule]:
    """Return the builder of an algorithm that collects in scratch, without rank order.

    >>> by("nhr")([2, 0, 1])
    <Schedule reduce_scatter_v nhr: 3 ranks, 24 operations, 6 steps>
    """

    def make(counts: Sequence[int]) -> Schedule:
        team = blocks(counts)
        start, size = team.start[0], team.size[0]
        ranks, total = len(size), int(size.sum())
        rooms = 1 + SCRATCH_ROOMS.get(name, 0)
        sizes = np.stack([0 * size + total, size, 0 * size + total * rooms], axis=1)
        builder = ScheduleBuilder(f"{operation} {name}", ranks, sizes, in_order=name == "ring")
        rank = np.arange(ranks if total else 0)
        ready = np.full(ranks, -1)
        ready[rank] = builder.add(0, rank, rank, 0, 0, total, dst_buf=SCRATCH)
        work = Work(builder, ready, buf=SCRATCH, spare=total)
        REDUCE_SCATTER[name](work, team)
        rank = np.flatnonzero(size)
        work.move(rank, rank, start[rank], 0, size[rank], dst_buf=OUTPUT)
        return builder.build()

    return make


ALGORITHMS: dict[str, Callable[[Sequence[int]], Schedule]] = {
    "mesh": mesh,
    **{name: by(name) for name in ("ring", "nhr", "nb")},
}
