"""The fabric as the ranks' clock sees it: transfers go in, their events come out in order.

The transfers of one instant are collected and posted to the flow engine together. A *write* ends
twice: at the sender when its last byte has left (the flow's end), at the receiver one latency of
switches and cables later. A *read* ends once, at the reader.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ubnet.compressed_rows import pointers
from ubnet.fabric import Fabric, Floats, Ints
from ubnet.flowsim import FlowSim
from ubnet.transport import READ, WRITE, Transport

Chooser = Callable[[int, int, int, str], Transport]


class Event(NamedTuple):
    """Something that happens at an instant; events of one instant are taken in sorted order.

    Attributes
    ----------
    source, destination, number : int
        Ranks, and the running number that the source gave to what happens.
    order : int
        Order among events of the same three numbers.
    handle : callable
        Called with no argument when the event is taken.
    """

    source: int
    destination: int
    number: int
    order: int
    handle: Callable[[], None]


class Follower(Protocol):
    """What takes down each transfer."""

    def follow(self, event: Event, what: str, nbytes: int) -> Event:
        """Return the event of a transfer's end, which takes the transfer down as well."""
        ...


class _Flow(NamedTuple):
    """One flow of the batch: its cost, whether it follows the one before, what its end means."""

    nbytes: int
    startup_ps: int
    link: Ints
    share: Floats
    rate_cap: float
    follows: bool
    event: Event | None


_NO_LINK = np.zeros(0, dtype=np.int64)
_NO_SHARE = np.zeros(0)


class Network:
    """The flow engine with the fabric's costs in front of it.

    Parameters
    ----------
    fabric : Fabric
        What bytes travel on.
    capacity : ndarray of float64
        Capacity of every resource, memories of the endpoints included.
    choose : callable
        ``choose(src, dst, nbytes, op)`` returns the transport of a transfer.

    Attributes
    ----------
    follower : Follower or None
        What takes transfers down, where they are recorded.
    """

    def __init__(self, fabric: Fabric, capacity: Floats, choose: Chooser) -> None:
        self.sim = FlowSim(capacity)
        self.follower: Follower | None = None
        self._fabric = fabric
        self._choose = choose
        self._costs: dict[tuple[int, int, int, str], tuple[_Flow, int]] = {}
        self._batch: list[_Flow] = []
        self._due_now = False
        self._events: dict[int, Event] = {}

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return self.sim.now_ps

    @property
    def next_flow(self) -> int:
        """The number that the engine gives to the next flow."""
        self.flush()
        return self.sim.size

    @property
    def due_now(self) -> bool:
        """Whether something that was started at this instant may end at it."""
        return self._due_now or any(flow.startup_ps == 0 for flow in self._batch)

    @property
    def pending(self) -> bool:
        """Whether anything is under way."""
        self.flush()
        return self.sim.next_event() is not None

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
        flow, latency_ps = self._cost(src, dst, nbytes, WRITE)
        leaves = flow.startup_ps - latency_ps
        self._batch.append(flow._replace(startup_ps=leaves, event=sent))
        self._batch.append(_Flow(0, latency_ps, _NO_LINK, _NO_SHARE, np.inf, True, arrived))

    def read(self, src: int, dst: int, nbytes: int, arrived: Event, what: str) -> None:
        """Start a read by endpoint `dst` from endpoint `src`; `what` is for the recording."""
        if self.follower is not None:
            arrived = self.follower.follow(arrived, what, nbytes)
        self._batch.append(self._cost(src, dst, nbytes, READ)[0]._replace(event=arrived))

    def signal(self, src: int, dst: int, arrived: Event) -> None:
        """Let a word travel that takes no engine: one latency of switches and cables."""
        latency_ps = self._cost(src, dst, 0, WRITE)[1]
        self._batch.append(_Flow(0, latency_ps, _NO_LINK, _NO_SHARE, np.inf, False, arrived))

    def post(self, events: Mapping[int, Event], **columns: Any) -> None:
        """Post many flows at once: arguments of `FlowSim.post`, events by engine number."""
        self.flush()
        self.sim.post(**columns)
        self._events.update(events)
        self._due_now = True

    def flush(self) -> None:
        """Post what was collected since the last call, in its order."""
        if not self._batch:
            return
        self._due_now = self.due_now
        batch, self._batch = self._batch, []
        first = self.sim.size
        for number, flow in enumerate(batch, start=first):
            if flow.event is not None:
                self._events[number] = flow.event
        nbytes, startup, links, shares, caps, follows, events = zip(*batch, strict=True)
        behind = np.array(follows)
        self.sim.post(
            np.array(nbytes),
            pointers(np.array([len(link) for link in links])),
            np.concatenate(links),
            np.concatenate(shares),
            rate_cap=np.array(caps),
            startup_ps=np.array(startup),
            dep_ptr=pointers(behind.astype(np.int64)),
            dep=first - 1 + np.flatnonzero(behind),
            watch=np.array([event is not None for event in events]),
        )

    def advance(self, limit_ps: int | None) -> list[Event]:
        """Run to the next instant at which something happens, `limit_ps` at the latest."""
        self.flush()
        self._due_now = False
        ended = self.sim.advance(limit_ps)
        return sorted((self._events.pop(int(flow)) for flow in ended), key=lambda e: e[:4])

    def _cost(self, src: int, dst: int, nbytes: int, op: str) -> tuple[_Flow, int]:
        """Return the flow of a transfer, and the latency of switches and cables in its start-up."""
        key = (src, dst, nbytes, op)
        kept = self._costs.get(key)
        if kept is None:
            transport = self._choose(src, dst, nbytes, op)
            c = transport.flows(self._fabric, op, src, dst, nbytes)
            startup, cap = int(c.startup_ps[0]), float(c.rate_cap[0])
            flow = _Flow(nbytes, startup, c.route_link, c.route_share, cap, False, None)
            kept = flow, int(c.latency_ps[0])
            if len(self._costs) > 100_000:  # a bound on memory; costs are pure functions
                self._costs.clear()
            self._costs[key] = kept
        return kept
