"""What a schedule must keep to: its form, its memory passes and the order of its accesses."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import ScheduleError
from ubnet.operation import BUFFERS, COPY, JOIN, KINDS

if TYPE_CHECKING:
    from ubnet.schedule import Schedule

Ints = NDArray[np.int64]

ORDER_LIMIT = 20_000
"""Operations up to which the order is checked: the ancestors of all take limit**2 / 8 bytes."""


def check_form(schedule: "Schedule") -> None:
    """Raise `ScheduleError` where a column, range or dependency is not as `Schedule` says."""
    total = len(schedule.kind)
    name = schedule.name
    if schedule.sizes.shape != (schedule.ranks, 3) or (schedule.sizes < 0).any():
        raise ScheduleError(
            f"schedule {name}: sizes must be elements >= 0 of shape ({schedule.ranks}, 3), "
            f"not {schedule.sizes.shape}"
        )
    for column in ("step", "src", "dst", "src_buf", "src_off", "dst_buf", "dst_off", "count"):
        if len(getattr(schedule, column)) != total:
            raise ScheduleError(
                f"schedule {name}: column {column} has {len(getattr(schedule, column))} entries, "
                f"kind has {total}"
            )
    _in_range(schedule, "kind", len(KINDS))
    _in_range(schedule, "src", schedule.ranks)
    _in_range(schedule, "dst", schedule.ranks)
    _in_range(schedule, "src_buf", len(BUFFERS))
    _in_range(schedule, "dst_buf", len(BUFFERS))
    _ranges(schedule)
    _dependencies(schedule)


def _in_range(schedule: "Schedule", column: str, end: int) -> None:
    values = getattr(schedule, column)
    if len(values) and (values.min() < 0 or values.max() >= end):
        op = int(np.flatnonzero((values < 0) | (values >= end))[0])
        raise ScheduleError(
            f"schedule {schedule.name}: {column} of op {op} is {values[op]}; allowed: 0 to "
            f"{end - 1}"
        )


def _ranges(schedule: "Schedule") -> None:
    s = schedule
    wrong = s.count < 0
    for rank, buf, off in ((s.src, s.src_buf, s.src_off), (s.dst, s.dst_buf, s.dst_off)):
        size = s.sizes.reshape(-1)[rank * 3 + buf]
        wrong |= (off < 0) | (off + s.count > size)
    if wrong.any():
        op = int(np.flatnonzero(wrong)[0])
        sizes = [
            dict(zip(BUFFERS, s.sizes[r].tolist(), strict=True)) for r in (s.src[op], s.dst[op])
        ]
        raise ScheduleError(
            f"schedule {s.name}: {s.describe(op)} leaves its buffer; elements of source and "
            f"destination: {sizes[0]}, {sizes[1]}"
        )
    itself = (s.src == s.dst) & (s.src_buf == s.dst_buf) & (s.count > 0)
    itself &= np.abs(s.src_off - s.dst_off) < s.count
    if itself.any():
        op = int(np.flatnonzero(itself)[0])
        raise ScheduleError(f"schedule {s.name}: {s.describe(op)} overlaps itself")


def _dependencies(schedule: "Schedule") -> None:
    ptr, dep, total = schedule.dep_ptr, schedule.dep, len(schedule)
    if len(ptr) != total + 1 or ptr[0] != 0 or ptr[-1] != len(dep) or (np.diff(ptr) < 0).any():
        raise ScheduleError(
            f"schedule {schedule.name}: dep_ptr must rise from 0 to {len(dep)} in {total + 1} steps"
        )
    op = np.repeat(np.arange(total), np.diff(ptr))
    wrong = (dep < 0) | (dep >= op)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise ScheduleError(
            f"schedule {schedule.name}: {schedule.describe(int(op[first]))} waits for op "
            f"{dep[first]}; only earlier operations are allowed"
        )


def check_passes(schedule: "Schedule") -> None:
    """Raise `ScheduleError` where a reduction waits for the pass that it belongs to itself."""
    s = schedule
    op = np.repeat(np.arange(len(s)), np.diff(s.dep_ptr))
    same = s.reduces[op] & s.reduces[s.dep] & (s.dst[op] == s.dst[s.dep])
    same &= s.step[op] == s.step[s.dep]
    if same.any():
        first = int(np.flatnonzero(same)[0])
        raise _chained(s, int(op[first]), int(s.dep[first]))


def check_order(schedule: "Schedule") -> None:
    """Raise `ScheduleError` where two accesses to one place are not ordered by dependencies.

    The ancestors of every operation are bits of one whole number, so that a whole row is joined
    in one step; overlapping accesses come from a sweep over each buffer.
    """
    if len(schedule) > ORDER_LIMIT:
        raise ScheduleError(
            f"schedule {schedule.name} has {len(schedule)} operations; the order is checked up to "
            f"{ORDER_LIMIT} and was NOT checked: validate a smaller one of the same algorithm, or "
            f"call validate(ordering=False) for the rest"
        )
    race = first_race(schedule)
    if race is not None:
        raise ScheduleError(
            f"schedule {schedule.name}: {schedule.describe(race.later)} and "
            f"{schedule.describe(race.earlier)} touch the same elements in no fixed order; let the "
            f"later wait for the earlier (after=)"
        )


class Race(NamedTuple):
    """Two operations that touch the same elements with nothing to order them."""

    earlier: int
    later: int
    rank: int
    buffer: int
    begin: int  # the first of the elements


def first_race(schedule: "Schedule") -> Race | None:
    """Return two accesses to one place that are not ordered by dependencies, if there are any.

    Raises
    ------
    ScheduleError
        If a reduction waits for its own pass by way of others.
    """
    ancestors = _ancestors(schedule)
    _passes_apart(schedule, ancestors)
    unordered = (
        race for race in _conflicts(schedule) if not ancestors[race.later] >> race.earlier & 1
    )
    return next(unordered, None)


def _ancestors(schedule: "Schedule") -> list[int]:
    ancestors: list[int] = []
    dep = schedule.dep.tolist()
    for first, last in pairwise(schedule.dep_ptr.tolist()):
        mine = 0
        for other in dep[first:last]:
            mine |= ancestors[other] | 1 << other
        ancestors.append(mine)
    return ancestors


def _passes_apart(schedule: "Schedule", ancestors: list[int]) -> None:
    """Raise `ScheduleError` where a reduction waits for its own pass by way of others."""
    s = schedule
    reduces = np.flatnonzero(s.reduces).tolist()
    key = (s.step.astype(np.int64) * s.ranks + s.dst).tolist()
    members: dict[int, int] = {}
    for op in reduces:
        before = ancestors[op] & members.get(key[op], 0)
        if before:
            raise _chained(s, op, before.bit_length() - 1)
        members[key[op]] = members.get(key[op], 0) | 1 << op


def _chained(schedule: "Schedule", op: int, other: int) -> ScheduleError:
    return ScheduleError(
        f"schedule {schedule.name}: {schedule.describe(op)} waits for op {other} of the same step, "
        f"but reductions of one step into one rank are one pass; give it a step of its own"
    )


def _accesses(schedule: "Schedule") -> tuple[Ints, Ints, Ints, NDArray[np.bool_], Ints]:
    """Return buffer, first and end element, whether it writes, and operation of each access."""
    s = schedule
    moves = np.flatnonzero((s.kind != JOIN) & (s.count > 0))
    place = np.concatenate([(s.src * 3 + s.src_buf)[moves], (s.dst * 3 + s.dst_buf)[moves]])
    first = np.concatenate([s.src_off[moves], s.dst_off[moves]])
    writes = np.repeat([False, True], len(moves))
    op = np.concatenate([moves, moves])
    order = np.lexsort((op, writes, first, place))
    end = first + np.concatenate([s.count[moves]] * 2)
    return place[order], first[order], end[order], writes[order], op[order]


def _conflicts(schedule: "Schedule") -> Iterator[Race]:
    """Yield the pairs of operations whose order decides the result."""
    place, first, end, writes, op = (a.tolist() for a in _accesses(schedule))
    step, dst, copies = schedule.step, schedule.dst, schedule.kind == COPY
    group = np.where(copies, -1, step * schedule.ranks + dst).tolist()
    running: list[int] = []
    for i in range(len(op)):
        running = [j for j in running if place[j] == place[i] and end[j] > first[i]]
        for j in running:
            both_write = writes[i] and writes[j]
            one_pass = both_write and group[op[i]] >= 0 and group[op[i]] == group[op[j]]
            if (writes[i] or writes[j]) and op[i] != op[j] and not one_pass:
                rank, buffer = divmod(place[i], 3)
                yield Race(min(op[i], op[j]), max(op[i], op[j]), rank, buffer, first[i])
        running.append(i)
