"""Many requests through prefill, transfer and decode, with queues before each of them.

A request waits for the prefill group with the fewest tokens before it, is computed in order of
arrival, asks for a place in the decode group that has fewest requests, sends its KV there, and
holds the place until its answer is complete. Transfers share the fabric; everything else takes
the time that the `Deployment` says. Ties go to the lowest number.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ubnet.errors import OptionError
from ubnet.fabric import Ints
from ubnet.flowsim import FlowSim
from ubnet.transport import WRITE, Transport

from .deployment import Deployment
from .requests import Requests
from .serving_report import ServingReport

STREAMING = ("prompt", "layers")
ARRIVE, PREFILLED, ANSWERED = 0, 1, 2
NONE = -1


def serve(
    site: Deployment,
    requests: Requests,
    *,
    transport: str | Transport = "roce",
    op: str = WRITE,
    streaming: str = "prompt",
) -> ServingReport:
    """Run requests through a deployment; sizes alone are moved.

    Parameters
    ----------
    site : Deployment
        Where they are served.
    requests : Requests
        What arrives.
    transport, op : str
        How KV travels.
    streaming : {"prompt", "layers"}
        Whether KV leaves when the whole prompt is computed, or layer by layer as it is. A layer
        is posted when it is computed and the one before it has arrived.

    Returns
    -------
    ServingReport
        Times per request, loads per source.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> site = Deployment(load_fabric("cloudmatrix384"))
    >>> one = Requests(*np.array([[0], [4096], [1]]))
    >>> report = serve(site, one)
    >>> report.prefill_us.round(), report.transfer_us.round()
    (array([38278.]), array([11755.]))
    """
    if streaming not in STREAMING:
        raise OptionError(f"streaming is {streaming!r}; allowed: {', '.join(STREAMING)}")
    way = site.fabric.transport(transport) if isinstance(transport, str) else transport
    run = _Run(site, requests, way, op, streaming == "layers")
    run.go()
    return run.report()


@dataclass(eq=False)
class _Run:
    """The state of a run: queues, places, and what is on its way."""

    site: Deployment
    requests: Requests
    way: Transport
    op: str
    layered: bool
    sim: FlowSim = field(init=False)

    def __post_init__(self) -> None:
        site, n = self.site, len(self.requests)
        self.sim = FlowSim(site.fabric.capacity)
        self.agenda: list[tuple[int, int, int]] = [
            (t, ARRIVE, i) for i, t in enumerate(self.requests.arrival_ps.tolist())
        ]
        self.queues: list[deque[int]] = [deque() for _ in range(site.prefill_groups)]
        self.queued = np.zeros(site.prefill_groups, dtype=np.int64)
        self.homeless: deque[int] = deque()
        self.held = np.zeros(site.decode_dp, dtype=np.int64)
        self.group = np.full(n, NONE)
        self.place = np.full(n, NONE)
        self.open = np.zeros(n, dtype=np.int64)
        self.prefill_start = np.full(n, NONE)
        self.prefill_end = np.full(n, NONE)
        self.placed = np.full(n, NONE)
        self.arrived = np.full(n, NONE)
        self.owner: dict[int, int] = {}
        self.sent: list[tuple[int, int, int, int]] = []

    def go(self) -> None:
        """Go from event to event; what arrives over the fabric comes first at an instant."""
        while self.agenda or self.owner:
            due = self.agenda[0][0] if self.agenda else None
            ended = self.sim.advance(due)
            for flow in ended.tolist():
                self._flow_ended(self.owner.pop(flow))
            if len(ended):
                continue
            while self.agenda and self.agenda[0][0] == self.sim.now_ps:
                _, kind, request = heapq.heappop(self.agenda)
                (self._arrive, self._prefilled, self._answered)[kind](request)

    def _arrive(self, request: int) -> None:
        group = int(self.queued.argmin())
        self.group[request] = group
        self.queued[group] += self.requests.prompt[request]
        self.queues[group].append(request)
        if len(self.queues[group]) == 1:
            self._prefill(request)

    def _prefill(self, request: int) -> None:
        now = self.sim.now_ps
        end = now + self.site.prefill_ps(int(self.requests.prompt[request]))
        self.prefill_start[request], self.prefill_end[request] = now, end
        heapq.heappush(self.agenda, (end, PREFILLED, request))
        if self.layered:
            self._ask_for_place(request)

    def _prefilled(self, request: int) -> None:
        group = int(self.group[request])
        queue = self.queues[group]
        queue.popleft()
        self.queued[group] -= self.requests.prompt[request]
        if queue:
            self._prefill(queue[0])
        if not self.layered:
            self._ask_for_place(request)

    def _ask_for_place(self, request: int) -> None:
        dp = int(self.held.argmin())
        if self.held[dp] < self.site.slots:
            self._settle(request, dp)
        else:
            self.homeless.append(request)

    def _settle(self, request: int, dp: int) -> None:
        self.held[dp] += 1
        self.place[request], self.placed[request] = dp, self.sim.now_ps
        self._send(request, dp)

    def _answered(self, request: int) -> None:
        dp = int(self.place[request])
        self.held[dp] -= 1
        if self.homeless:
            self._settle(self.homeless.popleft(), dp)

    def _flow_ended(self, request: int) -> None:
        self.open[request] -= 1
        if self.open[request]:
            return
        self.arrived[request] = self.sim.now_ps
        answer = int(self.requests.answer[request]) * self.site.token_ps
        heapq.heappush(self.agenda, (self.sim.now_ps + answer, ANSWERED, request))

    def _send(self, request: int, dp: int) -> None:
        """Post the KV of a request: a chain of flows for each connection, the last one watched."""
        site, now = self.site, self.sim.now_ps
        routes = site.routes(dp)
        parts = site.model.layers if self.layered else 1
        n = len(routes)
        layer_bytes = routes.heads * site.model.bytes_per_head * self.requests.prompt[request]
        nbytes = layer_bytes * (site.model.layers // parts)
        src = site.prefill[self.group[request], routes.prefill]
        dst = site.decode.ravel()[routes.decode]
        columns = self.way.flows(
            site.fabric, self.op, src, dst, nbytes, messages=site.model.layers // parts,
            flow=request,
        )  # fmt: skip
        first = self.sim.post(**_chains(columns, parts, self._ready(request, now, parts)))
        for i in range(n):
            self.owner[first + (i + 1) * parts - 1] = request
            self.sent.append((request, int(src[i]), int(dst[i]), int(nbytes[i]) * parts))
        self.open[request] = n

    def _ready(self, request: int, now: int, parts: int) -> Ints:
        """Return when each part may leave: computed, and not before it has a place to go."""
        start, end = int(self.prefill_start[request]), int(self.prefill_end[request])
        done = start + (end - start) * np.arange(1, parts + 1) // parts
        return np.maximum(done, now)

    def report(self) -> ServingReport:
        """Return what was seen."""
        sent = np.array(self.sent, dtype=np.int64).reshape(-1, 4)
        return ServingReport(
            site=self.site,
            requests=self.requests,
            transport=self.way.name,
            op=self.op,
            group=self.group,
            place=self.place,
            prefill_start_ps=self.prefill_start,
            prefill_end_ps=self.prefill_end,
            placed_ps=self.placed,
            arrived_ps=self.arrived,
            sent=sent,
        )


def _chains(columns: Any, parts: int, ready_ps: Ints) -> dict[str, Any]:
    """Return the arguments of a post that sends each flow `parts` times, one after the other."""
    n = len(columns.nbytes)
    hops = np.diff(columns.route_ptr)
    again = np.repeat(np.arange(n), parts)
    hop = np.concatenate(
        [
            np.tile(np.arange(columns.route_ptr[i], columns.route_ptr[i + 1]), parts)
            for i in range(n)
        ]
    )
    number = np.arange(n * parts)
    chained = number % parts > 0
    return {
        "nbytes": columns.nbytes[again],
        "route_ptr": np.concatenate([[0], np.cumsum(hops[again])]),
        "route_link": columns.route_link[hop],
        "route_share": columns.route_share[hop],
        "rate_cap": columns.rate_cap[again],
        "startup_ps": columns.startup_ps[again],
        "start_ps": np.tile(ready_ps, n),
        "dep_ptr": np.concatenate([[0], np.cumsum(chained)]),
        "dep": number[chained] - 1,
        "watch": number % parts == parts - 1,
    }
