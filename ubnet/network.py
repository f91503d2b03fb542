"""The fabric as the ranks' clock sees it: transfers go in, their events come out in order.

A *write* ends twice: at the sender when its last byte has left (the flow's end), at the receiver
one latency of switches and cables later. A *read* ends once, at the reader.

A transfer waits here for its start-up. Then its flow runs unhindered as long as the links carry
all flows; where they do not, the flow engine gets all that are under way, and whatever starts
until it has nothing left. Its clock may be behind: it is told when each flow has started. A
collective operation that has the network to itself does what it did the last time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Protocol

import numpy as np

from ubnet.compressed_rows import pointers
from ubnet.fabric import Floats
from ubnet.flowsim import FlowSim
from ubnet.outcome import Outcome, Repeat, Trial
from ubnet.passage import Passage
from ubnet.passages import Passages
from ubnet.plans import Plan
from ubnet.schedule_flows import ScheduleFlows
from ubnet.transport import READ, WRITE
from ubnet.unhindered import Unhindered

Event = tuple[int, int, int, int, Callable[[Any], None], Any]
"""Something that happens at an instant: the ranks that it comes from and goes to, the running
number that the source gave to it, and its order among events of the same three numbers, by which
events of one instant are sorted; then what takes the event, and what that is called with. A plain
tuple: every message has two."""


class Follower(Protocol):
    """What takes down each transfer."""

    def follow(self, event: Event, what: str, nbytes: int) -> Event:
        """Return the event of a transfer's end, which takes the transfer down as well."""
        ...


@dataclass(slots=True, eq=False)
class _Transfer:
    """A passage under way, what its end means, and what has arrived so much later."""

    passage: Passage
    leaves: Event | None
    arrives: Event
    later_ps: int


ENDS, PARTS, OVER, HAPPENS, STARTS = range(5)
"""What waits for its time, in the order of an instant: an unhindered flow's end; the ends of ranks'
parts in what is repeated, and its own; an event; a flow's start. The first three hold only for as
long as the engine has nothing to do."""


