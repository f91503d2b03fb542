"""The operations that the steps of an MSCCL file become."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ubnet.msccl_step import Step
from ubnet.operation import COPY, REDUCE, SCRATCH
from ubnet.schedule import Schedule
from ubnet.schedule_builder import ScheduleBuilder

Place = tuple[int, int, int]
"""A gpu, a buffer and an offset in chunks."""


class Operations:
    """Steps as operations of a schedule.

    A transfer is added with the step that receives it. Where it is staged, it goes into scratch of
    the receiver with the step that sends it, and on from there with the step that receives it.

    Parameters
    ----------
    name : str
        The schedule's.
    sizes : ndarray of int64, shape (gpus, 3)
        Chunks of the buffers.
    elements : int
        Elements of a chunk.

    Attributes
    ----------
    of : list of Step
        The step that each operation belongs to.
    """

    def __init__(self, name: str, sizes: NDArray[np.int64], elements: int) -> None:
        self.of: list[Step] = []
        self._name, self._sizes, self._unit = name, sizes.copy(), elements
        self._staging: dict[Step, Place] = {}
        self._sum: dict[Step, Place] = {}

    def build(self, steps: Sequence[Step]) -> Schedule:
        """Return the schedule of all steps, given so that each comes behind what it needs."""
        for step in steps:
            if step.staged:
                self._staging[step] = self._reserve(_receiver(step).gpu, step.count)
            if step.kind == "rrs":
                self._sum[step] = self._reserve(step.gpu, step.count)
        builder = ScheduleBuilder(self._name, len(self._sizes), self._sizes * self._unit)
        for step in steps:
            self._enter(builder, step)
            if step.staged:
                step.sent = self._add(
                    builder, step, self._outgoing(step), self._staging[step], COPY, step.done
                )
        made = builder.build()
        known = [step.own for step in self.of]
        given = np.array(known) if min(known, default=-1) >= 0 else made.level()
        return replace(made, step=given.astype(np.int32))

    def _reserve(self, gpu: int, chunks: int) -> Place:
        """Enlarge the scratch of a gpu."""
        place = (gpu, SCRATCH, int(self._sizes[gpu, SCRATCH]))
        self._sizes[gpu, SCRATCH] += chunks
        return place

    def _outgoing(self, step: Step) -> Place:
        """Return where the data stands that a step sends."""
        if step in self._sum:
            return self._sum[step]
        return (step.gpu, *(step.src if step.kind == "s" else step.dst))

    def _enter(self, builder: ScheduleBuilder, step: Step) -> None:
        """Add what a step does on its own gpu; what it receives comes from another."""
        mine, target, waits = (step.gpu, *step.src), (step.gpu, *step.dst), step.waits
        if step.kind == "s":
            step.done = self._latest(waits)
        elif step.kind == "nop":
            self.of.append(step)
            step.own = max(step.own, 0)
            step.done = builder.join(len(self.of) - 1, step.gpu, sorted(set(waits))).tolist()
        elif step.kind in ("cpy", "re"):
            kind = COPY if step.kind == "cpy" else REDUCE
            step.done = self._add(builder, step, mine, target, kind, waits)
        elif step.peer_in is not None:
            out, reduces = step.peer_in, step.kind in ("rrc", "rrs", "rrcs")
            target = self._sum.get(step, target)
            source = self._staging[out] if out.staged else self._outgoing(out)
            waits += out.sent if out.staged else out.done  # before it adds to anything, too
            if reduces and mine != target:
                waits = self._add(builder, step, mine, target, COPY, waits)
            kind = REDUCE if reduces else COPY
            step.done = self._add(builder, step, source, target, kind, waits)

    def _latest(self, ops: list[int]) -> list[int]:
        """Return the last operation of each thread block: it has waited for those before it."""
        last = {}
        for op in sorted(ops):
            step = self.of[op]
            last[op if op in step.sent else (step.gpu, step.block)] = op
        return list(last.values())

    def _add(
        self,
        builder: ScheduleBuilder,
        step: Step,
        source: Place,
        target: Place,
        kind: int,
        after: list[int],
    ) -> list[int]:
        """Add an operation of a step, and return its number in a list."""
        self.of.append(step)
        (src, src_buf, src_off), (dst, dst_buf, dst_off), unit = source, target, self._unit
        ids: list[int] = builder.add(
            len(self.of) - 1, src, dst, src_off * unit, dst_off * unit, step.count * unit,
            src_buf=src_buf, dst_buf=dst_buf, kind=kind, after=sorted(set(after)),
        ).tolist()  # fmt: skip
        return ids


def _receiver(step: Step) -> Step:
    """Return the step that receives what this one sends."""
    assert step.peer_out is not None  # every send was paired with its receive
    return step.peer_out
