"""Dispatch and combine without fusion: what the published design started from.

Dispatch is three all-to-alls one after the other, each an operator of its own: the counts, where
every copy comes from, and the tokens, which are packed in HBM first. Where buffers are not static
the host must read the counts and allocate in between. Combine is an all-to-all, then a sum.
"""

from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Ints
from ubnet.transport import WRITE, Transport

from .flow_program import FlowProgram
from .fused import Fused
from .staged import Sent, Staged

COUNT_BYTES = 4
"""A count for one expert."""
PLACE_BYTES = 12
"""Source rank, batch slot and key offset of a copy (P, section 4.2), an int32 each."""


@dataclass(frozen=True, eq=False)
class Unfused:
    """The same dispatch and combine as a `Fused`, in operators of their own.

    Attributes
    ----------
    fused : Fused
        Ranks, copies and constants.
    local_experts : int
        Experts on each rank: so many counts go to it.
    static : bool
        Buffers of a size known beforehand: the host need not look at the counts.
    """

    fused: Fused
    local_experts: int = 1
    static: bool = False

    def dispatch(self, transport: Transport) -> Staged:
        """Put the stages of a dispatch together."""
        f, everyone = self.fused, np.arange(self.fused.ranks)
        launch = f.model.launch_ps
        program = FlowProgram(f.ranks)
        called = program.meet(f.started + launch)
        counted = self._exchange(
            program, transport, np.ones_like(f.copies), COUNT_BYTES * self.local_experts, called
        )
        known = program.meet(
            launch + (0 if self.static else f.model.host_sync_ps), (everyone, counted)
        )
        placed = self._exchange(program, transport, f.copies, PLACE_BYTES, known)
        prepare = np.full(f.ranks, launch)
        if f.early and f.quant != "none":
            prepare = prepare + f.rounds(f.tokens) * f.model.token_ps
        sent = f.send(
            program,
            transport,
            f.copies,
            f.sent_bytes,
            prepare,
            prepare,
            after=placed,
            pipelined=False,
        )
        return self._received(program, sent, f.assembly_ps)

    def combine(self, transport: Transport) -> Staged:
        """Put the stages of a combine together."""
        f = self.fused
        program = FlowProgram(f.ranks)
        start = f.started + f.model.launch_ps
        sent = f.send(program, transport, f.copies.T, f.row_bytes, start, start, pipelined=False)
        return self._received(program, sent, f.summing_ps + f.model.launch_ps)

    def _received(self, program: FlowProgram, sent: Sent, last_ps: Ints) -> Staged:
        """Let every rank wait for its tokens and do what comes last."""
        everyone = np.arange(self.fused.ranks)
        written = program.meet(0, (everyone, sent.prepared), (sent.src, sent.ids))
        arrived = program.meet(0, (everyone, written), (sent.dst, sent.ids))
        done = program.meet(last_ps, (everyone, arrived))
        return Staged(program, {"tokens": written, "arrived": arrived}, sent, done)

    def _exchange(
        self, program: FlowProgram, transport: Transport, items: Ints, item: int, after: Ints
    ) -> Ints:
        """Add an all-to-all of so many items of some bytes; return what ends it on every rank."""
        f, everyone = self.fused, np.arange(self.fused.ranks)
        src, dst = np.nonzero(items * ~np.eye(f.ranks, dtype=bool))
        fan = np.bincount(src, minlength=f.ranks)
        columns = transport.flows(
            f.fabric,
            WRITE,
            f.endpoints[src],
            f.endpoints[dst],
            items[src, dst] * item,
            targets=fan[src],
        )
        ids = program.send(columns, src, after=after)
        return program.meet(0, (everyone, after), (src, ids), (dst, ids))
