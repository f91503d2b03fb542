"""Dispatch and combine in two hops: once over the network to each node, then on inside it.

So do DeepEP's normal kernels: a token goes once to each node that needs it, to the rank with its
source's own number there, which hands it on to the ranks of its node; results are summed there
before they go back. Both hops run at once, chunk by chunk; the last chunk is handed on when it has
arrived.
"""

from dataclasses import dataclass

import numpy as np

from ubnet.errors import OptionError
from ubnet.fabric import Ints
from ubnet.transport import WRITE, Transport

from .flow_program import FlowProgram
from .fused import Fused
from .staged import Sent, Staged

CHUNKS = 16
"""Chunks of what goes to a node (assumed): the last one's second hop is not hidden."""


@dataclass(frozen=True, eq=False)
class Forwarded:
    """The same dispatch and combine as a `Fused`, in two hops.

    Attributes
    ----------
    fused : Fused
        Ranks, constants, and the tokens that each rank has for each other.
    node_copies : ndarray of int64, shape (ranks, nodes)
        Tokens that each rank has for each node, each counted once.

    Raises
    ------
    OptionError
        If the ranks do not fill their nodes alike.
    """

    fused: Fused
    node_copies: Ints

    def __post_init__(self) -> None:
        found, counts = np.unique(self.node_of, return_counts=True)
        if (np.diff(self.node_of) < 0).any() or counts.min() != counts.max():
            raise OptionError(
                f"two hops need as many ranks on each node, node by node; on {len(found)} nodes "
                f"there are {counts.min()} to {counts.max()}: give a multiple of {counts.max()}"
            )

    def dispatch(self, transport: Transport) -> Staged:
        """Put the stages of a dispatch together."""
        f, everyone = self.fused, np.arange(self.fused.ranks)
        program = FlowProgram(f.ranks)
        called = program.meet(f.started + f.model.launch_ps)
        far = self.node_copies.copy()
        far[everyone, self.node_of] = 0
        src, node = np.nonzero(far)
        gate = self.forwarder(src, node)
        first = self._flows(program, transport, src, gate, far[src, node] * f.sent_bytes, called)
        near, dst = np.nonzero(f.copies * ~np.eye(f.ranks, dtype=bool))
        via = self.forwarder(near, self.node_of[dst])
        nbytes = f.copies[near, dst] * f.sent_bytes
        hop = np.full((f.ranks, far.shape[1]), -1)
        hop[src, node] = first
        second = self._hand_on(
            program, transport, called, via, dst, nbytes, hop[near, self.node_of[dst]]
        )
        sent = Sent(called, near, dst, second, nbytes)
        written = program.meet(0, (everyone, called), (src, first))
        arrived = program.meet(0, (everyone, written), (dst, second))
        done = program.meet(f.assembly_ps, (everyone, arrived))
        return Staged(program, {"tokens": written, "arrived": arrived}, sent, done)

    def combine(self, transport: Transport) -> Staged:
        """Put the stages of a combine together: sums inside a node, then one row for each token."""
        f, everyone = self.fused, np.arange(self.fused.ranks)
        program = FlowProgram(f.ranks)
        called = program.meet(f.started + f.model.launch_ps)
        home, holder = np.nonzero(f.copies * ~np.eye(f.ranks, dtype=bool))
        via = self.forwarder(home, self.node_of[holder])
        nbytes = f.copies[home, holder] * f.row_bytes
        collected = self._flows(program, transport, holder, via, nbytes, called)
        summed = program.meet(self._passing_ps(via, nbytes), (everyone, called), (via, collected))
        far = self.node_copies.copy()
        far[everyone, self.node_of] = 0
        back, node = np.nonzero(far)
        gate = self.forwarder(back, node)
        rows = far[back, node] * f.row_bytes
        most = rows - rows // CHUNKS
        early = self._flows(program, transport, gate, back, most, called)
        last = self._flows(program, transport, gate, back, rows - most, summed)
        sent = Sent(called, holder, home, collected, nbytes)
        written = program.meet(0, (everyone, summed), (gate, early), (gate, last))
        arrived = program.meet(0, (everyone, written), (back, early), (back, last))
        done = program.meet(f.summing_ps, (everyone, arrived))
        return Staged(program, {"tokens": written, "arrived": arrived}, sent, done)

    @property
    def node_of(self) -> Ints:
        """The node of each rank, numbered from 0."""
        nodes = self.fused.fabric.node_of[self.fused.endpoints]
        return np.unique(nodes, return_inverse=True)[1].astype(np.int64)

    def forwarder(self, rank: Ints, node: Ints) -> Ints:
        """Return the rank of each node that has the number of another rank in its own."""
        size = len(self.node_of) // (int(self.node_of.max()) + 1)
        found: Ints = node * size + rank % size
        return found

    def _passing_ps(self, via: Ints, nbytes: Ints) -> Ints:
        """Return how long each rank sums the last chunk of what passes through it."""
        passing = np.bincount(via, nbytes, self.fused.ranks).astype(np.int64)
        return self.fused.memory_ps(passing // CHUNKS)

    def _hand_on(
        self,
        program: FlowProgram,
        transport: Transport,
        called: Ints,
        via: Ints,
        dst: Ints,
        nbytes: Ints,
        hop: Ints,
    ) -> Ints:
        """Add the second hop; its last chunk waits for the whole first one."""
        far = hop >= 0
        last = np.where(far, nbytes // CHUNKS, 0)
        ids = self._flows(program, transport, via, dst, nbytes - last, called)
        gates = program.both(ids[far], hop[far])
        f, turn = self.fused, np.arange(len(gates))
        ends = f.endpoints[via[far]], f.endpoints[dst[far]]
        columns = transport.flows(f.fabric, WRITE, *ends, last[far], messages=0)
        ids[far] = program.send(columns, turn, after=gates)
        return ids

    def _flows(
        self,
        program: FlowProgram,
        transport: Transport,
        src: Ints,
        dst: Ints,
        nbytes: Ints,
        after: Ints,
    ) -> Ints:
        f = self.fused
        fan = np.bincount(src, minlength=f.ranks)
        columns = transport.flows(
            f.fabric,
            WRITE,
            f.endpoints[src],
            f.endpoints[dst],
            nbytes,
            targets=fan[src],
            messages=0,
        )
        return program.send(columns, src, after=after)
