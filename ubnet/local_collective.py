"""A collective call as one process sees it: the buffers of its own ranks, and what moves in them.

Operations whose ranks share the process are replayed in place. Small ones across processes are
replayed in each of them, once all inputs have been swapped. Large ones are replayed level by level:
what leaves the process is packed per process, what comes in is staged, and then the level runs in
the order of the operations, so that sums come out the same however the ranks are spread.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.fabric import Ints
from ubnet.message import Collective
from ubnet.operation import COPY, JOIN
from ubnet.plans import Plan
from ubnet.replay import replay, replay_at
from ubnet.schedule import Schedule
from ubnet.stage import Stage, Stages

RUN_EVERYWHERE_BYTES = 8 << 20
"""Memory of an operation, of all ranks together, up to which every process moves all the bytes:
that costs less than waiting for each other at every step."""

Bytes = NDArray[np.uint8]


class Wire(Protocol):
    """What carries bytes between the processes of a world."""

    process: int

    def swap(self, outgoing: Mapping[int, Bytes], incoming: Mapping[int, int]) -> dict[int, Bytes]:
        """Send `outgoing` by process; return what comes in, of the sizes `incoming`."""
        ...


class LocalCollective:
    """The members of one collective call that this process hosts.

    Parameters
    ----------
    group : tuple of int
        World ranks of all members.
    process_of : ndarray of int64, or None
        The process that hosts each rank of the world; None if this one is alone.
    wire : Wire or None
        What carries bytes to other processes.
    stages : Stages
        Memory for whole schedules.

    Attributes
    ----------
    enter : callable
        Called with True before a reduction of the program's own runs, with False after it.
    """

    def __init__(
        self, group: tuple[int, ...], process_of: Ints | None, wire: Wire | None, stages: Stages
    ) -> None:
        self.calls: dict[int, Collective] = {}
        self._wire = wire
        self._here = 0 if wire is None else wire.process
        home = np.zeros(len(group), np.int64) if process_of is None else process_of[list(group)]
        self._home: Ints = home
        self._members = int((home == self._here).sum())
        self._arena: Arena | None = None
        self._stages = stages
        self._stage: Stage | None = None
        self._level: Ints | None = None
        self._packed: set[int] = set()
        self._handed_out = 0
        self._left = 0
        self._reduce: Any = None
        self.failure: Exception | None = None
        self.enter: Callable[[bool], None] = lambda inside: None

    @property
    def first(self) -> Collective:
        """Any member's call, for what all give alike."""
        return next(iter(self.calls.values()))

    @property
    def over(self) -> bool:
        """Whether every member here has its result, and no other process needs its data."""
        return self._handed_out == self._members and self._left == 0

    def move(self, plan: Plan, ops: Ints | None) -> None:
        """Move the bytes of all operations, or of those given by index."""
        if ops is None and (self._members == len(self._home) or self._small(plan.schedule)):
            self._move_all(plan)
        else:
            self._move_some(plan.schedule, ops)

    def _small(self, schedule: Schedule) -> bool:
        """Say whether every process runs the whole schedule for itself, to wait only once."""
        nbytes = int(schedule.sizes.sum()) * self._dtype().itemsize
        return nbytes <= RUN_EVERYWHERE_BYTES and not callable(self.first.reduce)

    def _move_all(self, plan: Plan) -> None:
        """Run a whole schedule, of which the inputs of ranks elsewhere come here first."""
        self._stage = stage = self._stages.take(plan.schedule, self._dtype())
        self._arena = stage.arena
        for position, call in self.calls.items():
            _load(call, stage.inputs[position], stage.outputs[position])
        if self._members < len(self._home):
            self._share_inputs(stage)
        stage.run(self._reduction())

    def _share_inputs(self, stage: Stage) -> None:
        """Swap the inputs of all ranks with the other processes that host some."""
        assert self._wire is not None
        held = {
            process: [stage.inputs[i] for i in np.flatnonzero(self._home == process).tolist()]
            for process in np.unique(self._home).tolist()
        }
        mine = np.concatenate(held.pop(self._here)).view(np.uint8)
        sizes = {process: sum(a.nbytes for a in arrays) for process, arrays in held.items()}
        received = self._wire.swap(dict.fromkeys(held, mine), sizes)
        for process, arrays in held.items():
            values, first = received[process].view(stage.arena.dtype), 0
            for array in arrays:
                array[:] = values[first : first + len(array)]
                first += len(array)

    def _move_some(self, schedule: Schedule, ops: Ints | None) -> None:
        home, which = self._home, slice(None) if ops is None else ops
        if self._arena is None:
            held = np.flatnonzero(home == self._here).tolist()
            self._arena = Arena(schedule.sizes, self._dtype(), ranks=held)
            self._reduce = self._reduction()
            self._left = int(self._touches(schedule, slice(None)).sum())
        self._pack()
        self._left -= int(self._touches(schedule, which).sum())
        if self._members == len(home):
            replay(schedule, self._arena, self._reduce, ops)
        else:
            self._replay_across(schedule, np.arange(len(schedule)) if ops is None else ops)

    def hand_out(self, position: int) -> NDArray[Any] | None:
        """Give a member its result; return it where it has no buffer for it."""
        call = self.calls[position]
        self._handed_out += 1
        if self._arena is None:
            return None
        stage = self._stage
        made = self._arena.output(position) if stage is None else stage.outputs[position]
        if call.output is not None:
            call.output[:] = made[: len(call.output)]
        kept = made.copy() if call.keep else None
        if stage is not None and self.over:
            self._stages.give_back(stage)
        return kept

    def _touches(self, schedule: Schedule, ops: Ints | slice) -> NDArray[np.bool_]:
        """Return which of the operations read or write memory of this process."""
        either: NDArray[np.bool_] = self._home[schedule.src[ops]] == self._here
        either |= self._home[schedule.dst[ops]] == self._here
        return either

    def _reduction(self) -> Any:
        """Return the reduction; the first exception of a user's own is kept in `failure`.

        The bytes go on moving, because other processes wait for them.
        """
        given = self.first.reduce or "sum"
        if not callable(given):
            return given

        def combine(left: NDArray[Any], right: NDArray[Any]) -> Any:
            self.enter(True)
            try:
                return given(left, right) if self.failure is None else left
            except Exception as error:
                self.failure = error
                return left
            finally:
                self.enter(False)

        return combine

    def _dtype(self) -> np.dtype[Any]:
        for call in self.calls.values():
            for array in (call.input, call.output):
                if array is not None:
                    return array.dtype
        return np.dtype(np.uint8)

    def _pack(self) -> None:
        """Load the buffers of the members that have come since the last time."""
        assert self._arena is not None
        for position, call in self.calls.items():
            if position in self._packed:
                continue
            self._packed.add(position)
            _load(call, self._arena.input(position), self._arena.output(position))

    def _replay_across(self, schedule: Schedule, ops: Ints) -> None:
        if self._level is None:
            self._level = schedule.level()
        level = self._level[ops]
        order = np.argsort(level, kind="stable")
        bounds = np.flatnonzero(np.diff(level[order])) + 1
        for step in np.split(ops[order], bounds):
            self._replay_level(schedule, step)

    def _replay_level(self, schedule: Schedule, ops: Ints) -> None:
        """Run operations that do not depend on each other; what crosses processes is staged."""
        arena, wire, home = self._arena, self._wire, self._home
        assert arena is not None
        assert wire is not None
        here = wire.process
        moves = (schedule.kind[ops] != JOIN) & (schedule.count[ops] > 0)
        from_here, to_here = home[schedule.src[ops]] == here, home[schedule.dst[ops]] == here
        leaves, comes = ops[moves & from_here & ~to_here], ops[moves & ~from_here & to_here]
        first = arena.reserve_staging(
            int(schedule.count[leaves].sum() + schedule.count[comes].sum())
        )
        out_process, in_process = home[schedule.dst[leaves]], home[schedule.src[comes]]
        out_offset, out_ends = _staged(schedule.count[leaves], out_process, first)
        in_offset, in_ends = _staged(
            schedule.count[comes], in_process, max([first, *out_ends.values()])
        )
        replay_at(
            arena,
            np.full(len(leaves), COPY, dtype=np.int8),
            arena.offsets(schedule.src[leaves], schedule.src_buf[leaves], schedule.src_off[leaves]),
            out_offset,
            schedule.count[leaves],
        )
        octets, item = arena.flat.view(np.uint8), arena.flat.itemsize
        outgoing = {p: octets[a * item : b * item] for p, (a, b) in _pieces(out_ends, first)}
        inside = dict(_pieces(in_ends, max([first, *out_ends.values()])))
        received = wire.swap(outgoing, {p: (b - a) * item for p, (a, b) in inside.items()})
        for process, (a, b) in inside.items():
            octets[a * item : b * item] = received[process]
        mine = ops[moves & to_here]
        source = arena.offsets(schedule.src[mine], schedule.src_buf[mine], schedule.src_off[mine])
        source[home[schedule.src[mine]] != here] = in_offset
        target = arena.offsets(schedule.dst[mine], schedule.dst_buf[mine], schedule.dst_off[mine])
        replay_at(arena, schedule.kind[mine], source, target, schedule.count[mine], self._reduce)


def _load(call: Collective, source: NDArray[Any], result: NDArray[Any]) -> None:
    """Load a member's buffers; the result, too, because a schedule may leave parts of it alone."""
    if call.input is not None:
        source[: len(call.input)] = call.input
    if call.output is not None:
        result[: len(call.output)] = call.output


def _staged(count: Ints, process: Ints, first: int) -> tuple[Ints, dict[int, int]]:
    """Lay operations out from `first`, process by process; return offsets and each one's end."""
    order = np.argsort(process, kind="stable")
    ends = first + np.cumsum(count[order])
    offset = np.empty(len(count), dtype=np.int64)
    offset[order] = ends - count[order]
    return offset, dict(zip(process[order].tolist(), ends.tolist(), strict=True))


def _pieces(ends: Mapping[int, int], first: int) -> list[tuple[int, tuple[int, int]]]:
    """Return the range of each process, given the ends in order."""
    starts = [first, *ends.values()]
    return [(p, (start, end)) for start, (p, end) in zip(starts, ends.items(), strict=False)]
