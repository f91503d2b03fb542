"""The fabric as the ranks' clock sees it: transfers go in, their events come out in order.

The transfers of one instant are collected and posted to the flow engine together. A *write* ends
twice: at the sender when its last byte has left (the flow's end), at the receiver one latency of
switches and cables later. A *read* ends once, at the reader.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ubnet.fabric import Fabric, Ints
from ubnet.flowsim import FlowSim
from ubnet.transport import READ, WRITE, FlowColumns, Transport

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
    """

    def __init__(self, fabric: Fabric, capacity: np.ndarray[Any, Any], choose: Chooser) -> None:
        self.sim = FlowSim(capacity)
        self._fabric = fabric
        self._choose = choose
        self._costs: dict[tuple[int, int, int, str], FlowColumns] = {}
        self._batch: list[tuple[FlowColumns, bool, Event | None, Event | None]] = []
        self._events: dict[int, Event] = {}

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return self.sim.now_ps

    def write(self, src: int, dst: int, nbytes: int, sent: Event | None, arrived: Event) -> None:
        """Start a write from endpoint `src` to endpoint `dst`."""
        self._batch.append((self._cost(src, dst, nbytes, WRITE), True, sent, arrived))

    def read(self, src: int, dst: int, nbytes: int, arrived: Event) -> None:
        """Start a read by endpoint `dst` from endpoint `src`."""
        self._batch.append((self._cost(src, dst, nbytes, READ), False, None, arrived))

    def watch(self, flow: int, event: Event) -> None:
        """Let `event` happen when a flow that was posted with ``watch`` ends."""
        self._events[flow] = event

    def flush(self) -> None:
        """Post what was collected since the last call, in its order."""
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        first = self.sim.size
        rows: list[tuple[int, int, int, bool]] = []
        links, shares, caps = [], [], []
        empty = np.zeros(0, dtype=np.int64)
        for cost, is_write, sent, arrived in batch:
            latency = int(cost.latency_ps[0]) if is_write else 0
            mine = first + len(rows)
            rows.append((int(cost.nbytes[0]), int(cost.startup_ps[0]) - latency, -1, not is_write))
            links.append(cost.route_link)
            shares.append(cost.route_share)
            caps.append(float(cost.rate_cap[0]))
            if not is_write:
                self._events[mine] = arrived
                continue
            if sent is not None:
                self._events[mine] = sent
                rows[-1] = (*rows[-1][:3], True)
            rows.append((0, latency, mine, True))
            links.append(empty)
            shares.append(np.zeros(0))
            caps.append(np.inf)
            self._events[mine + 1] = arrived
        column = np.array(rows, dtype=np.int64)
        waits = column[:, 2] >= 0
        self.sim.post(
            column[:, 0],
            _ptr(np.array([len(link) for link in links])),
            np.concatenate(links),
            np.concatenate(shares),
            rate_cap=np.array(caps),
            startup_ps=column[:, 1],
            dep_ptr=_ptr(waits),
            dep=column[waits, 2],
            watch=column[:, 3].astype(bool),
        )

    def advance(self, limit_ps: int | None) -> list[Event]:
        """Run to the next instant at which something happens, `limit_ps` at the latest."""
        self.flush()
        ended = self.sim.advance(limit_ps)
        return sorted((self._events.pop(int(flow)) for flow in ended), key=lambda e: e[:4])

    def _cost(self, src: int, dst: int, nbytes: int, op: str) -> FlowColumns:
        key = (src, dst, nbytes, op)
        cost = self._costs.get(key)
        if cost is None:
            transport = self._choose(src, dst, nbytes, op)
            cost = transport.flows(self._fabric, op, src, dst, nbytes)
            if len(self._costs) > 100_000:  # a bound on memory; the costs are pure functions
                self._costs.clear()
            self._costs[key] = cost
        return cost


def _ptr(lengths: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
