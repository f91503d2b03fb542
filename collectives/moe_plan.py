"""Dispatch and combine as collective calls of ranks: what moves, and the stages that time it.

`DispatchPlan` and `CombinePlan` are makers for `ubnet.message.Collective`: from what every rank
gives they make the schedule of the bytes and the flows of the fused operators.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ubnet.fabric import Fabric, Ints
from ubnet.plans import Plan
from ubnet.schedule import Schedule
from ubnet.schedule_builder import ScheduleBuilder
from ubnet.transport import Transport

from .fused import Fused
from .fused_model import model_of
from .staged import Staged


@dataclass(frozen=True)
class FusedCall:
    """What all ranks give alike.

    Attributes
    ----------
    hidden : int
        Channels of a token.
    quant : {"none", "int8", "fp8"}
        What a dispatch sends.
    record_bytes : int
        Bytes of a record that really moves; `ubnet.collectives.quantise.bytes_per_copy` is timed.
    transport : str
        A transport's name, or ``auto``: the one that the fabric's operators write with.
    """

    hidden: int
    quant: str
    record_bytes: int
    transport: str = "auto"

    def fused(self, fabric: Fabric, endpoints: Ints, copies: Ints, tokens: Ints) -> Fused:
        """Return the operators between these ranks."""
        model = model_of(fabric)
        return Fused(fabric, endpoints, copies, tokens, self.hidden, self.quant, model)

    def chosen(self, fabric: Fabric) -> Transport:
        """Return the transport."""
        if self.transport != "auto":
            return fabric.transport(self.transport)
        direct = [n for n in model_of(fabric).direct if n in fabric.transports]
        return fabric.transport(direct[0] if direct else next(iter(fabric.transports)))


@dataclass(frozen=True)
class DispatchPlan(FusedCall):
    """Makes the plan of a dispatch; a rank's part is (copies for each rank, its tokens)."""

    def __call__(self, parts: Sequence[Any], fabric: Fabric, endpoints: Ints) -> Plan:
        """Make it from the parts of all ranks."""
        copies = np.array([part[0] for part in parts], dtype=np.int64)
        tokens = np.array([part[1] for part in parts], dtype=np.int64)
        fused = self.fused(fabric, endpoints, copies, tokens)
        staged = fused.dispatch(self.chosen(fabric))
        return plan_of("dispatch fused", staged, copies * self.record_bytes)


@dataclass(frozen=True)
class CombinePlan(FusedCall):
    """Makes the plan of a combine; a rank's part is (rows it holds of each rank, its tokens)."""

    def __call__(self, parts: Sequence[Any], fabric: Fabric, endpoints: Ints) -> Plan:
        """Make it from the parts of all ranks."""
        held = np.array([part[0] for part in parts], dtype=np.int64)
        tokens = np.array([part[1] for part in parts], dtype=np.int64)
        fused = self.fused(fabric, endpoints, held.T, tokens)
        staged = fused.combine(self.chosen(fabric))
        return plan_of("combine fused", staged, held * self.record_bytes)


def plan_of(name: str, staged: Staged, nbytes: Ints) -> Plan:
    """Return the plan of an all-to-all of bytes that takes the time of staged operators.

    Parameters
    ----------
    name : str
        What the schedule is called.
    staged : Staged
        Its stages; the copies of a pair move when their flow ends, own ones when they are prepared.
    nbytes : ndarray of int64, shape (ranks, ranks)
        Bytes from row to column: blocks in rank order in the input and in the output.
    """
    src, dst = np.nonzero(nbytes)
    done = staged.sent.prepared[src]
    crossing = src != dst
    done[crossing] = staged.sent.ids
    return Plan(_blocks(name, nbytes, src, dst), staged.program.schedule_flows(done))


def _blocks(name: str, nbytes: Ints, src: Ints, dst: Ints) -> Schedule:
    ranks = len(nbytes)
    sizes = np.stack([nbytes.sum(axis=1), nbytes.sum(axis=0), np.zeros(ranks, int)], axis=1)
    builder = ScheduleBuilder(name, ranks, sizes)
    from_begin = np.cumsum(nbytes, axis=1) - nbytes
    to_begin = np.cumsum(nbytes, axis=0) - nbytes
    builder.add(0, src, dst, from_begin[src, dst], to_begin[src, dst], nbytes[src, dst])
    return builder.build()
