"""All-reduce: every rank gets every rank's array, combined element by element."""

from collections.abc import Callable

import numpy as np

from ubnet.schedule import COPY, OUTPUT, REDUCE, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .block_stages import around
from .blocks import pieces, split
from .fan import in_rank_order, others
from .hierarchical import all_reduce as hierarchical
from .ring import chains
from .tree_stages import double_tree as trees
from .tree_stages import go_down, go_up
from .two_rings import ORDERS, rings
from .whole_stages import ALL_REDUCE, SCRATCH_ROOMS, whole
from .work import Work


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
    # An engine finishes what it sends for the first step before it hands out sums: shared fairly,
    # the messages of the second step would hold back the last ones of the first.
    by_sender = summed.reshape(-1)[np.argsort(peer, axis=None, kind="stable")]
    sent = by_sender[np.isin(np.sort(peer, axis=None), owner)]
    to_wait_for = len(owner), max(len(owner) - 1, 0)
    joined = builder.join(
        0, owner, np.hstack([summed.reshape(peer.shape), sent.reshape(to_wait_for)])
    )
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


def double_tree(ranks: int, count: int, *, chunks: int = 1) -> Schedule:
    """Add up along two binary trees, each with half of the array, and hand the sums down again.

    Parameters
    ----------
    ranks, count, chunks : int
        As for `ring`; chunks of a half.

    Examples
    --------
    >>> double_tree(4, 10)
    <Schedule all_reduce double_tree: 4 ranks, 20 operations, 9 steps>
    """
    builder = ScheduleBuilder("all_reduce double_tree", ranks, [count, count, 0], in_order=True)
    work = _start(builder, ranks, count)
    for stage in (go_up, go_down):
        stage(work, np.arange(ranks), trees(ranks), count, chunks)
    return builder.build()


def _two_rings(name: str) -> Callable[[int, int], Schedule]:
    def two_rings(ranks: int, count: int) -> Schedule:
        """Do what `ring` does on two rings at once, each with half of every block."""
        builder = ScheduleBuilder(f"all_reduce {name}", ranks, [count, count, 0], in_order=True)
        work = _start(builder, ranks, count)
        both = rings(ORDERS[name](ranks), *split(count, ranks))
        around(work, both, 1, REDUCE, COPY)
        return builder.build()

    return two_rings


def _by_stages(name: str) -> Callable[[int, int], Schedule]:
    def by_stages(ranks: int, count: int) -> Schedule:
        """Do the stage of that name with everybody in one team."""
        room = SCRATCH_ROOMS.get(name, 0) * count
        builder = ScheduleBuilder(f"all_reduce {name}", ranks, [count, count, room])
        ALL_REDUCE[name](_start(builder, ranks, count), whole(ranks, count))
        return builder.build()

    return by_stages


def _start(builder: ScheduleBuilder, ranks: int, count: int) -> Work:
    """Begin with what the ranks have themselves."""
    rank = np.arange(ranks if count else 0)
    ready = np.full(ranks, -1)
    ready[rank] = builder.add(0, rank, rank, 0, 0, count)
    return Work(builder, ready)


ALGORITHMS: dict[str, Callable[..., Schedule]] = {
    "mesh": mesh,
    "ring": ring,
    **{name: _two_rings(name) for name in ORDERS},
    **{n: _by_stages(n) for n in ("recursive_doubling", "halving_doubling", "nhr", "nb")},
    "double_tree": double_tree,
    "hierarchical": hierarchical,
}
