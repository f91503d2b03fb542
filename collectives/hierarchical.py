"""Composition over the levels of a fabric, in HCCL's form: any algorithm at each level.

all_reduce: reduce-scatter inside, all-reduce between, all-gather inside. reduce_scatter: between
servers, then inside; all_gather the reverse; all_to_all: inside, then between.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ubnet.errors import ScheduleError, did_you_mean
from ubnet.schedule import INPUT, OUTPUT, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .block_stages import ALL_GATHER, REDUCE_SCATTER
from .fan_stages import FAN_IN, FAN_OUT
from .grid import Grid, usual_grid
from .whole_stages import ALL_REDUCE, SCRATCH_ROOMS
from .work import Team, Work, team

USUAL = ("mesh", "nhr")
"""Algorithms of the levels, from level 0 up; the last serves all above."""


def all_reduce(
    ranks: int, count: int, *, grid: Grid | None = None, levels: Sequence[str] = USUAL
) -> Schedule:
    """Reduce-scatter inside, all-reduce between, all-gather inside, for any number of levels.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of every rank's array.
    grid : Grid, optional
        The levels; by default servers of up to 16 ranks.
    levels : sequence of str
        The algorithm of each level, from level 0 up.

    Examples
    --------
    >>> all_reduce(8, 64, grid=usual_grid(8, 4), levels=("mesh", "ring"))
    <Schedule all_reduce level0:mesh;level1:ring: 8 ranks, 96 operations, 6 steps>
    """
    grid, chosen = _settle(ranks, grid, levels)
    inner = _table("all_gather", chosen[:-1], ALL_GATHER)
    top = _table("all_reduce", chosen[-1:], ALL_REDUCE)[0]
    builder = _builder("all_reduce", chosen, levels, ranks, [count, count, _rooms(chosen) * count])
    if not count:
        return builder.build()
    rank = np.arange(ranks)
    work = Work(builder, builder.add(0, rank, rank, 0, 0, count))
    start, length = np.zeros(ranks, dtype=np.int64), np.full(ranks, count)
    done = []
    for level, name in enumerate(chosen[:-1]):
        group = team(grid.teams(level), start, length)
        REDUCE_SCATTER[name](work, group)
        start[group.ranks], length[group.ranks] = group.start, group.size
        done.append(group)
    top(work, team(grid.teams(grid.levels - 1), start, length))
    for gather, group in zip(reversed(inner), reversed(done), strict=True):
        gather(work, group)
    return builder.build()


def reduce_scatter(
    ranks: int, count: int, *, grid: Grid | None = None, levels: Sequence[str] = USUAL
) -> Schedule:
    """Reduce-scatter between the boxes of the outermost level first, inside last.

    Parameters
    ----------
    ranks, count, grid, levels
        As for `all_reduce`; `count` is that of a block.
    """
    grid, chosen = _settle(ranks, grid, levels, in_order=True)
    total = ranks * count
    _table("reduce_scatter", chosen, REDUCE_SCATTER)
    sizes = [total, count, total * (1 + _rooms(chosen))]
    builder = _builder("reduce_scatter", chosen, levels, ranks, sizes)
    if not count:
        return builder.build()
    rank = np.arange(ranks)
    own = builder.add(0, rank, rank, 0, 0, total, dst_buf=SCRATCH)
    work = Work(builder, own, buf=SCRATCH, spare=total)
    start, length = np.zeros(ranks, dtype=np.int64), np.full(ranks, total)
    for level in reversed(range(grid.levels)):
        group = team(grid.teams(level), start, length)
        REDUCE_SCATTER[chosen[level]](work, group)
        start[group.ranks], length[group.ranks] = group.start, group.size
    work.move(rank, rank, rank * count, 0, count, dst_buf=OUTPUT)
    return builder.build()


def all_gather(
    ranks: int, count: int, *, grid: Grid | None = None, levels: Sequence[str] = USUAL
) -> Schedule:
    """All-gather inside first, then what a box has between the boxes.

    Parameters
    ----------
    ranks, count, grid, levels
        As for `all_reduce`; `count` is that of a block.
    """
    grid, chosen = _settle(ranks, grid, levels, in_order=True)
    gathers = _table("all_gather", chosen, ALL_GATHER)
    total = ranks * count
    sizes = [count, total, total * _rooms(chosen)]
    builder = _builder("all_gather", chosen, levels, ranks, sizes)
    if not count:
        return builder.build()
    rank = np.arange(ranks)
    work = Work(builder, builder.add(0, rank, rank, 0, rank * count, count))
    length = count
    for level, gather in enumerate(gathers):
        groups = grid.teams(level)
        start = groups // (length // count) * length
        gather(work, Team(groups, start, np.full(groups.shape, length)))
        length *= groups.shape[1]
    return builder.build()


def broadcast(
    ranks: int,
    count: int,
    *,
    root: int = 0,
    grid: Grid | None = None,
    levels: Sequence[str] = ("mesh", "binomial"),
) -> Schedule:
    """Reach one rank of every box from the root, then the others inside.

    Parameters
    ----------
    ranks, count, grid, levels
        As for `all_reduce`.
    root : int
        The rank that has the array.
    """
    grid, chosen = _settle(ranks, grid, levels)
    fans = _table("broadcast", chosen, FAN_OUT)
    sizes = np.tile([0, count, 0], (ranks, 1))
    sizes[root, INPUT] = count
    builder = _builder("broadcast", chosen, levels, ranks, sizes)
    if not count:
        return builder.build()
    ready = np.full(ranks, -1)
    ready[root] = builder.add(0, root, root, 0, 0, count)[0]
    work = Work(builder, ready)
    for level in reversed(range(grid.levels)):
        groups, first = _those_with(grid, level, root)
        fans[level](work, groups, first, count)
    return builder.build()


def reduce(
    ranks: int,
    count: int,
    *,
    root: int = 0,
    grid: Grid | None = None,
    levels: Sequence[str] = ("mesh", "binomial"),
) -> Schedule:
    """Add up inside first, then between the ranks that stand like the root in their boxes.

    Parameters
    ----------
    ranks, count, grid, levels
        As for `all_reduce`.
    root : int
        The rank that gets the sum.
    """
    grid, chosen = _settle(ranks, grid, levels)
    fans = _table("reduce", chosen, FAN_IN)
    sizes = np.tile([count, 0, count], (ranks, 1))
    sizes[root, OUTPUT] = count
    builder = _builder("reduce", chosen, levels, ranks, sizes)
    if not count:
        return builder.build()
    rank = np.arange(ranks)
    work = Work(builder, builder.add(0, rank, rank, 0, 0, count, dst_buf=SCRATCH), buf=SCRATCH)
    for level in range(grid.levels):
        groups, first = _those_with(grid, level, root)
        fans[level](work, groups, first, count)
    work.move(root, root, 0, 0, np.array([count]), dst_buf=OUTPUT)
    return builder.build()


def _those_with(grid: Grid, level: int, root: int) -> tuple[np.ndarray[Any, Any], int]:
    """Return the teams of a level whose members stand like the root below it, and its place."""
    place = np.argwhere(grid.ranks == root)[0]
    axis = grid.levels - 1 - level
    chosen = grid.ranks[(slice(None),) * (axis + 1) + tuple(place[axis + 1 :])]
    return chosen.reshape(-1, grid.ranks.shape[axis]), int(place[axis])


def _settle(
    ranks: int, grid: Grid | None, levels: Sequence[str], *, in_order: bool = False
) -> tuple[Grid, tuple[str, ...]]:
    """Return the grid and an algorithm for each of its levels."""
    grid = grid or usual_grid(ranks)
    if grid.ranks.size != ranks or (in_order and not grid.in_order):
        what = f"{grid.ranks.size} ranks" if in_order is False else "ranks in another order"
        raise ScheduleError(
            f"the levels hold {what}; blocks of {ranks} ranks in a row are needed, which the place "
            f"'die' gives"
        )
    if not levels:
        raise ScheduleError("levels are empty: give an algorithm for level 0, 1 ...")
    names = [*levels, *[levels[-1]] * grid.levels][: grid.levels]
    return grid, tuple(names)


def _table(op: str, names: Sequence[str], known: Mapping[str, Any]) -> list[Any]:
    for name in names:
        if name not in known:
            raise ScheduleError(
                f"{op} has no algorithm {name!r} for a level; {did_you_mean(name, known)}"
            )
    return [known[name] for name in names]


def _builder(
    op: str, chosen: Sequence[str], levels: Sequence[str], ranks: int, sizes: Any
) -> ScheduleBuilder:
    """Begin a schedule; rings among its levels keep their pieces in order."""
    usual = tuple(levels) in (USUAL, ("mesh", "binomial"))
    form = ";".join(f"level{i}:{name}" for i, name in enumerate(chosen))
    name = f"{op} hierarchical" if usual else f"{op} {form}"
    return ScheduleBuilder(name, ranks, sizes, in_order="ring" in chosen)


def _rooms(chosen: Sequence[str]) -> int:
    return max(SCRATCH_ROOMS.get(name, 0) for name in chosen)
