"""Collective calls as the clock holder sees them: ranks gather, their flows start, each ends.

The n-th collective call of every member on a communicator belong together. An operation starts
when both of its ranks have arrived and what it waits for has started: members that come early
move what they can, and a rank goes on as soon as its own part is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import MismatchedCall
from ubnet.fabric import Ints
from ubnet.message import Completion, Join, Replay, position
from ubnet.network import Event, Network
from ubnet.plans import Plan, Plans
from ubnet.recording import Recorder

Complete = Callable[[Completion], None]


@dataclass(slots=True)
class _Gathering:
    key: tuple[int, int]
    joins: dict[int, Join] = field(default_factory=dict)
    plan: Plan | None = None
    posted: NDArray[np.bool_] | None = None
    flow_id: Ints | None = None
    moved: NDArray[np.bool_] | None = None
    some_moved: bool = False
    all_moved: bool = False
    ended: int = 0


class Gatherings:
    """All collective calls and exchanges of values under way.

    Parameters
    ----------
    network : Network
        Where their flows go.
    plans : Plans
        What makes and keeps schedules.
    complete : callable
        ``complete(completion)`` ends an operation.
    """

    def __init__(self, network: Network, plans: Plans, complete: Complete) -> None:
        self._network = network
        self._plans = plans
        self._complete = complete
        self._count: dict[tuple[int, int], int] = {}
        self._open: dict[tuple[int, int], _Gathering] = {}
        self.arrived: dict[tuple[int, int], _Gathering] = {}
        self.recorder: Recorder | None = None
        self.replays: list[Replay] = []
        self.values: dict[tuple[int, int], Sequence[Any]] = {}

    def join(self, join: Join) -> None:
        """Let a rank arrive.

        Raises
        ------
        MismatchedCall
            If the members of a communicator call different operations or disagree on arguments.
        """
        count = self._count.get((join.context, join.rank), 0)
        self._count[join.context, join.rank] = count + 1
        key = (join.context, count)
        gathering = self._open.get(key)
        if gathering is None:
            gathering = self._open[key] = _Gathering(key)
        for other in gathering.joins.values():
            _check_alike(other, join)
            break
        gathering.joins[position(join.rank, join.group)] = join
        if self.recorder is not None and join.maker is not None:
            self.recorder.joined(join)
        self.arrived[key] = gathering

    def settle(self) -> None:
        """Start what can start after the arrivals of this instant."""
        arrived, self.arrived = self.arrived, {}
        for gathering in arrived.values():
            first = next(iter(gathering.joins.values()))
            everybody = len(gathering.joins) == len(first.group)
            if first.maker is None:
                if everybody:
                    self._share_values(gathering)
            elif everybody or first.part is None:
                self._start(gathering, first, everybody)

    def _share_values(self, gathering: _Gathering) -> None:
        joins = [gathering.joins[i] for i in sorted(gathering.joins)]
        values = [join.part for join in joins]
        for join in joins:
            self.values[join.rank, join.number] = values
            self._finish(join, gathering)
        del self._open[gathering.key]

    def _start(self, gathering: _Gathering, first: Join, everybody: bool) -> None:
        plan = gathering.plan
        if plan is None:
            parts = [gathering.joins[i].part for i in sorted(gathering.joins)]
            assert first.maker is not None
            plan = self._plans.plan(first.maker, parts, first.group, first.itemsize)
            gathering.plan = plan
            if self.recorder is not None:
                self.recorder.gathered(first, plan.schedule)
        if everybody and gathering.posted is None:
            events = [self._end_event(gathering, i) for i in range(len(first.group))]
            self._network.play(plan, events)
        else:
            self._start_ready(gathering, plan, len(first.group))

    def _start_ready(self, gathering: _Gathering, plan: Plan, members: int) -> None:
        """Start what can start now that some members have come."""
        if gathering.posted is None:
            gathering.posted = np.zeros(len(plan.flows), dtype=bool)
            gathering.flow_id = np.full(len(plan.flows), -1)
            gathering.moved = np.zeros(len(plan.schedule), dtype=bool)
        posted, flow_id = gathering.posted, gathering.flow_id
        assert flow_id is not None
        here = np.zeros(members, dtype=bool)
        here[list(gathering.joins)] = True
        ready = plan.ready(here, posted)
        if not len(ready):
            return
        posted[ready] = True
        first_end = int(plan.flows.rank_end[0])
        is_end = ready >= first_end
        columns = plan.flows.select(ready, self._network.next_flow, flow_id)
        ends = {
            int(flow_id[local]): self._end_event(gathering, int(local) - first_end)
            for local in ready[is_end]
        }
        self._network.post(ends, **columns, watch=is_end)

    def _end_event(self, gathering: _Gathering, position: int) -> Event:
        join = gathering.joins[position]
        return join.rank, join.rank, join.number, 0, self._rank_ended, (gathering, join)

    def _rank_ended(self, whose: tuple[_Gathering, Join]) -> None:
        gathering, join = whose
        if self.recorder is not None:
            self.recorder.finished(join)
        everybody = len(gathering.joins) == len(join.group)
        if not gathering.all_moved and all(j.real for j in gathering.joins.values()):
            self._move(gathering, everybody)
        gathering.all_moved = everybody
        self._finish(join, gathering)
        gathering.ended += 1
        if gathering.ended == len(join.group):
            del self._open[gathering.key]

    def _move(self, gathering: _Gathering, everybody: bool) -> None:
        """Order the bytes to move: of all operations, or of those that have ended by now."""
        joins, moved = gathering.joins, gathering.moved
        group = next(iter(joins.values())).group
        parts = [joins[i].part for i in sorted(joins)] if everybody else None
        if everybody and not gathering.some_moved:
            self.replays.append(Replay(gathering.key, group, None, parts))
            return
        gathering.some_moved = True  # a process may have done its part and know no more of it
        assert moved is not None
        over = ~moved if everybody else self._over(gathering) & ~moved
        moved |= over
        self.replays.append(Replay(gathering.key, group, np.flatnonzero(over), parts))

    def _over(self, gathering: _Gathering) -> NDArray[np.bool_]:
        """Return which operations of a schedule have ended."""
        plan, flow_id = gathering.plan, gathering.flow_id
        assert plan is not None
        assert flow_id is not None
        done = flow_id[plan.flows.done_flow]
        over: NDArray[np.bool_] = (done >= 0) & (self._network.sim.finish_ps[done] >= 0)
        return over

    def _finish(self, join: Join, gathering: _Gathering) -> None:
        call = gathering.key[1]
        self._complete((join.rank, join.number, -1, call, 0, None, -1, join.op))


def _check_alike(one: Join, other: Join) -> None:
    if one.op != other.op:
        raise MismatchedCall(
            f"rank {one.rank} called {one.op} where rank {other.rank} called {other.op}: "
            "all ranks of a communicator must call the same operations in the same order"
        )
    mine, theirs = dict(one.agree), dict(other.agree)
    for name in mine | theirs if mine != theirs else ():
        if mine.get(name) != theirs.get(name):
            raise MismatchedCall(
                f"{one.op}: rank {one.rank} gave {name} {mine.get(name)} where rank {other.rank} "
                f"gave {theirs.get(name)}: all ranks must give the same"
            )
    if one.real != other.real:
        given, size_only = (one, other) if one.real else (other, one)
        raise MismatchedCall(
            f"{one.op}: rank {given.rank} gave buffers where rank {size_only.rank} gave sizes "
            "only: all ranks must give the same"
        )
    if one.group is not other.group and one.group != other.group:
        raise MismatchedCall(
            f"{one.op}: ranks {one.rank} and {other.rank} see different members of communicator "
            f"{one.context}"
        )
