"""A long schedule runs in portions: its flows enter the engine when it comes to need them.

The engine holds no more then than what is under way. That stays in the processor's cache, and
touching fresh memory for millions of flows at once would cost more than running them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.flowsim import FlowSim
from ubnet.jit import kernel
from ubnet.schedule_flows import ScheduleFlows

Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]

LEAST = 8192
"""Operations of a portion, or more: up to where none waits for a later one."""


@dataclass(frozen=True, eq=False)
class Portions:
    """Which flows of a schedule are posted together; the ends of ranks are none of them.

    A flow without data to wait for begins at once, so all of these are in the first portion.

    Attributes
    ----------
    order : ndarray of int64
        The flows, portion by portion, each ascending.
    begin : ndarray of int64, shape (portions + 1,)
        Where each portion begins in `order`, and where the last ends.
    needed_by : ndarray of int32, shape of `order`
        The last portion that waits for each of them.
    wanted : ndarray of int32, shape (portions,)
        The last portion that waits for a flow of this portion or of one before it.
    """

    order: Ints
    begin: Ints
    needed_by: Numbers
    wanted: Numbers

    @classmethod
    def of(cls, flows: ScheduleFlows, least: int = LEAST) -> "Portions":
        """Find the portions of so many operations at least."""
        last = flows.operations + flows.passes
        portion, needed_by = _portions(
            flows.dep_ptr, flows.dep, flows.gate, flows.operations, last, least
        )
        order = np.argsort(portion, kind="stable")
        begin = np.zeros(int(portion.max(initial=0)) + 2, dtype=np.int64)
        np.cumsum(np.bincount(portion, minlength=1), out=begin[1:])
        needed_by = needed_by[order]
        most = np.maximum.reduceat(needed_by, begin[:-1]) if last else np.zeros(1, dtype=np.int32)
        return cls(order, begin, needed_by, np.maximum.accumulate(most))

    def __len__(self) -> int:
        return len(self.begin) - 1

    def run(self, flows: ScheduleFlows, engine: FlowSim) -> Ints:
        """Run them on a fresh engine; return the end of each flow, shape (operations + passes,)."""
        if len(self) == 1:
            engine.post(**flows.post_arguments(len(self.order)))
            engine.run()
            return engine.finish_ps
        number = np.full(len(flows), -1)
        entered, wanted = 0, 1
        while entered < len(self):
            while entered < wanted:
                self._enter(entered, wanted, flows, engine, number)
                entered += 1
            # The first end that a later portion waits for brings in all that have been asked for;
            # what asked for them needs no more watching then.
            engine.advance()
            wanted = int(self.wanted[entered - 1]) + 1
            engine.unwatch()
        engine.run()
        ends: Ints = engine.finish_ps[number[: len(self.order)]]
        return ends

    def _enter(
        self, portion: int, wanted: int, flows: ScheduleFlows, engine: FlowSim, number: Ints
    ) -> None:
        """Post a portion, which came in as one of the first `wanted`."""
        here = slice(*self.begin[portion : portion + 2])
        columns = flows.select(self.order[here], engine.size, number)
        engine.post(**columns, watch=self.needed_by[here] >= wanted)


@kernel
def _portions(
    dep_ptr: Ints, dep: Ints, gate: NDArray[np.bool_], operations: int, last: int, least: int
) -> tuple[Numbers, Numbers]:
    """Return the portion of each flow before `last`, and the last portion that waits for it."""
    place = np.arange(last)  # operations in their order; a memory pass at the last of its own
    for flow in range(operations, last):
        place[flow] = 0
        for j in range(dep_ptr[flow], dep_ptr[flow + 1]):
            place[flow] = max(place[flow], dep[j])
    first_end = 0
    for flow in range(operations):
        waits_for_data = False
        for j in range(dep_ptr[flow], dep_ptr[flow + 1]):
            waits_for_data = waits_for_data or not gate[j]
        if not waits_for_data:
            first_end = flow + 1
    portion = np.zeros(last, np.int32)
    begun, reach, number = 0, 0, 0
    for flow in range(operations):
        if flow - begun >= least and flow >= first_end and reach < flow:
            begun = flow
            number += 1
        portion[flow] = number
        for j in range(dep_ptr[flow], dep_ptr[flow + 1]):
            reach = max(reach, place[dep[j]])
    for flow in range(operations, last):
        portion[flow] = portion[place[flow]]
    needed_by = np.zeros(last, np.int32)
    for flow in range(last):
        for j in range(dep_ptr[flow], dep_ptr[flow + 1]):
            needed_by[dep[j]] = max(needed_by[dep[j]], portion[flow])
    return portion, needed_by
