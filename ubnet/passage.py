"""What one transfer takes of the fabric: worked out once, kept for all transfers alike."""

from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Fabric, Floats
from ubnet.flowcheck import HORIZON_PS
from ubnet.idle_time import ROUND_UP, idle_rates
from ubnet.transport import FlowColumns, Transport
from ubnet.units import PS_PER_S


@dataclass(slots=True, eq=False)
class Passage:
    """A transfer from one endpoint to another.

    Attributes
    ----------
    flow : FlowColumns
        Its one flow, as the flow engine takes it.
    startup_ps, latency_ps : int
        Its start-up, and the part of it that is switches and cables.
    alone_ps : int
        How long its bytes take when nothing holds them back; -1 if longer than the clock goes.
    loads : list of (int, float, float)
        What it then takes of each resource on its route: which one, bytes/s, bytes; empty where
        there are no bytes.
    """

    flow: FlowColumns
    startup_ps: int
    latency_ps: int
    alone_ps: int
    loads: list[tuple[int, float, float]]

    @classmethod
    def of(
        cls, fabric: Fabric, transport: Transport, op: str, src: int, dst: int, nbytes: int
    ) -> "Passage":
        """Return the passage of a transfer by a transport."""
        flow = transport.flows(fabric, op, src, dst, nbytes)
        rates = idle_rates(fabric, flow)
        startup, latency = int(flow.startup_ps[0]), int(flow.latency_ps[0])
        return cls(flow, startup, latency, _duration(flow, rates), _loads(flow, rates))


def _duration(flow: FlowColumns, rates: Floats) -> int:
    duration = float(flow.nbytes[0]) / float(rates[0]) * PS_PER_S
    return int(duration + ROUND_UP) if duration < HORIZON_PS else -1


def _loads(flow: FlowColumns, rates: Floats) -> list[tuple[int, float, float]]:
    if not flow.nbytes[0]:
        return []
    link, share = flow.route_link, flow.route_share
    taken = np.stack([rates[0] * share, float(flow.nbytes[0]) * share])
    return list(zip(link.tolist(), *taken.tolist(), strict=True))
