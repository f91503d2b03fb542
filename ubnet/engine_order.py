"""Engines that take the transfers of a schedule in the order of its steps.

Flows that share an engine slow each other down and end together, late. Where pieces follow each
other along a chain, that makes bunches of them, and a bunch moves like one large piece: the
pipeline is gone. A queue of descriptors serves the first piece first. So the start-up of a transfer
becomes a flow of its own, which needs no engine and begins when the data is there; its bytes
follow those of the step before on the same engine. Transfers of one step share it as ever.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ubnet.compressed_rows import owners, pointers
from ubnet.fabric import Ints
from ubnet.schedule import Schedule
from ubnet.transport import FlowColumns

if TYPE_CHECKING:
    from ubnet.schedule_flows import ScheduleFlows


def in_engine_order(flows: "ScheduleFlows", schedule: Schedule, engine: Ints) -> "ScheduleFlows":
    """Return the flows of a schedule with start-ups of their own and engines that keep the order.

    Parameters
    ----------
    flows : ScheduleFlows
        The flows of the schedule, all sharing their engines.
    schedule : Schedule
        What they do.
    engine : ndarray of int64, shape (operations,)
        A number for what each transfer has to itself while it moves: the engine of a rank, or its
        link inside the package; -1 for all else.
    """
    held = np.flatnonzero(engine >= 0)
    queue = held[np.lexsort((schedule.step[held], engine[held]))]
    other_engine = np.diff(engine[queue], prepend=-1) != 0
    other_step = np.diff(schedule.step[queue], prepend=-1) != 0
    turn = np.cumsum(np.where(other_engine, 2, other_step))
    first_start = flows.operations + flows.passes
    start = np.full(len(flows) + len(queue), -1)
    start[queue] = first_start + np.arange(len(queue))
    ptr, dep = _waits(flows, queue, turn, start, first_start)
    return replace(
        flows,
        columns=_columns(flows, queue, first_start),
        dep_ptr=ptr,
        dep=dep,
        flow_ranks=np.insert(flows.flow_ranks, first_start, flows.flow_ranks[queue], axis=0),
        starts=len(queue),
    )


def _waits(
    flows: "ScheduleFlows", queue: Ints, turn: Ints, start: Ints, first_start: int
) -> tuple[Ints, Ints]:
    """Return what each flow waits for: start-ups for the data, transfers for their engine.

    `turn` numbers the steps of an engine: equal for transfers that share it, one more for those
    that come next on the same engine, at least two more on another one.
    """
    row = owners(flows.dep_ptr)
    row = np.where(start[row] >= 0, start[row], row + len(queue) * (row >= first_start))
    first = np.searchsorted(turn, turn - 1, side="left")
    before = np.searchsorted(turn, turn - 1, side="right") - first
    later = np.repeat(np.arange(len(queue)), before)
    earlier = np.repeat(first - (np.cumsum(before) - before), before) + np.arange(before.sum())
    row = np.concatenate([row, queue, queue[later]])
    dep = np.concatenate([flows.dep, start[queue], queue[earlier]])
    order = np.argsort(row, kind="stable")
    return pointers(np.bincount(row, minlength=len(start))), dep[order]


def _columns(flows: "ScheduleFlows", queue: Ints, first_start: int) -> FlowColumns:
    """Put rows without bytes for the start-ups in front of the ends of ranks."""
    c = flows.columns
    startup = np.insert(c.startup_ps, first_start, c.startup_ps[queue])
    startup[queue] = 0
    hops = np.diff(c.route_ptr)
    zeros = np.zeros(len(queue), dtype=np.int64)
    return replace(
        c,
        nbytes=np.insert(c.nbytes, first_start, zeros),
        startup_ps=startup,
        route_ptr=pointers(np.insert(hops, first_start, zeros)),
        rate_cap=np.insert(c.rate_cap, first_start, np.full(len(queue), np.inf)),
        latency_ps=np.insert(c.latency_ps, first_start, zeros),
    )
