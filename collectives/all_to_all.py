"""All-to-all: rank r gets block r of every rank's array, in rank order."""

from collections.abc import Callable

import numpy as np

from ubnet.errors import ScheduleError
from ubnet.schedule import INPUT, OUTPUT, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import Ints
from .exchange import Exchange
from .grid import Grid, usual_grid
from .tree import depth
from .work import Work


def mesh(ranks: int, count: int) -> Schedule:
    """Let every rank write to every other, all in one step.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements for every peer.

    Examples
    --------
    >>> mesh(3, 7)
    <Schedule all_to_all mesh: 3 ranks, 9 operations, 1 steps>
    """
    return Exchange.even(ranks, count).mesh("all_to_all mesh")


def pairwise(ranks: int, count: int) -> Schedule:
    """Exchange with one peer after the other, in n - 1 steps.

    Parameters
    ----------
    ranks, count : int
        As for `mesh`.

    Examples
    --------
    >>> pairwise(3, 7)
    <Schedule all_to_all pairwise: 3 ranks, 9 operations, 2 steps>
    """
    return Exchange.even(ranks, count).pairwise("all_to_all pairwise")


def bruck(ranks: int, count: int) -> Schedule:
    """Send in each of ceil(log2 n) steps, to the rank 2**k on, all blocks with bit k in their way.

    What a rank sends in a step is packed into one message; where each block stands then is the same
    on all ranks, counted from the rank's own.

    Parameters
    ----------
    ranks, count : int
        As for `mesh`.

    Examples
    --------
    >>> bruck(4, 7).steps_of(0).size
    2
    """
    rank, way = np.arange(ranks), np.arange(ranks)
    turns = [np.flatnonzero(way >> step & 1) for step in range(depth(ranks))]
    room = (ranks + 2 * sum(map(len, turns))) * count
    builder = ScheduleBuilder("all_to_all bruck", ranks, [ranks * count, ranks * count, room])
    work = Work(builder, np.full(ranks, -1), buf=SCRATCH)
    work.move(rank, rank, rank * count, 0, (ranks - rank) * count, src_buf=INPUT)
    work.move(rank, rank, 0, (ranks - rank) * count, rank * count, src_buf=INPUT)
    work.close()
    stands, free = np.arange(ranks), ranks
    for step, moved in enumerate(turns):
        first, length = _runs(stands[moved])
        at = free + np.cumsum(length) - length
        mine = rank[:, None]
        work.move(mine, mine, stands[moved][first] * count, at * count, length * count)
        work.close()
        landed = free + len(moved)
        peer = (rank + (1 << step)) % ranks
        work.move(rank, peer, free * count, landed * count, len(moved) * count)
        work.close()
        stands[moved] = landed + np.arange(len(moved))
        free += 2 * len(moved)
    of = (rank[:, None] - way) % ranks
    work.move(rank[:, None], rank[:, None], stands * count, of * count, count, dst_buf=OUTPUT)
    return builder.build()


def _runs(places: Ints) -> tuple[Ints, Ints]:
    """Return where runs of consecutive places begin in a list, and how long they are."""
    first = np.flatnonzero(np.diff(places, prepend=-2) != 1)
    return first, np.diff(np.append(first, len(places)))


def hierarchical(ranks: int, count: int, *, grid: Grid | None = None) -> Schedule:
    """Collect inside a server what goes to the same place of other servers, then exchange it.

    Both exchanges are steps of the full mesh.

    Parameters
    ----------
    ranks, count : int
        As for `mesh`.
    grid : Grid, optional
        The servers, whose ranks must follow each other; by default of up to 16 ranks.
    """
    grid = grid or usual_grid(ranks)
    if grid.ranks.size != ranks or not grid.in_order:
        raise ScheduleError(
            f"all_to_all hierarchical needs servers of {ranks} ranks that follow each other"
        )
    inside = grid.ranks.shape[-1]
    servers, total = ranks // inside, ranks * count
    builder = ScheduleBuilder("all_to_all hierarchical", ranks, [total, total, 3 * total])
    work = Work(builder, np.full(ranks, -1), buf=SCRATCH)
    rank, place, server = np.arange(ranks), np.arange(inside), np.arange(servers)[:, None]
    mine = rank[:, None, None]
    by_place = place * servers + server
    work.move(mine, mine, (server * inside + place) * count, by_place * count, count, src_buf=INPUT)
    work.close()
    src, bundle = rank[:, None], servers * count
    mates = src // inside * inside + place
    into = total + src % inside * bundle
    work.move(src, mates, place * bundle, into, bundle)
    work.close()
    at = 2 * total + (server * inside + place) * count
    work.move(mine, mine, total + by_place * count, at, count)
    work.close()
    bundle, far = inside * count, np.arange(servers)
    into = src // inside * bundle
    work.move(
        src, far * inside + src % inside, 2 * total + far * bundle, into, bundle, dst_buf=OUTPUT
    )
    return builder.build()


ALGORITHMS: dict[str, Callable[..., Schedule]] = {
    "mesh": mesh,
    "pairwise": pairwise,
    "bruck": bruck,
    "hierarchical": hierarchical,
}