class Network:
    """The flow engine with the fabric's costs in front of it.

    Parameters
    ----------
    capacity : ndarray of float64
        Capacity of every resource, memories of the endpoints included.
    passages : Passages
        What transfers take of the fabric.

    Attributes
    ----------
    now_ps : int
        The virtual time in picoseconds.
    due_now : bool
        Whether something that was started at this instant may end at it.
    follower : Follower or None
        What takes transfers down, where they are recorded.
    """

    def __init__(self, capacity: Floats, passages: Passages) -> None:
        self.now_ps = 0
        self.due_now = False
        self.sim = FlowSim(capacity)
        self.follower: Follower | None = None
        self._passages = passages
        self._agenda: list[tuple[int, int, int, Any]] = []
        self._entry = count()  # entries of one kind and instant stay in the order of their making
        self._unhindered: Unhindered[_Transfer] = Unhindered(capacity)
        self._engaged = False  # the engine has flows that have not ended
        self._awaited: dict[int, _Transfer | Event] = {}
        self._trial: tuple[Plan, Trial] | None = None
        self._repeat: Repeat | None = None
        self._repeated: dict[Outcome, int] = {}

    @property
    def next_flow(self) -> int:
        """The number that the engine gives to the next flow."""
        self._engage()
        return self.sim.size

    @property
    def pending(self) -> bool:
        """Whether anything is under way."""
        return bool(self._agenda) or (self._engaged and self.sim.next_event() is not None)

    def write(
        self,
        src: int,
        dst: int,
        nbytes: int,
        sent: Event | None,
        arrived: Event,
        what: str = "message",
    ) -> None:
        """Start a write from endpoint `src` to endpoint `dst`; `what` is for the recording."""
        if self.follower is not None:
            arrived = self.follower.follow(arrived, what, nbytes)
        passage = self._passages[src, dst, nbytes, WRITE]
        latency_ps = passage.latency_ps
        transfer = _Transfer(passage, sent, arrived, latency_ps)
        self._note(passage.startup_ps - latency_ps, STARTS, transfer)

    def read(self, src: int, dst: int, nbytes: int, arrived: Event, what: str) -> None:
        """Start a read by endpoint `dst` from endpoint `src`; `what` is for the recording."""
        if self.follower is not None:
            arrived = self.follower.follow(arrived, what, nbytes)
        passage = self._passages[src, dst, nbytes, READ]
        self._note(passage.startup_ps, STARTS, _Transfer(passage, None, arrived, 0))

    def signal(self, src: int, dst: int, arrived: Event) -> None:
        """Let a word travel that takes no engine: one latency of switches and cables."""
        self._note(self._passages[src, dst, 0, WRITE].latency_ps, HAPPENS, arrived)

    def play(self, plan: Plan, events: Sequence[Event]) -> None:
        """Start all flows of a collective operation; event r is the end of rank r's part."""
        alone = not (self._engaged or self._unhindered.since or self._repeat)
        if alone and plan.outcome is not None:
            self._repeat = Repeat(plan.outcome, self.now_ps, dict(enumerate(events)))
            for after_ps, ranks in plan.outcome.ends:
                self._note(after_ps, PARTS, ranks)
            self._note(plan.outcome.over_ps, OVER, None)
            return
        first_end = self.next_flow + int(plan.flows.rank_end[0])
        self._post_all(plan.flows, self.now_ps, dict(enumerate(events)))
        self.due_now = True
        if alone:
            self._trial = plan, Trial(plan.flows, self.now_ps, first_end)

    def post(self, events: Mapping[int, Event], **columns: Any) -> None:
        """Post many flows at once: arguments of `FlowSim.post`, events by engine number."""
        self._engage()
        self._trial = None
        self.sim.post(start_ps=self.now_ps, **columns)
        self._awaited.update(events)
        self.due_now = True

    def advance(self, limit_ps: int | None) -> list[Event]:
        """Run to the next instant at which something happens, `limit_ps` at the latest."""
        self.due_now = False
        events: list[Event] = []
        while not events:
            bound = self._agenda[0][0] if self._agenda else limit_ps
            if limit_ps is not None and bound is not None and limit_ps < bound:
                bound = limit_ps
            if self._engaged:
                self._run_engine(bound, events)
            elif bound is None:
                return events
            else:
                self.now_ps = bound
            if self._agenda and self._agenda[0][0] == self.now_ps:
                self._work_off(events)
            if self.now_ps == limit_ps:
                break
        if len(events) > 1:
            events.sort(key=_order)
        return events

    def link_bytes(self) -> Floats:
        """Return what each resource has carried so far, in bytes times share."""
        if self._unhindered.since or self._repeat is not None:
            self._engage()
        if self._engaged:
            self.sim.run_until(self.now_ps)
        total: Floats = self.sim.link_bytes() + np.array(self._unhindered.carried)
        for outcome, times in self._repeated.items():
            total += times * outcome.carried(len(total))
        return total

    def _note(self, after_ps: int, kind: int, what: Any) -> None:
        if not after_ps:
            self.due_now = True
        heappush(self._agenda, (self.now_ps + after_ps, kind, next(self._entry), what))

    def _work_off(self, events: list[Event]) -> None:
        """Take what stands on the agenda for this instant; add the events that it means."""
        agenda, now = self._agenda, self.now_ps
        starting: list[_Transfer] = []
        alone = not self._engaged and self._repeat is None
        while agenda and agenda[0][0] == now:
            _, kind, _, what = heappop(agenda)
            if kind == HAPPENS:
                events.append(what)
            elif kind == ENDS:
                self._unhindered.end(what)
                self._ended(what, events)
            elif kind != STARTS:
                self._go_on_repeating(what, events)
                alone = not self._engaged and self._repeat is None
            elif (alone or not what.passage.loads) and self._unhindered.start(what, now):
                ends_ps = now + what.passage.alone_ps
                heappush(agenda, (ends_ps, ENDS, next(self._entry), what))
            else:
                self._engage()
                agenda, alone = self._agenda, False
                starting.append(what)
        if starting:
            self._post(starting, now)
        self.due_now = False

    def _go_on_repeating(self, ranks: list[int] | None, events: list[Event]) -> None:
        """Add the events of ranks whose parts end now; None: all is over."""
        repeat = self._repeat
        assert repeat is not None
        if ranks is not None:
            events += [repeat.events.pop(rank) for rank in ranks]
            return
        self._repeat = None
        self._repeated[repeat.outcome] = self._repeated.get(repeat.outcome, 0) + 1

    def _ended(self, transfer: _Transfer, events: list[Event]) -> None:
        """Add the events of a flow's end, or make a note of those to come."""
        if transfer.leaves is not None:
            events.append(transfer.leaves)
        if transfer.later_ps:
            self._note(transfer.later_ps, HAPPENS, transfer.arrives)
        else:
            events.append(transfer.arrives)

    def _engage(self) -> None:
        """Give the flows under way to the engine, and do not count on their ends any more."""
        if self._engaged:
            return
        self._engaged = True
        since = self._unhindered.give_up()
        repeat, self._repeat = self._repeat, None
        if since or repeat is not None:
            self._agenda = [entry for entry in self._agenda if entry[1] >= HAPPENS]
            heapify(self._agenda)
        if repeat is not None:
            self._post_all(repeat.outcome.flows, repeat.start_ps, repeat.events)
        if since:
            self._post(since, np.array(list(since.values())))

    def _run_engine(self, bound: int | None, events: list[Event]) -> None:
        """Run the engine to its next end, up to `bound`; leave it alone once nothing is left."""
        ended = self.sim.advance(bound)
        self.now_ps = self.sim.now_ps
        numbers = ended.tolist()
        if self._trial is not None:
            self._trial[1].note(self.now_ps, numbers)
        for number in numbers:
            what = self._awaited.pop(number)
            if isinstance(what, _Transfer):
                self._ended(what, events)
            else:
                events.append(what)
        if not self._awaited and self.sim.next_event() is None:
            self._engaged = False
            if self._trial is not None:
                plan, trial = self._trial
                plan.outcome, self._trial = trial.outcome(self.now_ps), None

    def _post_all(self, flows: ScheduleFlows, start_ps: int, events: Mapping[int, Event]) -> None:
        """Post all flows of a collective operation, and await the ends of some ranks' parts."""
        first = self.next_flow
        ends = {int(flows.rank_end[rank]): event for rank, event in events.items()}
        watch = np.zeros(len(flows), dtype=bool)
        watch[list(ends)] = True
        self._trial = None
        columns = {**flows.post_arguments(), "dep": flows.dep + first}
        self.sim.post(start_ps=start_ps, **columns, watch=watch)
        self._awaited.update((first + flow, event) for flow, event in ends.items())

    def _post(self, transfers: Iterable[_Transfer], start_ps: Any) -> None:
        """Post flows to the engine that start without further ado."""
        self._trial = None
        self._awaited.update(enumerate(transfers, start=self.sim.size))
        flows = [transfer.passage.flow for transfer in transfers]
        self.sim.post(
            np.concatenate([flow.nbytes for flow in flows]),
            pointers(np.array([len(flow.route_link) for flow in flows])),
            np.concatenate([flow.route_link for flow in flows]),
            np.concatenate([flow.route_share for flow in flows]),
            start_ps=start_ps,
            rate_cap=np.concatenate([flow.rate_cap for flow in flows]),
            watch=np.ones(len(flows), dtype=bool),
        )


def _order(event: Event) -> tuple[Any, ...]:
    return event[:4]
