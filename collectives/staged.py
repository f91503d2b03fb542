"""An operator as stages of flows, before it is timed; and what its timing says."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Fabric, Floats, Ints
from ubnet.transport import Transport
from ubnet.units import PS_PER_S

from .flow_program import FlowProgram


@dataclass(frozen=True, eq=False)
class Sent:
    """The token copies of an operator as flows: one for each pair of ranks.

    Attributes
    ----------
    prepared : ndarray of int64, shape (ranks,)
        What ends when a rank's tokens are all prepared.
    src, dst, ids, nbytes : ndarray of int64, shape (pairs,)
        From which rank to which, the flow, and its bytes.
    """

    prepared: Ints
    src: Ints
    dst: Ints
    ids: Ints
    nbytes: Ints


@dataclass(frozen=True, eq=False)
class Staged:
    """The stages of an operator on all ranks.

    Attributes
    ----------
    program : FlowProgram
        All of them.
    stages : mapping of str to ndarray of int64, shape (ranks,)
        Their ids: ``tokens`` (a rank's copies have arrived), ``barrier`` and ``flags`` (it has
        met, its flags have arrived; dispatch alone), ``arrived`` (what it waits for has come).
    sent : Sent
        The token copies.
    done : ndarray of int64, shape (ranks,)
        The last id of each rank; the last ones of the program.
    """

    program: FlowProgram
    stages: Mapping[str, Ints]
    sent: Sent
    done: Ints

    def timed(self, fabric: Fabric, transport: Transport, start_ps: Ints) -> "FusedTiming":
        """Run it on an idle fabric."""
        capacity = fabric.capacity
        finish = self.program.run(capacity)
        loads = self.program.loads(len(capacity))
        bound, resource = self.program.bound(capacity)
        time_ps = int(finish[self.done].max())
        busy = loads[resource] / capacity[resource] * PS_PER_S / time_ps if resource >= 0 else 0.0
        return FusedTiming(
            time_ps=time_ps,
            rank_end_ps=finish[self.done],
            rank_start_ps=start_ps,
            stage_end_ps={name: finish[ids] for name, ids in self.stages.items()},
            transport=transport.name,
            plane=transport.plane,
            reason="given",
            resource_bytes=loads,
            lower_bound_ps=bound,
            busiest=fabric.resource_names[resource] if resource >= 0 else "",
            busiest_utilisation=float(busy),
            sent=self.sent,
            arrival_ps=finish[self.sent.ids],
        )


@dataclass(frozen=True, eq=False)
class FusedTiming:
    """When a fused operator ends, and what it was waiting for.

    Attributes
    ----------
    time_ps : int
        End of the last rank, counted from 0.
    rank_end_ps, rank_start_ps : ndarray of int64, shape (ranks,)
        End of every rank, and when it had called.
    stage_end_ps : mapping of str to ndarray of int64, shape (ranks,)
        End of each rank's stages: ``tokens`` (its copies have arrived), ``barrier`` and ``flags``
        (it has met, its flags have arrived; dispatch alone), ``arrived`` (what it waits for).
    transport, plane, reason : str
        How the bytes moved, and why so.
    resource_bytes : ndarray of float64, shape (resources,)
        What every resource of the fabric carried, bytes times share.
    lower_bound_ps : int
        The largest need of a resource for its bytes, plus the latency of one message.
    busiest : str
        The resource that has this need; empty where nothing crossed the fabric.
    busiest_utilisation : float
        The part of the whole time for which it was busy.
    sent : Sent
        The token copies: a flow for each pair of ranks that has any.
    arrival_ps : ndarray of int64, shape (pairs,)
        When the last copy of each pair has arrived.
    """

    time_ps: int
    rank_end_ps: Ints
    rank_start_ps: Ints
    stage_end_ps: Mapping[str, Ints]
    transport: str
    plane: str
    reason: str
    resource_bytes: Floats
    lower_bound_ps: int
    busiest: str
    busiest_utilisation: float
    sent: Sent
    arrival_ps: Ints

    @property
    def efficiency(self) -> float:
        """Lower bound divided by time."""
        return self.lower_bound_ps / self.time_ps

    @property
    def rank_time_ps(self) -> Ints:
        """How long each rank was in the operator, shape (ranks,)."""
        return self.rank_end_ps - self.rank_start_ps

    @property
    def waiting_ps(self) -> Ints:
        """How long each rank only waited for others: its own writes done, theirs not yet here."""
        own = self.stage_end_ps.get("flags", self.stage_end_ps["tokens"])
        return self.stage_end_ps["arrived"] - own

    def sent_bytes(self, ranks: int) -> Ints:
        """Return the bytes of token copies that each rank sent over the fabric."""
        return np.bincount(self.sent.src, self.sent.nbytes, ranks).astype(np.int64)

    def received_bytes(self, ranks: int) -> Ints:
        """Return the bytes of token copies that each rank received over the fabric."""
        return np.bincount(self.sent.dst, self.sent.nbytes, ranks).astype(np.int64)
