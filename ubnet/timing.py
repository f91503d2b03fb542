"""How long a schedule takes on a fabric, and what it could not take less than."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.compressed_rows import number_of, owners
from ubnet.fabric import Fabric, Floats
from ubnet.flowsim import FlowSim
from ubnet.idle_time import choose_transport
from ubnet.memory import capacity_with_memory, resource_name
from ubnet.portions import Portions
from ubnet.schedule import Schedule
from ubnet.schedule_flows import ScheduleFlows, schedule_flows
from ubnet.transport import READ, WRITE, FlowColumns, Transport
from ubnet.units import PS_PER_S

__all__ = ["ScheduleFlows", "Timing", "pick_transport", "schedule_flows", "time_schedule"]

Ints = NDArray[np.int64]

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Timing:
    """When a schedule ends, and how full what it uses was.

    Attributes
    ----------
    time_ps : int
        The end of the last rank.
    rank_end_ps : ndarray of int64, shape (ranks,)
        When each rank has sent and received everything.
    op_end_ps : ndarray of int64, shape (operations,)
        When each operation has ended, its reduction included.
    transport, reason : str
        What moved the bytes, and why.
    resource_bytes : ndarray of float64, shape (resources,)
        Bytes times share on every resource; the memories come behind those of the fabric
        (`ubnet.memory`).
    lower_bound_ps : int
        What the fullest resource needs, and any flow alone with its cap: `lower_bound`.
    busiest : str
        The name of that resource, empty where no bytes move.
    busiest_utilisation : float
        Its bytes times share over capacity times `time_ps`.
    """

    time_ps: int
    rank_end_ps: Ints
    op_end_ps: Ints
    transport: str
    reason: str
    resource_bytes: Floats
    lower_bound_ps: int
    busiest: str
    busiest_utilisation: float

    @property
    def efficiency(self) -> float:
        """The lower bound over the time; 1 where there was nothing to do."""
        return self.lower_bound_ps / self.time_ps if self.time_ps else 1.0


def time_schedule(
    schedule: Schedule,
    fabric: Fabric,
    endpoints: ArrayLike,
    itemsize: int,
    transport: str | Transport = "auto",
    plane: str = "ub",
    op: str = WRITE,
) -> Timing:
    """Time a schedule with the fabric to itself, all ranks starting at once.

    Parameters
    ----------
    schedule : Schedule
        What is done.
    fabric : Fabric
        Where.
    endpoints : array_like of int, shape (ranks,)
        The endpoint of every rank.
    itemsize : int
        Bytes of an element.
    transport : str or Transport
        How bytes move; ``auto`` chooses among those of the plane (`pick_transport`).
    plane : str
        The plane, for ``auto``.
    op : {"write", "read"}
        Who drives each transfer, the source or the destination.

    Raises
    ------
    NoRoute
        If the transport is unknown or does not join two ranks that talk.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> from ubnet.schedule_builder import ScheduleBuilder
    >>> builder = ScheduleBuilder("send", 2, [512, 512, 0])
    >>> _ = builder.add(0, 0, 1, 0, 0, 512)
    >>> fabric = load_fabric("cloudmatrix384")
    >>> timing = time_schedule(builder.build(), fabric, [0, 2], itemsize=1)
    >>> timing.transport, timing.time_ps, timing.busiest
    ('aiv', 1323737, 'node00.npu0.die0.write')
    """
    place = np.asarray(endpoints, dtype=np.int64)
    if isinstance(transport, Transport):
        chosen, reason = transport, "given"
    elif transport == "auto":
        chosen, reason = pick_transport(schedule, fabric, place, itemsize, plane, op)
    else:
        chosen, reason = fabric.transport(transport), "given"
    flows = schedule_flows(schedule, fabric, place, itemsize, chosen, op)
    capacity = capacity_with_memory(fabric)
    finish = Portions.of(flows).run(flows, FlowSim(capacity))
    rank_end_ps = _rank_ends(flows, finish)
    time_ps = int(rank_end_ps.max(initial=0))
    carried = flows.kinds.resource_bytes(len(capacity))
    steps = int(np.ptp(schedule.step)) + 1 if len(schedule) else 1
    bound_ps, busiest = lower_bound(flows.kinds.columns, carried, capacity, steps)
    used = carried[busiest] / capacity[busiest] if busiest >= 0 else 0.0
    return Timing(
        time_ps=time_ps,
        rank_end_ps=rank_end_ps,
        op_end_ps=finish[flows.done_flow],
        transport=chosen.name,
        reason=reason,
        resource_bytes=carried,
        lower_bound_ps=bound_ps,
        busiest=resource_name(fabric, busiest) if busiest >= 0 else "",
        busiest_utilisation=float(used * PS_PER_S / time_ps) if time_ps else 0.0,
    )


def _rank_ends(flows: ScheduleFlows, finish: Ints) -> Ints:
    """Return when each rank has sent and received everything, by the ends of its flows."""
    ptr = flows.dep_ptr[flows.rank_end[0] :]
    ends = np.zeros(len(ptr) - 1, dtype=np.int64)
    some = np.flatnonzero(np.diff(ptr))
    if len(some):
        ends[some] = np.maximum.reduceat(finish[flows.dep[ptr[0] :]], ptr[some] - ptr[0])
    return ends


def pick_transport(
    schedule: Schedule,
    fabric: Fabric,
    endpoints: Ints,
    itemsize: int,
    plane: str = "ub",
    op: str = WRITE,
) -> tuple[Transport, str]:
    """Return the transport that does a schedule's largest step fastest, and why.

    What counts is the largest number of bytes that one rank moves in one step, as one transfer
    over the longest way that this rank has in it; ties go to the first in the fabric's order.

    Raises
    ------
    NoRoute
        If no transport of the plane joins the two ranks of that way.
    """
    s = schedule
    moved = np.flatnonzero(s.transfers)
    if not len(moved):
        return fabric.automatic_transports(plane)[0], "nothing crosses the fabric"
    active = s.dst if op == READ else s.src
    key = s.step[moved].astype(np.int64) * s.ranks + active[moved]
    _, fan = number_of(key - key.min())
    total = np.bincount(fan, s.count[moved])
    src, dst = endpoints[s.src[moved]], endpoints[s.dst[moved]]
    way = np.where(fan == total.argmax(), fabric.distance(src, dst), -1)
    far = int(way.argmax())
    nbytes = int(total.max()) * itemsize
    return choose_transport(fabric, int(src[far]), int(dst[far]), nbytes, op, plane)


def lower_bound(
    columns: FlowColumns, carried: Floats, capacity: Floats, steps: int = 1
) -> tuple[int, int]:
    """Return the time in picoseconds that flows need at least, and the fullest resource.

    The resource is that with the most bytes times share over capacity (the first of those that
    differ by rounding alone), -1 where no bytes move. It needs that and the smallest start-up
    among its flows; and every flow needs its start-up and its bytes over its own cap. Ends are
    whole picoseconds: of `steps` that follow each other each may be rounded down by half a one, so
    the bound is half a picosecond lower for each step but the first.
    """
    need = carried / capacity
    most = need.max(initial=0.0)
    if most == 0:
        return int(columns.startup_ps.max(initial=0)), -1
    busiest = int((need >= most * (1 - _ROUNDING)).argmax())
    users = owners(columns.route_ptr)[columns.route_link == busiest]
    users = users[columns.nbytes[users] > 0]
    latency = int(columns.startup_ps[users].min())
    capped = np.flatnonzero(np.isfinite(columns.rate_cap))
    alone = columns.nbytes[capped] / columns.rate_cap[capped] * PS_PER_S
    slowest = int((columns.startup_ps[capped] + alone).max(initial=0.0))
    fullest = int(need[busiest] * PS_PER_S) - (steps - 1) // 2
    return max(latency + fullest, slowest), busiest
