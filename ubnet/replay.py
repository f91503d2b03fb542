"""Running a schedule on real memory: it moves the bytes and does the sums."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet import fold
from ubnet.arena import Arena
from ubnet.errors import ScheduleError
from ubnet.operation import COPY, JOIN, REDUCE_LEFT
from ubnet.reductions import Combine, Reduction, reduction
from ubnet.schedule import Schedule

__all__ = ["Arena", "Moves", "moves_at", "moves_of", "replay", "replay_at"]

Ints = NDArray[np.int64]
Array = NDArray[Any]


def replay(
    schedule: Schedule,
    arena: Arena,
    reduce: str | Combine = "sum",
    ops: ArrayLike | None = None,
) -> None:
    """Run the operations of a schedule in the order of their numbers, or those given in order.

    Parameters
    ----------
    schedule : Schedule
        What to do.
    arena : Arena
        The memory; its buffers may be larger than the schedule says.
    reduce : str or callable
        The name of a reduction (`ubnet.reductions.REDUCTIONS`) or ``f(left, right) -> array``.
    ops : array_like of int, optional
        The operations to run; both ranks of each must be held by the arena.

    Raises
    ------
    ScheduleError
        If the arena is too small for the schedule or lacks a rank.

    Examples
    --------
    >>> from ubnet.schedule import REDUCE
    >>> from ubnet.schedule_builder import ScheduleBuilder
    >>> builder = ScheduleBuilder("sum of two", 2, [3, 3, 0])
    >>> first = builder.add(0, 0, 0, 0, 0, 3)
    >>> _ = builder.add(1, 1, 0, 0, 0, 3, kind=REDUCE, after=first)
    >>> schedule = builder.build()
    >>> arena = Arena(schedule.sizes, "int32")
    >>> arena.input(0)[:] = [1, 2, 3]
    >>> arena.input(1)[:] = 10
    >>> replay(schedule, arena)
    >>> arena.output(0).tolist()
    [11, 12, 13]
    """
    moves_of(schedule, arena, ops).run(arena, reduce)


@dataclass(frozen=True, slots=True)
class Moves:
    """Copies and reductions between places of an arena, in runs of one sort.

    Attributes
    ----------
    runs : list of (bool, ndarray, ndarray, ndarray, ndarray)
        Whether a run copies; then kinds, and offsets and counts: of bytes where it copies, of
        elements where it reduces.
    """

    runs: list[tuple[bool, NDArray[np.int8], Ints, Ints, Ints]]

    def run(self, arena: Arena, reduce: str | Combine = "sum") -> None:
        """Run them in an arena of the shape that they were made for."""
        octets = arena.flat.view(np.uint8)
        reduces = any(not copies for copies, *_ in self.runs)
        fold_run = _folding(arena, reduce) if reduces else None
        # Overflow is the user's affair, as it is in compiled code.
        with np.errstate(all="ignore"):
            for copies, kind, src, dst, count in self.runs:
                if copies or fold_run is None:
                    fold.move(octets, src, dst, count)
                else:
                    fold_run(kind, src, dst, count)


def moves_of(schedule: Schedule, arena: Arena, ops: ArrayLike | None = None) -> Moves:
    """Return what `replay` runs.

    Raises
    ------
    ScheduleError
        If the arena is too small for the schedule or lacks a rank.
    """
    s = schedule
    if len(arena.sizes) != s.ranks or (arena.sizes[arena.held] < s.sizes[arena.held]).any():
        raise ScheduleError(
            f"{arena!r} is too small for {s!r}; make it with Arena(schedule.sizes, dtype)"
        )
    chosen = np.arange(len(s)) if ops is None else np.asarray(ops, dtype=np.int64)
    chosen = chosen[(s.kind[chosen] != JOIN) & (s.count[chosen] > 0)]
    src = arena.offsets(s.src[chosen], s.src_buf[chosen], s.src_off[chosen])
    dst = arena.offsets(s.dst[chosen], s.dst_buf[chosen], s.dst_off[chosen])
    missing = np.flatnonzero((src < 0) | (dst < 0))
    if len(missing):
        raise ScheduleError(
            f"{s.describe(int(chosen[missing[0]]))} needs a rank that {arena!r} does not hold; "
            f"give the operations between held ranks (ops=)"
        )
    return _in_runs(arena, s.kind[chosen], src, dst, s.count[chosen])


def replay_at(
    arena: Arena,
    kind: NDArray[np.int8],
    src_offset: Ints,
    dst_offset: Ints,
    count: Ints,
    reduce: str | Combine = "sum",
) -> None:
    """Run copies and reductions between places of an arena, one after another.

    This is `replay` without ranks: a source may lie in the staging area, where data of ranks that
    another process holds has been received. Parameters and errors are those of `moves_at`, and
    ``reduce`` is as for `replay`.

    Raises
    ------
    OptionError
        If the reduction does not exist or has no meaning for the arena's type.
    """
    moves_at(arena, kind, src_offset, dst_offset, count).run(arena, reduce)


def moves_at(
    arena: Arena, kind: NDArray[np.int8], src_offset: Ints, dst_offset: Ints, count: Ints
) -> Moves:
    """Return what `replay_at` runs.

    Parameters
    ----------
    arena : Arena
        The memory.
    kind : ndarray of int8, shape (n,)
        COPY, REDUCE or REDUCE_LEFT.
    src_offset, dst_offset, count : ndarray of int64, shape (n,)
        Elements of ``arena.flat``.

    Raises
    ------
    ScheduleError
        If a range leaves the arena.
    """
    if not len(kind):
        return Moves([])
    ends = np.maximum(src_offset, dst_offset) + count
    if min(src_offset.min(), dst_offset.min()) < 0 or ends.max() > len(arena.flat):
        raise ScheduleError(
            f"an operation leaves the {len(arena.flat)} elements of {arena!r}; offsets come from "
            f"Arena.offsets and Arena.reserve_staging"
        )
    return _in_runs(arena, kind, src_offset, dst_offset, count)


def _in_runs(
    arena: Arena, kind: NDArray[np.int8], src_offset: Ints, dst_offset: Ints, count: Ints
) -> Moves:
    """Cut operations into runs of copies and of reductions."""
    copies = kind == COPY
    turns = np.flatnonzero(np.diff(copies)) + 1
    runs = []
    for first, last in pairwise([0, *turns.tolist(), len(kind)] if len(kind) else []):
        run = slice(first, last)
        unit = arena.dtype.itemsize if copies[first] else 1
        src, dst, n = (column[run] * unit for column in (src_offset, dst_offset, count))
        runs.append((bool(copies[first]), kind[run], src, dst, n))
    return Moves(runs)


def _folding(arena: Arena, reduce: str | Combine) -> Callable[..., None]:
    """Return what runs reductions: the kernel of a named one where it has one, or numpy."""
    if callable(reduce):
        return lambda *columns: _fold_by_call(arena.flat, reduce, *columns)
    named: Reduction = reduction(reduce)
    named.check(arena.dtype)
    run = named.kernel
    if run is not None and named.has_kernel(arena.dtype):
        return lambda kind, *columns: run(arena.flat, *columns, *named.arguments)
    return lambda *columns: _fold_by_call(arena.flat, named.combine, *columns)


def _fold_by_call(
    flat: Array, combine: Combine | np.ufunc, kind: NDArray[np.int8], src: Ints, dst: Ints, n: Ints
) -> None:
    """Reduce by a function of (left, right), one operation after another."""
    left = (kind == REDUCE_LEFT).tolist()
    rows = zip(left, src.tolist(), dst.tolist(), n.tolist(), strict=True)
    for incoming_first, there, here, count in rows:
        incoming, held = flat[there : there + count], flat[here : here + count]
        held[...] = combine(incoming, held) if incoming_first else combine(held, incoming)
