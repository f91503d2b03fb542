"""How long a phase takes on a fabric: start-up, wire and reduction (alpha, beta and gamma).

No constant stands here: every message brings its own start-up and rate, as `Transport.flows` gives
them to the flow engine, with what a message and many targets cost its engine. Messages that are
under way together share the resources on their routes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ubnet.fabric import Fabric, Floats, Ints
from ubnet.transport import WRITE, FlowColumns, Transport
from ubnet.units import PS_PER_S

from .phase import Chain, Phase

STARTUPS = 8
"""Different start-ups of a phase that are told apart."""


class Parts(NamedTuple):
    """Seconds of start-up with switches and cables, of wire with engines, of reduction."""

    startup: float
    wire: float
    reduction: float


@dataclass(frozen=True, eq=False)
class Pricing:
    """Prices phases of one collective by one transport.

    Attributes
    ----------
    fabric, transport, op : Fabric, Transport, str
        Where and how; whether the source writes or the destination reads.
    endpoints : ndarray of int64, shape (ranks,)
        The endpoint of every rank.
    itemsize : int
        Bytes of an element.
    """

    fabric: Fabric
    transport: Transport
    op: str
    endpoints: Ints
    itemsize: int

    def price(self, phases: list[Phase]) -> Parts:
        """Return the parts of the time of phases that take place one after the other."""
        found = [self._chain(p) if isinstance(p, Chain) else self._together(p) for p in phases]
        return Parts(*(sum(column) for column in zip(*found, strict=True)))

    def _together(self, phase: Phase) -> Parts:
        """Return the parts of a phase whose messages all start at once.

        A resource is busy from the first start-up on, and cannot end before it has carried, after
        each start-up, all that comes no sooner: the largest of these ends is when it ends.
        """
        flows, owner = self._flows(phase, phase.count)
        ends = [Parts(0.0, 0.0, 0.0)]
        for startup in _spread(np.unique(flows.startup_ps)):
            later = flows.startup_ps >= startup
            load = self._load(phase, flows, owner, later)
            alone = (flows.nbytes[later] / flows.rate_cap[later]).max()
            ends.append(Parts(startup / PS_PER_S, max(load.max(), alone), 0.0))
        startup, wire, _ = max(ends, key=lambda end: end.startup + end.wire)
        reduction = self._reductions(phase, phase.reduced).max()
        return Parts(*(phase.repeats * float(part) for part in (startup, wire, reduction)))

    def _chain(self, chain: Chain) -> Parts:
        """Return the parts of the longest chain, or those of the hop that is never idle.

        Every piece passes its hops one after the other, each with its own times; and every hop
        carries its pieces one after the other. What is longer decides.
        """
        piece = np.ceil(np.asarray(chain.count) / chain.chunks)
        flows, owner = self._flows(chain, piece)
        startup = flows.startup_ps / PS_PER_S
        wire = flows.nbytes / flows.rate_cap
        load = self._load(chain, flows, owner, np.ones(len(wire), dtype=bool))
        np.maximum.at(wire, owner, load[flows.route_link])
        reduction = self._reductions(chain, chain.reduced / chain.chunks)
        hop = startup + wire + reduction
        path = _longest_path(hop, chain.hops * chain.turns)
        behind = (chain.chunks - 1) * hop.max() / hop[path].sum()
        share = (1 + behind) / chain.turns
        longest = Parts(*(part[path].sum() * share for part in (startup, wire, reduction)))
        slow = int(np.argmax(wire))
        carried = chain.passes * chain.chunks * wire[slow]
        never_idle = Parts(startup[slow], carried, reduction[slow])
        return max(longest, never_idle, key=sum)

    def _flows(self, phase: Phase, count: float | Floats) -> tuple[FlowColumns, Ints]:
        """Return the messages as flows, and the flow of each entry of their routes."""
        src, dst = self.endpoints[phase.src], self.endpoints[phase.dst]
        nbytes = np.asarray(count * self.itemsize, dtype=np.int64)
        targets = self._targets(phase, src if self.op == WRITE else dst)
        flows = self.transport.flows(self.fabric, self.op, src, dst, nbytes, targets=targets)
        return flows, np.repeat(np.arange(len(src)), np.diff(flows.route_ptr))

    def _targets(self, phase: Phase, active: Ints) -> Ints:
        """Return how many targets the engine of each active side serves in the step.

        Where packages have a link of their own, a rank's mates there need no engine.
        """
        if phase.targets == 1 or self.transport.package_startup_ps is None:
            return np.full(len(active), phase.targets)
        package = self.fabric.package_of
        sharing = np.bincount(package[self.endpoints])
        return np.maximum(phase.targets - sharing[package[active]] + 1, 1)

    def _load(self, phase: Phase, flows: FlowColumns, owner: Ints, chosen: Ints) -> Floats:
        """Return the seconds that each resource needs for the chosen messages."""
        work = flows.nbytes[owner] * flows.route_share * chosen[owner] * phase.weight
        load: Floats = np.bincount(flows.route_link, work, len(self.fabric.capacity)).astype(float)
        return load / self.fabric.capacity

    def _reductions(self, phase: Phase, reduced: float) -> Floats:
        """Return the seconds that the receiver of each message then combines elements."""
        seconds: Floats = (
            reduced * self.itemsize / self.fabric.memory_rate[self.endpoints[phase.dst]]
        )
        return seconds


def _spread(startups: Ints) -> Ints:
    """Return at most `STARTUPS` of the ascending values, the first and last among them."""
    chosen = np.linspace(0, len(startups) - 1, min(len(startups), STARTUPS))
    return startups[chosen.astype(np.int64)]


def _longest_path(hop: Floats, hops: int) -> Ints:
    """Return the run of hops, around the circle, whose times have the largest sum."""
    circles = np.tile(hop, hops // len(hop) + 2)
    ends = np.concatenate([[0.0], np.cumsum(circles)])
    start = int(np.argmax(ends[hops : hops + len(hop)] - ends[: len(hop)]))
    path: Ints = (start + np.arange(hops)) % len(hop)
    return path
