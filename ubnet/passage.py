"""What one transfer takes of the fabric: worked out once, kept for all transfers alike."""

from dataclasses import dataclass

from ubnet.fabric import Fabric
from ubnet.flow_faults import HORIZON_PS
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
        return cls.of_each(fabric, transport.flows(fabric, op, src, dst, nbytes))[0]

    @classmethod
    def of_each(cls, fabric: Fabric, flows: FlowColumns) -> list["Passage"]:
        """Return a passage for each of some flows."""
        rates = idle_rates(fabric, flows).tolist()
        startup, latency = flows.startup_ps.tolist(), flows.latency_ps.tolist()
        passages = []
        for number, rate in enumerate(rates):
            flow = _one(flows, number)
            nbytes = float(flow.nbytes[0])
            loads = _loads(flow, rate) if nbytes else []
            passages.append(
                cls(flow, startup[number], latency[number], _duration(nbytes, rate), loads)
            )
        return passages


def _one(flows: FlowColumns, number: int) -> FlowColumns:
    row, ptr = slice(number, number + 1), flows.route_ptr
    route = slice(ptr[number], ptr[number + 1])
    return FlowColumns(
        flows.nbytes[row],
        flows.startup_ps[row],
        ptr[number : number + 2] - ptr[number],
        flows.route_link[route],
        flows.route_share[route],
        flows.rate_cap[row],
        flows.latency_ps[row],
    )


def _duration(nbytes: float, rate: float) -> int:
    duration = nbytes / rate * PS_PER_S
    return int(duration + ROUND_UP) if duration < HORIZON_PS else -1


def _loads(flow: FlowColumns, rate: float) -> list[tuple[int, float, float]]:
    link, share, nbytes = flow.route_link.tolist(), flow.route_share.tolist(), float(flow.nbytes[0])
    return [(at, rate * part, nbytes * part) for at, part in zip(link, share, strict=True)]
