"""Reduce: the root gets every rank's array, combined element by element."""

from collections.abc import Callable

import numpy as np

from ubnet.schedule import INPUT, OUTPUT, REDUCE, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .block_stages import REDUCE_SCATTER
from .blocks import Ints
from .fan import in_rank_order
from .hierarchical import reduce as hierarchical
from .ring import line
from .tree import upwards
from .tree_stages import double_tree as trees
from .tree_stages import go_up, rerooted
from .whole_stages import whole
from .work import Work


def mesh(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Let every rank write to the root, which combines them in rank order, all in one step.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of every rank's array.
    root : int
        The rank that gets the result, in its output.
    """
    builder, own = _start("reduce mesh", ranks, count, root, np.array([root]))
    if count:
        peer, kind = in_rank_order(np.array([root]), ranks)
        builder.add(0, peer[0], root, 0, 0, count, kind=kind[0], after=own[root])
    return builder.build()


def ring(ranks: int, count: int, *, root: int = 0, chunks: int = 1) -> Schedule:
    """Pass partial results around the ring to the root; the rank order is not kept.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    chunks : int
        Chunks that follow each other, so that the ranks work at the same time.

    Examples
    --------
    >>> ring(4, 1000, chunks=10)
    <Schedule reduce ring: 4 ranks, 33 operations, 12 steps>
    """
    adding = (root + np.arange(min(2, ranks), ranks + 1)) % ranks
    builder, own = _start("reduce ring", ranks, count, root, adding, in_order=True)
    chain, part = line(builder, (root + 1) % ranks, count, chunks)
    builder.add(
        chain.step,
        chain.src,
        chain.dst,
        part.start,
        part.start,
        part.size,
        src_buf=np.where(chain.hop == 0, INPUT, SCRATCH),
        dst_buf=np.where(chain.dst == root, OUTPUT, SCRATCH),
        kind=REDUCE,
        after=chain.after(own[chain.dst]),
    )
    return builder.build()


def binomial(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Halve the number of partial results in each of ceil(log2 n) steps; no rank order.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    """
    adding = np.unique([p for edges in upwards(ranks) for p in edges.parent.tolist()] or [0])
    builder, own = _start("reduce binomial", ranks, count, root, (adding + root) % ranks)
    last = np.roll(own, -root)
    for edges in upwards(ranks if count else 1):
        last[edges.parent] = builder.add(
            edges.step,
            (edges.child + root) % ranks,
            (edges.parent + root) % ranks,
            0,
            0,
            count,
            src_buf=np.where(last[edges.child] < 0, INPUT, SCRATCH),
            dst_buf=np.where(edges.parent == 0, OUTPUT, SCRATCH),
            kind=REDUCE,
            after=np.stack([last[edges.child], last[edges.parent]], axis=-1),
        )
    return builder.build()


def _start(
    name: str, ranks: int, count: int, root: int, adding: Ints, *, in_order: bool = False
) -> tuple[ScheduleBuilder, Ints]:
    """Begin with what the adding ranks have themselves; return those copies, -1 = none."""
    sizes = np.zeros((ranks, 3), dtype=np.int64)
    sizes[:, INPUT] = count
    sizes[adding, SCRATCH] = count
    sizes[root] = [count, count, 0]
    builder = ScheduleBuilder(name, ranks, sizes, in_order=in_order)
    own = np.full(ranks, -1)
    if count:
        place = np.where(adding == root, OUTPUT, SCRATCH)
        own[adding] = builder.add(0, adding, adding, 0, 0, count, dst_buf=place)
    return builder, own


def double_tree(ranks: int, count: int, *, root: int = 0, chunks: int = 1) -> Schedule:
    """Add up along two binary trees, each with half of the array, chunk behind chunk.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    chunks : int
        Chunks of a half.
    """
    work = _summing("reduce double_tree", ranks, count, root)
    hung = [rerooted(tree, 0) for tree in trees(ranks)]
    go_up(work, (np.arange(ranks) + root) % ranks, hung, count, chunks)
    work.move(root, root, 0, 0, np.array([count]), dst_buf=OUTPUT)
    return work.builder.build()


def reduce_scatter_gather(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Reduce-scatter, then gather at the root, each in one step of the mesh, in rank order.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    """
    work = _summing("reduce reduce_scatter_gather", ranks, count, root)
    team = whole(ranks, count)
    REDUCE_SCATTER["mesh"](work, team)
    start, size = team.start[0], team.size[0]
    work.move(np.arange(ranks), root, start, start, size, dst_buf=OUTPUT)
    return work.builder.build()


def _summing(name: str, ranks: int, count: int, root: int) -> Work:
    """Begin with every rank's array in its scratch."""
    sizes = np.tile([count, 0, count], (ranks, 1))
    sizes[root, OUTPUT] = count
    builder = ScheduleBuilder(name, ranks, sizes, in_order="tree" in name)
    rank = np.arange(ranks if count else 0)
    ready = np.full(ranks, -1)
    ready[rank] = builder.add(0, rank, rank, 0, 0, count, dst_buf=SCRATCH)
    return Work(builder, ready, buf=SCRATCH)


ALGORITHMS: dict[str, Callable[..., Schedule]] = {
    "mesh": mesh,
    "ring": ring,
    "binomial": binomial,
    "double_tree": double_tree,
    "reduce_scatter_gather": reduce_scatter_gather,
    "hierarchical": hierarchical,
}
