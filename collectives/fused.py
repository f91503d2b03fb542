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

from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Fabric, Ints
from ubnet.transport import WRITE, Transport
from ubnet.units import PS_PER_S

from .flow_program import FlowProgram
from .fused_model import CLOUDMATRIX, FusedModel
from .quantise import BF16_BYTES, bytes_per_copy
from .staged import Sent, Staged

MEMORY_ACCESSES = 3
"""`Fabric.memory_rate` counts operand bytes of a reduction: a third of what the memory moves."""


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
    quant : {"none", "int8", "fp8"}
        What a dispatch delivers; a combine sends bfloat16.
    model : FusedModel
        The constants.
    start_ps : ndarray of int64, shape (ranks,), or None
        When each rank calls; None: all at 0.
    early : bool
        Dispatch quantises before it sends; False: it sends bfloat16 and the receiver quantises.
    """

    fabric: Fabric
    endpoints: Ints
    copies: Ints
    tokens: Ints
    hidden: int = 7168
    quant: str = "int8"
    model: FusedModel = CLOUDMATRIX
    start_ps: Ints | None = None
    early: bool = True

    def dispatch(self, transport: Transport) -> Staged:
        """Put the stages of a dispatch together."""
        model, everyone = self.model, np.arange(self.ranks)
        program = FlowProgram(self.ranks)
        launched = self.started + model.launch_ps
        quantised, first = launched, launched
        if self.early and self.quant != "none":
            quantised = launched + self.rounds(self.tokens) * model.token_ps
            first = launched + np.minimum(1, self.tokens) * model.token_ps
        sent = self.send(program, transport, self.copies, self.sent_bytes, quantised, first)
        written = program.meet(0, (everyone, sent.prepared), (sent.src, sent.ids))
        met = program.meet(model.barrier_ps, (everyone, written))
        of, to, flags = self.flags(program, transport, met)
        told = program.meet(0, (everyone, met), (of, flags))
        arrived = program.meet(0, (everyone, told), (to, flags))
        done = program.meet(self.assembly_ps, (everyone, arrived))
        stages = {"tokens": written, "barrier": met, "flags": told, "arrived": arrived}
        return Staged(program, stages, sent, done)

    def combine(self, transport: Transport) -> Staged:
        """Put the stages of a combine together."""
        everyone = np.arange(self.ranks)
        program = FlowProgram(self.ranks)
        launched = self.started + self.model.launch_ps
        sent = self.send(program, transport, self.copies.T, self.row_bytes, launched, launched)
        written = program.meet(0, (everyone, sent.prepared), (sent.src, sent.ids))
        arrived = program.meet(0, (everyone, written), (sent.dst, sent.ids))
        done = program.meet(self.summing_ps, (everyone, arrived))
        return Staged(program, {"tokens": written, "arrived": arrived}, sent, done)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.endpoints)

    @property
    def started(self) -> Ints:
        """When each rank calls, shape (ranks,)."""
        if self.start_ps is None:
            return np.zeros(self.ranks, dtype=np.int64)
        return np.asarray(self.start_ps, dtype=np.int64)

    @property
    def cores(self) -> int:
        """Vector cores in use on each die."""
        return int(self.fabric.options.get("aiv_cores", self.model.cores))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of bfloat16."""
        return BF16_BYTES * self.hidden

    @property
    def sent_bytes(self) -> int:
        """Bytes of a token copy on its way in a dispatch."""
        return bytes_per_copy(self.hidden, self.quant if self.early else "none")

    @property
    def assembly_ps(self) -> Ints:
        """How long each rank takes to assemble what a dispatch brought, shape (ranks,).

        What was not quantised before it was sent is quantised here, by the rounds of the cores,
        unless the memory is slower.
        """
        rows = self.copies.sum(axis=0)
        kept = bytes_per_copy(self.hidden, self.quant)
        memory = self.memory_ps(rows * (self.sent_bytes + kept))
        if self.early or self.quant == "none":
            return memory
        return np.maximum(memory, self.rounds(rows) * self.model.token_ps)

    @property
    def summing_ps(self) -> Ints:
        """How long each rank takes to sum what a combine brought, shape (ranks,)."""
        return self.memory_ps((self.copies.sum(axis=1) + self.tokens) * self.row_bytes)

    def rounds(self, tokens: Ints) -> Ints:
        """Return how many tokens the busiest core of each rank has."""
        needed: Ints = -(-tokens // self.cores)
        return needed

    def memory_ps(self, nbytes: Ints) -> Ints:
        """Return how long each rank's memory needs for so many bytes read and written."""
        rate = MEMORY_ACCESSES * self.fabric.memory_rate[self.endpoints]
        rate = rate * min(1.0, self.cores / self.model.cores)
        needed: Ints = np.rint(nbytes / rate * PS_PER_S).astype(np.int64)
        return needed

    def send(
        self,
        program: FlowProgram,
        transport: Transport,
        copies: Ints,
        copy_bytes: int,
        prepared_ps: Ints,
        first_ps: Ints,
        *,
        after: Ints | None = None,
        pipelined: bool = True,
    ) -> Sent:
        """Add what prepares the copies of every rank, and the copies.

        Parameters
        ----------
        copies : ndarray of int64, shape (ranks, ranks)
            From row to column.
        copy_bytes : int
            Bytes of one.
        prepared_ps, first_ps : ndarray of int64, shape (ranks,)
            When all of a rank's tokens are prepared, and its first one is.
        after : ndarray of int64, shape (ranks,), optional
            Ids from whose ends on these times count; default: from 0.
        pipelined : bool
            A token leaves while the next is prepared, if the transport can do that.
        """
        direct = pipelined and transport.name in self.model.direct
        if not direct:
            prepared_ps = prepared_ps + self.memory_ps(2 * copies.sum(axis=1) * copy_bytes)
        waits = [] if after is None else [(np.arange(self.ranks), after)]
        prepared = program.meet(prepared_ps, *waits)
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
            ids = program.send(columns, src, delay_ps=first_ps[src], weight=weight)
        else:
            ids = program.send(columns, src, after=prepared, weight=weight)
        return Sent(prepared, src, dst, ids, columns.nbytes)

    def flags(
        self, program: FlowProgram, transport: Transport, after: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Add a flag from every rank to every other; return sources, targets and ids."""
        src, dst = np.nonzero(~np.eye(self.ranks, dtype=bool))
        columns = transport.flows(
            self.fabric,
            WRITE,
            self.endpoints[src],
            self.endpoints[dst],
            self.model.flag_bytes,
            targets=self.ranks - 1,
        )
        return src, dst, program.send(columns, src, after=after)
