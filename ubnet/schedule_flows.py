"""A schedule as flows: what the flow engine needs of every operation, all at once.

One flow per operation, then one per memory pass (the reductions of one destination and step), then
one of zero bytes per rank that ends when all that the rank sends or receives has ended.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.compressed_rows import number_of, owners, pointers, take_rows
from ubnet.engine_order import EngineOrder
from ubnet.errors import ScheduleError
from ubnet.fabric import PACKAGE, SELF, Fabric
from ubnet.flow_kinds import FlowKinds, find_kinds
from ubnet.flow_waits import flow_waits
from ubnet.memory import memory_resources
from ubnet.memory_pass import MemoryPasses
from ubnet.schedule import Schedule
from ubnet.schedule_check import check_passes
from ubnet.transport import WRITE, FlowColumns, Transport

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ScheduleFlows:
    """The flows of a schedule on a fabric; they run on ``capacity_with_memory(fabric)``.

    Attributes
    ----------
    kinds : FlowKinds
        The flows: operations, memory passes, ends of ranks. Local copies and joins have an empty
        route and no bytes.
    dep_ptr, dep : ndarray of int64
        The flows that each waits for; a memory pass comes behind all operations, so that what
        waits for one of its reductions waits for a later row.
    gate : ndarray of bool, shape of ``dep``
        The dependencies that hold back the bytes of a flow alone.
    operations, passes : int
        How many flows of each sort there are; the ends of ranks come last.
    done_flow : ndarray of int64, shape (operations,)
        The flow with which an operation has ended: its memory pass, or its own.
    op_ranks : two ndarrays of int64, shape (operations,)
        The ranks of each operation: source and destination.
    pass_rank : ndarray of int64, shape (passes,)
        The rank of each memory pass.
    """

    kinds: FlowKinds
    dep_ptr: Ints
    dep: Ints
    gate: Mask
    operations: int
    passes: int
    done_flow: Ints
    op_ranks: tuple[Ints, Ints]
    pass_rank: Ints

    def __len__(self) -> int:
        return len(self.kinds)

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

    @cached_property
    def flow_ranks(self) -> Ints:
        """The two ranks that must have arrived before a flow can be posted, shape (flows, 2)."""
        ranks = np.empty((len(self), 2), dtype=np.int64)
        for column, end in zip(ranks.T, self.op_ranks, strict=True):
            np.concatenate([end, self.pass_rank, np.arange(len(self.rank_end))], out=column)
        return ranks

    def post_arguments(self, flows: int | None = None) -> dict[str, Any]:
        """Return the arguments of `FlowSim.post` for all flows at once, on an engine of its own.

        Parameters
        ----------
        flows : int, optional
            Only so many, from the first on; they wait for none of the others.
        """
        n = len(self) if flows is None else flows
        waits = slice(self.dep_ptr[n])
        return self.kinds.post_arguments(slice(n)) | {
            "dep_ptr": self.dep_ptr[: n + 1],
            "dep": self.dep[waits],
            "gate": self.gate[waits],
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
        dep_ptr, edges = take_rows(self.dep_ptr, flows)
        posted[flows] = np.arange(first, first + len(flows))
        dep = posted[self.dep[edges]]
        if (dep < 0).any():
            flow = int(flows[owners(dep_ptr)[np.flatnonzero(dep < 0)[0]]])
            raise ScheduleError(
                f"flow {flow} waits for flows that are not posted; select them first or together"
            )
        return self.kinds.post_arguments(flows) | {
            "dep_ptr": dep_ptr,
            "dep": dep,
            "gate": self.gate[edges],
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
    k = fan_out(s, moved, fabric, place, transport, op)
    transfers, first = _transfers(s, moved, k, fabric, place, itemsize, transport, op)
    passes = MemoryPasses.of(s)
    memory = _memory(passes, memory_resources(fabric)[place], itemsize)
    done = np.arange(len(s))
    done[passes.member] = len(s) + passes.number
    order = EngineOrder.none(len(s))
    if s.in_order:
        near = fabric.distance(place[s.src[first]], place[s.dst[first]]) <= _own_link(transport)
        order = _engine_order(s, moved, near[transfers.kind], op)
    size = len(s) + len(memory) + s.ranks
    ptr, dep, gate = flow_waits(s, passes, done, order, op)
    return ScheduleFlows(
        FlowKinds.among(size, [(moved, transfers), (len(s) + np.arange(len(memory)), memory)]),
        ptr,
        dep,
        gate,
        operations=len(s),
        passes=len(passes.rank),
        done_flow=done,
        op_ranks=(s.src, s.dst),
        pass_rank=passes.rank,
    )


def _engine_order(schedule: Schedule, moved: Ints, near: Mask, op: str) -> EngineOrder:
    """Return which transfers follow each other on an engine or, if they are near, on a link."""
    s = schedule
    engine = np.full(len(s), -1)
    engine[moved] = (s.src if op == WRITE else s.dst)[moved] * 2 + near
    return EngineOrder.of(s, engine)


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


def _transfers(
    schedule: Schedule,
    moved: Ints,
    targets: Ints,
    fabric: Fabric,
    place: Ints,
    itemsize: int,
    transport: Transport,
    op: str,
) -> tuple[FlowKinds, Ints]:
    """Return what moves over the fabric, and the first operation of each kind of it."""
    src, dst, count = schedule.src[moved], schedule.dst[moved], schedule.count[moved]
    kind, first = find_kinds(src, dst, count, targets)
    src, dst, size = place[src[first]], place[dst[first]], count[first] * itemsize
    columns = transport.flows(fabric, op, src, dst, size, targets=targets[first])
    return FlowKinds(columns, kind), moved[first]


def _memory(passes: MemoryPasses, memory: Ints, itemsize: int) -> FlowKinds:
    """Return the memory passes; `memory` is every rank's, -1 if it takes no time."""
    kind, first = find_kinds(passes.rank, passes.elements, passes.rank, passes.rank)
    touched = memory[passes.rank[first]]
    costs = touched >= 0
    size = np.where(costs, passes.elements[first] * itemsize, 0)
    zero, ones = np.zeros(len(first), dtype=np.int64), np.ones(int(costs.sum()))
    cap = np.full(len(first), np.inf)
    return FlowKinds(
        FlowColumns(size, zero, pointers(costs), touched[costs], ones, cap, zero), kind
    )
