"""How long the fused dispatch and combine take: their stages as flows that wait for each other.

Dispatch (P, section 4.2): every rank takes its tokens through a pipeline of one token (HBM to
unified buffer | quantise | write to the peers), lets its vector cores meet at a barrier, sends a
flag with a count to every peer, polls the flags of all and assembles the tokens it got. Combine:
every rank writes the experts' results back to where their tokens came from, each with an atomic
flag, waits for all of its own and sums them with the gate's weights.

The copies of a pair of ranks are one flow. They are no messages: they pay for the many targets of
their engine (`spread`) and not per message; dispatch's flags are messages of their own, combine's
ride with its tokens. A transport that cannot write out of the unified buffer (SDMA, URMA) gets
its copies packed in HBM first, one message for each peer, and nothing of that overlaps.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Fabric, Floats, Ints
from ubnet.transport import WRITE, Transport
from ubnet.units import PS_PER_S

from .flow_program import FlowProgram
from .fused_model import CLOUDMATRIX, FusedModel
from .quantise import BF16_BYTES, bytes_per_copy

MEMORY_ACCESSES = 3
"""`Fabric.memory_rate` counts operand bytes of a reduction: a third of what the memory moves."""


@dataclass(frozen=True, eq=False)
class FusedTiming:
    """When a fused operator ends, and what it was waiting for.

    Attributes
    ----------
    time_ps : int
        End of the last rank; all start at 0.
    rank_end_ps : ndarray of int64, shape (ranks,)
        End of every rank.
    stage_end_ps : mapping of str to ndarray of int64, shape (ranks,)
        End of each rank's stages: ``tokens`` (its copies have arrived), ``barrier`` (dispatch
        alone), ``arrived`` (what it waits for has come).
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
    """

    time_ps: int
    rank_end_ps: Ints
    stage_end_ps: Mapping[str, Ints]
    transport: str
    plane: str
    reason: str
    resource_bytes: Floats
    lower_bound_ps: int
    busiest: str
    busiest_utilisation: float

    @property
    def efficiency(self) -> float:
        """Lower bound divided by time."""
        return self.lower_bound_ps / self.time_ps


@dataclass(frozen=True, eq=False)
class Fused:
    """A dispatch and its combine between ranks on a fabric, to be timed.

    Attributes
    ----------
    fabric : Fabric
        Where they run.
    endpoints : ndarray of int64, shape (ranks,)
        Where the ranks sit.
    copies : ndarray of int64, shape (ranks, ranks)
        Token copies that row r sends to column d in the dispatch; in the combine they go back.
    tokens : ndarray of int64, shape (ranks,)
        Tokens of each rank.
    hidden : int
        Channels of a token.
    quant : {"none", "int8"}
        What a dispatch sends; a combine sends bfloat16.
    model : FusedModel
        The constants.
    """

    fabric: Fabric
    endpoints: Ints
    copies: Ints
    tokens: Ints
    hidden: int = 7168
    quant: str = "int8"
    model: FusedModel = CLOUDMATRIX

    def dispatch(self, transport: Transport) -> FusedTiming:
        """Time a dispatch."""
        model, everyone = self.model, np.arange(len(self.endpoints))
        copy_bytes = bytes_per_copy(self.hidden, self.quant)
        program = FlowProgram(len(everyone))
        rounds = -(-self.tokens // self.cores)
        quantised = model.launch_ps + rounds * model.token_ps
        first = model.launch_ps + model.token_ps
        processed, src, _, copies = self._copies(
            program, transport, self.copies, copy_bytes, quantised, first
        )
        written = program.meet(0, (everyone, processed), (src, copies))
        met = program.meet(model.barrier_ps, (everyone, written))
        to, flags = self._flags(program, transport, met)
        arrived = program.meet(0, (everyone, met), (to, flags))
        read_and_written = 2 * self.copies.sum(axis=0) * copy_bytes
        done = program.meet(self._memory_ps(read_and_written), (everyone, arrived))
        stages = {"tokens": written, "barrier": met, "arrived": arrived}
        return self._timing(program, transport, stages, done)

    def combine(self, transport: Transport) -> FusedTiming:
        """Time a combine."""
        launch, everyone = self.model.launch_ps, np.arange(len(self.endpoints))
        row = BF16_BYTES * self.hidden
        program = FlowProgram(len(everyone))
        ready, src, dst, copies = self._copies(
            program, transport, self.copies.T, row, np.full(len(everyone), launch), launch
        )
        written = program.meet(0, (everyone, ready), (src, copies))
        arrived = program.meet(0, (everyone, written), (dst, copies))
        summed = (self.copies.sum(axis=1) + self.tokens) * row
        done = program.meet(self._memory_ps(summed), (everyone, arrived))
        return self._timing(program, transport, {"tokens": written, "arrived": arrived}, done)

    @property
    def cores(self) -> int:
        """Vector cores in use on each die."""
        return int(self.fabric.options.get("aiv_cores", self.model.cores))

    def _copies(
        self,
        program: FlowProgram,
        transport: Transport,
        copies: Ints,
        copy_bytes: int,
        prepared_ps: Ints,
        first_ps: int,
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Add what prepares the copies and the copies; return ids, sources, targets and ids."""
        direct = transport.name in self.model.direct
        if not direct:
            prepared_ps = prepared_ps + self._memory_ps(2 * copies.sum(axis=1) * copy_bytes)
        prepared = program.meet(prepared_ps)
        src, dst = np.nonzero(copies * ~np.eye(len(copies), dtype=bool))
        fan = np.bincount(src, minlength=len(copies))
        columns = transport.flows(
            self.fabric,
            WRITE,
            self.endpoints[src],
            self.endpoints[dst],
            copies[src, dst] * copy_bytes,
            targets=fan[src],
            messages=0 if direct else 1,
        )
        # Copies leave in the order of the tokens, so that all flows of a rank end together.
        weight = copies[src, dst]
        if direct:
            ids = program.send(columns, src, delay_ps=first_ps, weight=weight)
        else:
            ids = program.send(columns, src, after=prepared, weight=weight)
        return prepared, src, dst, ids

    def _flags(self, program: FlowProgram, transport: Transport, after: Ints) -> tuple[Ints, Ints]:
        """Add a flag from every rank to every other; return targets and ids."""
        ranks = len(self.endpoints)
        src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
        columns = transport.flows(
            self.fabric,
            WRITE,
            self.endpoints[src],
            self.endpoints[dst],
            self.model.flag_bytes,
            targets=ranks - 1,
        )
        return dst, program.send(columns, src, after=after)

    def _memory_ps(self, nbytes: Ints) -> Ints:
        """Return how long each rank's memory needs for so many bytes read and written."""
        rate = MEMORY_ACCESSES * self.fabric.memory_rate[self.endpoints]
        rate = rate * min(1.0, self.cores / self.model.cores)
        needed: Ints = np.rint(nbytes / rate * PS_PER_S).astype(np.int64)
        return needed

    def _timing(
        self,
        program: FlowProgram,
        transport: Transport,
        stages: Mapping[str, Ints],
        done: Ints,
    ) -> FusedTiming:
        capacity = self.fabric.capacity
        finish = program.run(capacity)
        loads = program.loads(len(capacity))
        bound, resource = program.bound(capacity)
        time_ps = int(finish[done].max())
        busy = loads[resource] / capacity[resource] * PS_PER_S / time_ps if resource >= 0 else 0.0
        return FusedTiming(
            time_ps=time_ps,
            rank_end_ps=finish[done],
            stage_end_ps={name: finish[ids] for name, ids in stages.items()},
            transport=transport.name,
            plane=transport.plane,
            reason="given",
            resource_bytes=loads,
            lower_bound_ps=bound,
            busiest=self.fabric.resource_names[resource] if resource >= 0 else "",
            busiest_utilisation=float(busy),
        )
