"""A schedule in tiles, so that running it on real bytes touches little memory at a time.

Schedules fall apart into tiles that have nothing to do with each other in three ways. Where all
offsets and counts are multiples of a unit, elements at different places within their units never
meet. Where every operation goes from an input to an output, one destination does not see another's.
And where no operation moves anything across some places in the buffers, what lies before such a
place does not see what lies behind it: between any two elements, if all keep their places.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.cli.inputs import CONTIGUOUS
from ubnet.replay import Moves, moves_at
from ubnet.schedule import INPUT, JOIN, OUTPUT, SCRATCH, Schedule

TILE_BYTES = 32 << 20
"""What a tile may take, as far as the schedule lets itself be divided."""

MANY_OPERATIONS = 8
"""By units each tile runs all operations: so much larger may it be."""

MOST = 100_000
"""More tiles would be planned for longer than anybody waits for them."""

SOME = 1000
"""Operations that show mostly whether a schedule can be divided at all."""

Ints = NDArray[np.int64]
Octets = NDArray[np.int8]
Operations = tuple[Octets, Ints, Octets, Ints, Ints, Octets, Ints, Ints]


@dataclass(frozen=True, slots=True)
class Window:
    """Which elements of a rank's whole buffer one of a tile's holds.

    Its element ``p`` is number ``first[rank] + p // width * unit + p % width`` of the whole.

    Attributes
    ----------
    first : ndarray of int64, shape (ranks,)
        The first one.
    width, unit : int
        Elements that stand together, and the distance from them to the next.
    """

    first: Ints
    width: int
    unit: int

    @classmethod
    def contiguous(cls, first: Ints) -> "Window":
        """Return the window of all elements from `first` on."""
        return cls(first, CONTIGUOUS, 0)


@dataclass(frozen=True, eq=False, slots=True)
class Tile:
    """A part of a schedule that can be run by itself, on buffers of what it touches.

    Attributes
    ----------
    sizes : ndarray of int64, shape (ranks, 3)
        Elements of its buffers.
    inputs, outputs : Window
        What they hold.
    in_place : bool
        Whether the inputs stand where the outputs will.
    operations : tuple of ndarray
        Kind, source rank, buffer and offset, destination rank, buffer and offset, and count.
        Tiles that do the same in buffers of the same sizes have the same tuple.
    """

    sizes: Ints
    inputs: Window
    outputs: Window
    in_place: bool
    operations: Operations

    def moves(self, arena: Arena) -> Moves:
        """Return what runs it on an arena of its sizes; order is all that operations need."""
        kind, src, src_buf, src_off, dst, dst_buf, dst_off, count = self.operations
        start, end = (
            arena.offsets(rank, buf, off)
            for rank, buf, off in ((src, src_buf, src_off), (dst, dst_buf, dst_off))
        )
        return moves_at(arena, kind, start, end, count)


def tiles(schedule: Schedule, itemsize: int, limit: int = TILE_BYTES) -> Iterator[Tile]:
    """Divide a schedule into tiles of about `limit` bytes; together they do all of it.

    Parameters
    ----------
    schedule : Schedule
        What is done.
    itemsize : int
        Bytes of an element.
    limit : int
        Bytes of all buffers of a tile.

    Yields
    ------
    Tile
        The largest first: the whole, where it is small enough or cannot be divided.
    """
    parts = min(-(-int(schedule.sizes.sum()) * itemsize // limit), MOST)
    moving = schedule.kind != JOIN
    few = -(-parts // MANY_OPERATIONS)
    if parts <= 1:
        yield whole(schedule)
    elif _all_one_hop(schedule, moving):
        yield from _by_destination(schedule, moving, parts)
    elif len(pieces := _apart(schedule, moving, parts)) > few:
        yield from _by_element(schedule, moving, pieces)
    elif few > 1 and (unit := common_unit(schedule)) > 1:
        yield from _by_unit(schedule, moving, few, unit)
    else:
        yield from _by_element(schedule, moving, pieces)


def common_unit(schedule: Schedule) -> int:
    """Return the largest unit of which all offsets, counts and sizes are multiples."""
    s = schedule
    found = [int(np.gcd.reduce(c)) for c in (s.src_off, s.dst_off, s.count) if len(c)]
    return reduce(gcd, found, int(np.gcd.reduce(s.sizes.reshape(-1))))


def _all_one_hop(schedule: Schedule, moving: NDArray[np.bool_]) -> bool:
    hop = (schedule.src_buf == INPUT) & (schedule.dst_buf == OUTPUT)
    return bool(hop[moving].all())


def whole(schedule: Schedule) -> Tile:
    """Return all of it, as one tile."""
    pieces = [(0, int(schedule.sizes.max(initial=0)))]
    return next(_by_element(schedule, schedule.kind != JOIN, pieces))


def _slimmed(tile: Tile) -> Tile:
    """Make inputs that are only copied into the output there at once; leave unused scratch out."""
    _, src, src_buf, src_off, dst, dst_buf, dst_off, count = tile.operations
    sizes, reading = tile.sizes.copy(), src_buf == INPUT
    kept = (src == dst) & (dst_buf == OUTPUT) & (src_off == dst_off)
    covered = np.bincount(src[reading], count[reading], len(sizes))
    in_place = bool(kept[reading].all() and (covered == sizes[:, INPUT]).all())
    operations = tile.operations
    if in_place:
        sizes[:, INPUT] = 0
        operations = tuple(column[~reading] for column in operations)
    return replace(
        tile, sizes=_trim_scratch(sizes, operations), in_place=in_place, operations=operations
    )


def _trim_scratch(sizes: Ints, operations: Operations) -> Ints:
    """Leave out what no operation touches at both ends of scratch; return the new sizes."""
    _, src, src_buf, src_off, dst, dst_buf, dst_off, count = operations
    first, end = sizes[:, SCRATCH].copy(), np.zeros(len(sizes), dtype=np.int64)
    ends = [(src, src_buf == SCRATCH, src_off), (dst, dst_buf == SCRATCH, dst_off)]
    for rank, held, off in ends:
        np.minimum.at(first, rank[held], off[held])
        np.maximum.at(end, rank[held], (off + count)[held])
    for rank, held, off in ends:
        off[held] -= first[rank[held]]
    trimmed = sizes.copy()
    trimmed[:, SCRATCH] = np.maximum(end - first, 0)
    return trimmed


def _by_destination(schedule: Schedule, moving: NDArray[np.bool_], parts: int) -> Iterator[Tile]:
    """Take some destinations at a time, and of every input what goes to them."""
    ranks = schedule.ranks
    for some in np.array_split(np.arange(ranks), min(parts, ranks)):
        mine = (schedule.dst >= some[0]) & (schedule.dst <= some[-1]) & moving
        chosen = np.flatnonzero(mine)
        src, off, count = schedule.src[chosen], schedule.src_off[chosen], schedule.count[chosen]
        first, end = schedule.sizes[:, INPUT].copy(), np.zeros(ranks, dtype=np.int64)
        np.minimum.at(first, src, off)
        np.maximum.at(end, src, off + count)
        sizes = np.zeros_like(schedule.sizes)
        sizes[:, INPUT] = np.maximum(end - first, 0)
        sizes[some, OUTPUT] = schedule.sizes[some, OUTPUT]
        columns = _operations(schedule, chosen, off - first[src], schedule.dst_off[chosen], count)
        inputs, outputs = map(Window.contiguous, (first, np.zeros(ranks, dtype=np.int64)))
        yield Tile(sizes, inputs, outputs, False, columns)


def _apart(schedule: Schedule, moving: NDArray[np.bool_], parts: int) -> list[tuple[int, int]]:
    """Divide the buffers into at most so many pieces that no operation leads out of.

    The largest comes first; it is the only one where it would be more than half of all.
    """
    shifted = moving & (schedule.src_off != schedule.dst_off)
    off = schedule.src_off[shifted], schedule.dst_off[shifted]
    first, end = np.minimum(*off), np.maximum(*off) + schedule.count[shifted]
    length = int(schedule.sizes.max())
    pieces = [(0, length)]
    # Where some operations leave no place for a cut, the others need not be sorted.
    for some in (slice(None, None, len(first) // SOME + 1), slice(None)):
        found = _uncrossed(first[some], end[some], length, -(-length // parts))
        pieces = sorted(found, key=lambda piece: piece[0] - piece[1])
        if pieces[0][1] - pieces[0][0] > length // 2:
            return [(0, length)]
    return pieces


def _uncrossed(first: Ints, end: Ints, length: int, size: int) -> Iterator[tuple[int, int]]:
    """Divide a length into pieces of `size` or more that hold each ``first[k]:end[k]`` whole."""
    order = np.argsort(first, kind="stable")
    first, end = first[order], np.maximum.accumulate(end[order])
    low = 0
    while low < length:
        high = low + size
        while (before := np.searchsorted(first, high)) and end[before - 1] > high:
            high = int(end[before - 1])
        yield low, min(high, length)
        low = high


def _by_element(
    schedule: Schedule, moving: NDArray[np.bool_], pieces: Sequence[tuple[int, int]]
) -> Iterator[Tile]:
    """Take some elements at a time, on all ranks."""
    for low, high in pieces:
        start = np.maximum(schedule.src_off, low)
        count = np.minimum(schedule.src_off + schedule.count, high) - start
        chosen = np.flatnonzero((count > 0) & moving)
        sizes = np.clip(schedule.sizes, low, high) - low
        shift = (schedule.dst_off - schedule.src_off)[chosen]
        window = Window.contiguous(np.full(schedule.ranks, low))
        off = start[chosen] - low
        columns = _operations(schedule, chosen, off, off + shift, count[chosen])
        yield _slimmed(Tile(sizes, window, window, False, columns))


def _by_unit(
    schedule: Schedule, moving: NDArray[np.bool_], parts: int, unit: int
) -> Iterator[Tile]:
    """Take some places within every unit at a time, on all ranks and in all operations."""
    chosen = np.flatnonzero(moving)
    columns = schedule.src_off[chosen], schedule.dst_off[chosen], schedule.count[chosen]
    units = [column // unit for column in columns]
    for width, pieces in groupby(_pieces(unit, parts), lambda piece: piece[1] - piece[0]):
        sizes = schedule.sizes // unit * width
        operations = _operations(schedule, chosen, *(column * width for column in units))
        for low, _ in pieces:
            window = Window(np.full(schedule.ranks, low), width, unit)
            yield Tile(sizes, window, window, False, operations)


def _pieces(length: int, parts: int) -> Iterator[tuple[int, int]]:
    """Divide a length into pieces that hold something, the largest first."""
    size = -(-length // parts)
    return ((low, min(low + size, length)) for low in range(0, length, size))


def _operations(
    schedule: Schedule, chosen: Ints, src_off: Ints, dst_off: Ints, count: Ints
) -> Operations:
    src, dst = schedule.src[chosen], schedule.dst[chosen]
    src_buf, dst_buf = schedule.src_buf[chosen], schedule.dst_buf[chosen]
    return schedule.kind[chosen], src, src_buf, src_off, dst, dst_buf, dst_off, count
