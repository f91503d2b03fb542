"""Broadcast: the root's array reaches every rank."""

from collections.abc import Callable

import numpy as np

from ubnet.schedule import INPUT, OUTPUT, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .block_stages import ALL_GATHER
from .fan import others
from .hierarchical import broadcast as hierarchical
from .ring import line
from .tree import downwards
from .tree_stages import double_tree as trees
from .tree_stages import go_down, rerooted
from .whole_stages import whole
from .work import Work


def mesh(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Let the root write to every other rank, all in one step.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of the array.
    root : int
        The rank that has it, in its input; every rank gets it in its output.
    """
    builder = _start("broadcast mesh", ranks, count, root)
    if count:
        builder.add(0, root, others(np.array([root]), ranks)[0], 0, 0, count)
    return builder.build()


def ring(ranks: int, count: int, *, root: int = 0, chunks: int = 1) -> Schedule:
    """Pass the array on from rank to rank around the ring, chunk behind chunk.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    chunks : int
        Chunks that follow each other, so that the ranks work at the same time.

    Examples
    --------
    >>> ring(4, 1000, chunks=10)
    <Schedule broadcast ring: 4 ranks, 31 operations, 12 steps>
    """
    builder = _start("broadcast ring", ranks, count, root, in_order=True)
    chain, part = line(builder, root, count, chunks)
    builder.add(
        chain.step,
        chain.src,
        chain.dst,
        part.start,
        part.start,
        part.size,
        src_buf=np.where(chain.hop == 0, INPUT, OUTPUT),
        after=chain.before,
    )
    return builder.build()


def binomial(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Double the number of ranks that have the array in each of ceil(log2 n) steps.

    A rank begins its next send when the last one has arrived, so that they do not share its engine.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    """
    builder = _start("broadcast binomial", ranks, count, root)
    last = np.full(ranks, -1)
    for edges in downwards(ranks if count else 1):
        sent = builder.add(
            edges.step,
            (edges.parent + root) % ranks,
            (edges.child + root) % ranks,
            0,
            0,
            count,
            src_buf=np.where(edges.parent == 0, INPUT, OUTPUT),
            after=last[edges.parent],
        )
        last[edges.parent] = last[edges.child] = sent
    return builder.build()


def _start(
    name: str, ranks: int, count: int, root: int, *, in_order: bool = False
) -> ScheduleBuilder:
    """Begin the schedule with the root's copy to itself."""
    sizes = np.tile([0, count, 0], (ranks, 1))
    sizes[root, INPUT] = count
    builder = ScheduleBuilder(name, ranks, sizes, in_order=in_order)
    if count:
        builder.add(0, root, root, 0, 0, count)
    return builder


def double_tree(ranks: int, count: int, *, root: int = 0, chunks: int = 1) -> Schedule:
    """Copy down two binary trees, each with half of the array, chunk behind chunk.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    chunks : int
        Chunks of a half.
    """
    builder = _start("broadcast double_tree", ranks, count, root, in_order=True)
    hung = [rerooted(tree, 0) for tree in trees(ranks)]
    go_down(_held(builder, ranks, root), (np.arange(ranks) + root) % ranks, hung, count, chunks)
    return builder.build()


def scatter_all_gather(ranks: int, count: int, *, root: int = 0) -> Schedule:
    """Give every rank a block of the array, then all-gather them, each in one step of the mesh.

    Parameters
    ----------
    ranks, count, root : int
        As for `mesh`.
    """
    builder = _start("broadcast scatter_all_gather", ranks, count, root)
    work = _held(builder, ranks, root)
    team = whole(ranks, count)
    rank = np.roll(np.arange(ranks), -root)[1:]
    start, size = team.start[0, rank], team.size[0, rank]
    work.move(root, rank, start, start, size)
    work.close()
    ALL_GATHER["mesh"](work, team)
    return builder.build()


def _held(builder: ScheduleBuilder, ranks: int, root: int) -> Work:
    """Return the work in which the root alone has something, if anybody."""
    ready = np.full(ranks, -1)
    ready[root] = len(builder) - 1
    return Work(builder, ready)


ALGORITHMS: dict[str, Callable[..., Schedule]] = {
    "mesh": mesh,
    "ring": ring,
    "binomial": binomial,
    "double_tree": double_tree,
    "scatter_all_gather": scatter_all_gather,
    "hierarchical": hierarchical,
}
