"""Engines that take the transfers of a schedule in the order of its steps.

Flows that share an engine slow each other down and end together, late. Where pieces follow each
other along a chain, that makes bunches of them, and a bunch moves like one large piece: the
pipeline is gone. A queue of descriptors serves the first piece first. So the start-up of a transfer
becomes a flow of its own, which needs no engine and begins when the data is there; its bytes
follow those of the step before on the same engine. Transfers of one step share it as ever.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ubnet.compressed_rows import pointers
from ubnet.fabric import Ints
from ubnet.schedule import Schedule
from ubnet.transport import FlowColumns

if TYPE_CHECKING:
    from ubnet.schedule_flows import ScheduleFlows


@dataclass(frozen=True, eq=False)
class EngineOrder:
    """Which transfer's bytes follow which: those of the step before on the same engine.

    Attributes
    ----------
    held : ndarray of int64
        The transfers that keep an order, ascending.
    count : ndarray of int64, shape (held,)
        How many each of them follows.
    earlier : ndarray of int64, shape (sum of counts,)
        These, row by row.
    """

    held: Ints
    count: Ints
    earlier: Ints

    @classmethod
    def of(cls, schedule: Schedule, engine: Ints) -> "EngineOrder":
        """Find the order of a schedule's transfers.

        Parameters
        ----------
        schedule : Schedule
            What is done.
        engine : ndarray of int64, shape (operations,)
            A number for what each transfer has to itself while it moves: the engine of a rank, or
            its link inside the package; -1 for all else.
        """
        held = np.flatnonzero(engine >= 0)
        keys = [
            _small(column[held])
            for column in (engine, schedule.step - schedule.step.min(initial=0))
        ]
        queue = np.lexsort(keys[::-1])
        turns = np.zeros(len(queue), dtype=bool)
        turns[:1] = True
        for key in keys:
            turns[1:] |= np.diff(key[queue]) != 0
        first = np.flatnonzero(turns)
        size = np.diff(first, append=len(queue))
        follows = np.zeros(len(first), dtype=bool)
        follows[1:] = np.diff(keys[0][queue[first]]) == 0
        # Behind each transfer of a turn come all of the turn before.
        before = np.repeat(np.where(follows, np.roll(size, 1), 0), size)
        begin = np.repeat(np.repeat(np.roll(first, 1), size), before)
        number = np.arange(len(begin)) - np.repeat(np.cumsum(before) - before, before)
        count = np.empty(len(held), dtype=np.int64)
        count[queue] = before
        place = np.repeat(pointers(count)[queue], before) + number
        earlier = np.empty(len(begin), dtype=np.int64)
        earlier[place] = held[queue[begin + number]]
        return cls(held, count, earlier)


def _small(values: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return numbers from 0 on in the smallest type: numpy sorts two bytes much faster."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def in_engine_order(flows: "ScheduleFlows", order: EngineOrder) -> "ScheduleFlows":
    """Return the flows of a schedule with start-ups of their own and engines that keep the order.

    Parameters
    ----------
    flows : ScheduleFlows
        The flows of the schedule, all sharing their engines.
    order : EngineOrder
        Which of their bytes follow which.
    """
    first_start = flows.operations + flows.passes
    ptr, dep = _waits(flows, order, first_start)
    held = order.held
    return replace(
        flows,
        columns=_columns(flows, held, first_start),
        dep_ptr=ptr,
        dep=dep,
        flow_ranks=_between(flows.flow_ranks, first_start, flows.flow_ranks[held]),
        starts=len(held),
    )


def _waits(flows: "ScheduleFlows", order: EngineOrder, first_start: int) -> tuple[Ints, Ints]:
    """Return what each flow waits for: start-ups for the data, transfers for their engine."""
    held, lengths = order.held, np.diff(flows.dep_ptr)
    is_held = np.zeros(len(lengths), dtype=bool)
    is_held[held] = True
    now = lengths.copy()
    now[held] = 1 + order.count
    ptr = pointers(_between(now, first_start, lengths[held]))
    first, last = ptr[first_start], ptr[first_start + len(held)]
    dep = np.empty(ptr[-1], dtype=np.int64)
    of_start = np.repeat(is_held, lengths)
    dep[first:last] = flows.dep[of_start]
    as_before = np.repeat(~is_held[:first_start], now[:first_start])
    rest = flows.dep[~of_start]
    dep[:first][as_before] = rest[: len(rest) - (ptr[-1] - last)]
    dep[last:] = rest[len(rest) - (ptr[-1] - last) :]
    of_engine = ~as_before
    of_engine[ptr[held]] = False
    dep[:first][of_engine] = order.earlier
    dep[ptr[held]] = first_start + np.arange(len(held))
    return ptr, dep


def _columns(flows: "ScheduleFlows", held: Ints, first_start: int) -> FlowColumns:
    """Put rows without bytes for the start-ups in front of the ends of ranks."""
    c = flows.columns
    startup = _between(c.startup_ps, first_start, c.startup_ps[held])
    startup[held] = 0
    zeros = np.zeros(len(held), dtype=np.int64)
    return replace(
        c,
        nbytes=_between(c.nbytes, first_start, zeros),
        startup_ps=startup,
        route_ptr=_between(c.route_ptr, first_start, zeros + c.route_ptr[first_start]),
        rate_cap=_between(c.rate_cap, first_start, np.full(len(held), np.inf)),
        latency_ps=_between(c.latency_ps, first_start, zeros),
    )


def _between(column: NDArray[Any], first: int, rows: NDArray[Any]) -> NDArray[Any]:
    """Return a column with further rows in front of row `first`."""
    return np.concatenate([column[:first], rows, column[first:]])
