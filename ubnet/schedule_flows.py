"""A schedule as flows: what the flow engine needs of every operation, all at once.

One flow per operation, then one per memory pass (the reductions of one destination and step), then
one of zero bytes per rank that ends when all that the rank sends or receives has ended.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.compressed_rows import number_of, owners, take_rows
from ubnet.engine_order import EngineOrder
from ubnet.errors import ScheduleError
from ubnet.fabric import PACKAGE, SELF, Fabric
from ubnet.flow_waits import flow_waits
from ubnet.memory import memory_resources
from ubnet.memory_pass import MemoryPasses
from ubnet.schedule import Schedule
from ubnet.schedule_check import check_passes
from ubnet.transport import WRITE, FlowColumns, Transport

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ScheduleFlows:
    """The flows of a schedule on a fabric; they run on ``capacity_with_memory(fabric)``.

    Attributes
    ----------
    columns : FlowColumns
        The flows: operations, memory passes, ends of ranks. Local copies and joins have an empty
        route and no bytes.
    dep_ptr, dep : ndarray of int64
        The flows that each waits for; a memory pass comes behind all operations, so that what
        waits for one of its reductions waits for a later row.
    operations, passes : int
        How many flows of each sort there are; the ends of ranks come last.
    done_flow : ndarray of int64, shape (operations,)
        The flow with which an operation has ended: its memory pass, or its own.
    flow_ranks : ndarray of int64, shape (flows, 2)
        The ranks that must have arrived before a flow can be posted.
    weight : ndarray of float64, shape (flows,), or None
        Weight of each flow where it shares a resource; None: all alike.
    gate : ndarray of bool, shape of ``dep``, or None
        The dependencies that hold back the bytes of a flow alone; None: none.
    """

    columns: FlowColumns
    dep_ptr: Ints
    dep: Ints
    operations: int
    passes: int
    done_flow: Ints
    flow_ranks: Ints
    weight: NDArray[np.float64] | None = None
    gate: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.columns.nbytes)

    def __repr__(self) -> str:
        ranks = len(self.rank_end)
        return (
            f"<ScheduleFlows: {self.operations} operations, {self.passes} memory passes, "
            f"{ranks} ranks>"
        )

    @property
    def rank_end(self) -> Ints:
        """The flow that ends when a rank has nothing left to send or receive, shape (ranks,)."""
        return np.arange(self.operations + self.passes, len(self))

    def post_arguments(self) -> dict[str, Any]:
        """Return the arguments of `FlowSim.post` for all flows at once, on an engine of its own."""
        c = self.columns
        return {
            "nbytes": c.nbytes,
            "route_ptr": c.route_ptr,
            "route_link": c.route_link,
            "route_share": c.route_share,
            "rate_cap": c.rate_cap,
            "startup_ps": c.startup_ps,
            "dep_ptr": self.dep_ptr,
            "dep": self.dep,
            "gate": self.gate,
            "weight": self.weight,
        }

    def select(self, flows: Ints, first: int, posted: Ints) -> dict[str, Any]:
        """Return the arguments of `FlowSim.post` for some of the flows.

        Parameters
        ----------
        flows : ndarray of int64
            Which ones, ascending.
        first : int
            The number that the engine gives to the first of them: ``FlowSim.size``.
        posted : ndarray of int64, shape (flows,)
            The engine's number of each flow that was posted before, -1 for the others; those that
            are selected are entered.

        Raises
        ------
        ScheduleError
            If a flow waits for one that is neither posted nor selected.
        """
        c = self.columns
        route_ptr, hops = take_rows(c.route_ptr, flows)
        dep_ptr, edges = take_rows(self.dep_ptr, flows)
        posted[flows] = np.arange(first, first + len(flows))
        dep = posted[self.dep[edges]]
        if (dep < 0).any():
            flow = int(flows[owners(dep_ptr)[np.flatnonzero(dep < 0)[0]]])
            raise ScheduleError(
                f"flow {flow} waits for flows that are not posted; select them first or together"
            )
        return {
            "nbytes": c.nbytes[flows],
            "route_ptr": route_ptr,
            "route_link": c.route_link[hops],
            "route_share": c.route_share[hops],
            "rate_cap": c.rate_cap[flows],
            "startup_ps": c.startup_ps[flows],
            "dep_ptr": dep_ptr,
            "dep": dep,
            "gate": None if self.gate is None else self.gate[edges],
            "weight": None if self.weight is None else self.weight[flows],
        }


def schedule_flows(
    schedule: Schedule,
    fabric: Fabric,
    endpoints: ArrayLike,
    itemsize: int,
    transport: Transport,
    op: str = WRITE,
) -> ScheduleFlows:
    """Turn a schedule into flows of a transport.

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
    transport : Transport
        How bytes move.
    op : {"write", "read"}
        Who drives each transfer, the source or the destination.

    Raises
    ------
    NoRoute
        If the transport does not join two ranks that talk.
    """
    s = schedule
    check_passes(s)
    place = np.asarray(endpoints, dtype=np.int64)
    moved = np.flatnonzero(s.transfers)
    src, dst = place[s.src[moved]], place[s.dst[moved]]
    k = fan_out(s, moved, fabric, place, transport, op)
    transfers = transport.flows(fabric, op, src, dst, s.count[moved] * itemsize, targets=k)
    passes = MemoryPasses.of(s)
    done = np.arange(len(s))
    done[passes.member] = len(s) + passes.number
    order = _engine_order(s, fabric, place, transport, op)
    waits = flow_waits(s, passes, done, order, op)
    ptr, dep, gate = order.added_to(*waits) if len(order.held) else (*waits, None)
    return ScheduleFlows(
        _columns(s, transfers, moved, passes, memory_resources(fabric)[place], itemsize),
        ptr,
        dep,
        operations=len(s),
        passes=len(passes.rank),
        done_flow=done,
        flow_ranks=_flow_ranks(s, passes),
        gate=gate,
    )


def _flow_ranks(schedule: Schedule, passes: MemoryPasses) -> Ints:
    """Return the two ranks of every flow, shape (flows, 2)."""
    s, everybody = schedule, np.arange(schedule.ranks)
    ranks = np.empty((len(s) + len(passes.rank) + s.ranks, 2), dtype=np.int64)
    for column, end in zip(ranks.T, (s.src, s.dst), strict=True):
        np.concatenate([end, passes.rank, everybody], out=column)
    return ranks


def _engine_order(
    schedule: Schedule, fabric: Fabric, place: Ints, transport: Transport, op: str
) -> EngineOrder:
    """Return which transfers follow each other on an engine, where the schedule is in order."""
    s = schedule
    if not s.in_order:
        return EngineOrder.none()
    near = fabric.distance(place[s.src], place[s.dst]) <= _own_link(transport)
    engine = (s.src if op == WRITE else s.dst) * 2 + near
    return EngineOrder.of(s, np.where(s.transfers, engine, -1))


def _own_link(transport: Transport) -> int:
    """Return the distance up to which two ranks have a link of their own, and need no engine."""
    return SELF if transport.package_startup_ps is None else PACKAGE


def fan_out(
    schedule: Schedule, moved: Ints, fabric: Fabric, place: Ints, transport: Transport, op: str
) -> Ints:
    """Return for each transfer how many targets its engine serves in that step, at least 1.

    Targets that need no engine (in the package of the active side, where the transport has a link
    of its own) do not count; a target of several transfers counts once.
    """
    if not transport.spread or not len(moved):
        return np.ones(len(moved), dtype=np.int64)
    s = schedule
    active, passive = (s.src, s.dst) if op == WRITE else (s.dst, s.src)
    active, passive, step = active[moved], passive[moved], s.step[moved].astype(np.int64)
    counts = fabric.distance(place[active], place[passive]) > _own_link(transport)
    fan = (step - step.min()) * s.ranks + active
    fans, number = number_of(fan)
    if len(fans) == len(moved):
        return np.ones(len(moved), dtype=np.int64)
    pairs, _ = number_of((fan * 2 + counts) * s.ranks + passive)
    fan_and_counts = pairs // s.ranks
    _, fan_of_pair = number_of(fan_and_counts // 2)
    targets = np.bincount(fan_of_pair, weights=fan_and_counts % 2).astype(np.int64)
    k: Ints = np.maximum(targets, 1)[number]
    return k


def _columns(
    schedule: Schedule,
    transfers: FlowColumns,
    moved: Ints,
    passes: MemoryPasses,
    memory: Ints,
    itemsize: int,
) -> FlowColumns:
    """Put transfers and passes into the rows of all flows; the others move nothing.

    `memory` is the resource of every rank's memory, -1 where it costs no time.
    """
    first_pass = len(schedule)
    total = first_pass + len(passes.rank) + schedule.ranks
    touched = memory[passes.rank]
    costly = np.flatnonzero(touched >= 0)
    # No more memory than the columns themselves: touching it costs more than filling it.
    nbytes, startup, latency = np.zeros((3, total), dtype=np.int64)
    cap, ptr = np.full(total, np.inf), np.zeros(total + 1, dtype=np.int64)
    hops = ptr[1:]
    hops[moved] = np.diff(transfers.route_ptr)
    hops[first_pass + costly] = 1
    np.cumsum(hops, out=hops)
    nbytes[moved] = transfers.nbytes
    nbytes[first_pass + costly] = passes.elements[costly] * itemsize
    startup[moved], latency[moved] = transfers.startup_ps, transfers.latency_ps
    cap[moved] = transfers.rate_cap
    link = np.concatenate([transfers.route_link, touched[costly]])
    share = np.concatenate([transfers.route_share, np.ones(len(costly))])
    return FlowColumns(nbytes, startup, ptr, link, share, cap, latency)
