"""One dispatch or combine of all ranks, run with real bytes and timed: what a bench calls."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from ubnet.errors import OptionError, did_you_mean
from ubnet.fabric import Fabric, Ints
from ubnet.transport import Transport
from ubnet.units import format_time

from .forwarded import Forwarded
from .fused import Fused
from .fused_model import FusedModel, model_of
from .gate import EXPERT, RANK, Gate
from .layout import StaticBuffer
from .placement import Placement, balanced_placement
from .quantise import BF16_BYTES, bytes_per_copy
from .rank_packed import rank_index
from .routing import Routing
from .staged import FusedTiming
from .token_plan import TokenPlan, check_experts, token_plan
from .unfused import Unfused

DISPATCH, COMBINE = "dispatch", "combine"
OPS = (DISPATCH, COMBINE)
FUSED, UNFUSED, FORWARDED = "fused", "unfused", "forwarded"
METHODS = (FUSED, UNFUSED, FORWARDED)
EXPERTS = 256
"""Routed experts of the calibrated rows; `default_experts` goes up from here."""


@dataclass(frozen=True, eq=False)
class ExpertParallel:
    """One dispatch or combine between ranks on a fabric.

    Attributes
    ----------
    op : {"dispatch", "combine"}
        The operator.
    fabric : Fabric
        Where it runs.
    endpoints : ndarray of int64, shape (ranks,)
        Where the ranks sit.
    routing : Routing
        Which tokens go to which experts; its seed makes the tokens, too.
    tokens : int or array_like of int, shape (ranks,)
        Tokens of each rank.
    hidden : int
        Channels of a token.
    quant : {"int8", "fp8", "none"}
        What a dispatch sends; a combine sends bfloat16.
    model : FusedModel or None
        The constants of the operators; None: those of the fabric's chips.
    layout : {"expert", "padded", "rank"}
        How rows lie where they arrive; for ``rank`` a token goes once to each rank.
    placement : Placement or None
        Where experts stand; None: in contiguous blocks.
    start_ps : ndarray of int64, shape (ranks,), or None
        When each rank calls; None: all at 0.
    method : {"fused", "unfused", "forwarded"}
        Fused operators, all-to-alls one after the other (`ubnet.collectives.unfused`), or two
        hops over a rank of each node (`ubnet.collectives.forwarded`).
    early : bool
        A dispatch quantises before it sends, not where the tokens arrive.
    static : bool
        Buffers of a size known beforehand; matters to ``unfused`` only, fused ones have them.
    plan : TokenPlan
        The counts of all ranks.

    Raises
    ------
    OptionError
        If an argument is outside of what is allowed.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> from ubnet.place import place_ranks
    >>> fabric = load_fabric("cloudmatrix64")
    >>> routing = Routing("balanced", experts=16, topk=2)
    >>> run = ExpertParallel("dispatch", fabric, place_ranks(fabric, 8), routing, hidden=64)
    >>> run.wrong(), run.size_bytes, run.timing().transport
    (0, 147456, 'aiv')
    """

    op: str
    fabric: Fabric
    endpoints: Ints
    routing: Routing
    tokens: ArrayLike = 128
    hidden: int = 7168
    quant: str = "int8"
    model: FusedModel | None = None
    layout: str = EXPERT
    placement: Placement | None = None
    start_ps: Ints | None = None
    method: str = FUSED
    early: bool = True
    static: bool = True
    gate: Gate = field(init=False, repr=False)
    plan: TokenPlan = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for what, given, allowed in (("operator", self.op, OPS), ("method", self.method, METHODS)):
            if given not in allowed:
                raise OptionError(f"no {what} {given!r}; {did_you_mean(given, allowed)}")
        bytes_per_copy(self.hidden, self.quant)
        gate = Gate(self.routing, self.ranks, self.placement, self.layout)
        check_experts(gate.slots, self.ranks)
        tokens = self._token_counts()
        counts = [gate.counts(rank, count) for rank, count in enumerate(tokens.tolist())]
        object.__setattr__(self, "gate", gate)
        object.__setattr__(self, "plan", token_plan(counts, tokens.tolist(), gate.keys))

    def _token_counts(self) -> Ints:
        tokens = np.asarray(self.tokens, dtype=np.int64)
        if tokens.shape not in ((), (self.ranks,)) or tokens.min(initial=0) < 0 or self.hidden < 1:
            raise OptionError(
                f"{self.tokens} tokens of hidden {self.hidden}: give tokens of 0 or more, one "
                f"number or {self.ranks}, and hidden of 1 or more"
            )
        return np.broadcast_to(tokens, self.ranks)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.endpoints)

    @property
    def copy_bytes(self) -> int:
        """Bytes of one token copy of this operator."""
        sent = self.quant if self.op == DISPATCH and self.early else "none"
        return bytes_per_copy(self.hidden, sent)

    @property
    def size_bytes(self) -> int:
        """Bytes that the rank with the most tokens would send, copies to itself included.

        That is tokens x topk x bytes of a copy; for layout ``rank`` what it really sends, on the
        average of the ranks.
        """
        if self.layout == RANK:
            return int(self.plan.counts.sum()) * self.copy_bytes // self.ranks
        return int(self.plan.tokens.max()) * self.gate.keys * self.copy_bytes

    @property
    def buffer(self) -> StaticBuffer:
        """The static buffer that every rank sets aside for this operator."""
        batch = int(self.plan.tokens.max())
        local = self.plan.local_experts
        return StaticBuffer(self.ranks, batch, self.gate.keys, local, self.copy_bytes)

    @property
    def peak_bytes(self) -> int:
        """Memory that `wrong` takes, about; for the choice between real bytes and size only."""
        from .real_payload import BLOCK_BYTES

        row = self.hidden * BF16_BYTES
        most = int(self.plan.tokens.max())
        if self.op == COMBINE:
            return max(BLOCK_BYTES, 2 * most * self.gate.keys * row)
        rows = int(self.plan.tokens.sum()) + int(self.plan.copies.sum(axis=0).max())
        return rows * (row if self.quant == "none" else self.hidden) + most * row

    def timing(self, transport: str | Transport = "auto", plane: str = "ub") -> FusedTiming:
        """Time it by one transport, or by the fastest of a plane.

        Parameters
        ----------
        transport : str or Transport
            A transport or its name; ``auto``: each one of the plane is tried, ties go to the first.
        plane : str
            The plane for ``auto``.

        Raises
        ------
        NoRoute
            If the fabric has no such transport or plane.
        """
        if isinstance(transport, Transport):
            return self._timed(transport)
        if transport != "auto":
            return self._timed(self.fabric.transport(transport))
        tried = [self._timed(choice) for choice in self.fabric.automatic_transports(plane)]
        times = ", ".join(f"{t.transport} {format_time(t.time_ps)}" for t in tried)
        best = min(tried, key=lambda timing: timing.time_ps)
        return replace(best, reason=f"least modelled time: {times}")

    def _timed(self, transport: Transport) -> FusedTiming:
        fused = self.fused
        stages: Fused | Unfused | Forwarded = fused
        if self.method == UNFUSED:
            stages = Unfused(fused, self.plan.local_experts, self.static)
        elif self.method == FORWARDED:
            stages = Forwarded(fused, self._node_copies())
        staged = stages.dispatch(transport) if self.op == DISPATCH else stages.combine(transport)
        return staged.timed(self.fabric, transport, fused.started)

    def _node_copies(self) -> Ints:
        """Return how many tokens each rank has for each node, each counted once."""
        nodes = len(np.unique(self.fabric.node_of[self.endpoints]))
        if self.layout != RANK or self.ranks % nodes:
            raise OptionError(
                f"two hops carry a token once to each node: give layout 'rank', not "
                f"{self.layout!r}, and a multiple of {nodes} ranks"
            )
        held = [
            rank_index(self.gate.of(rank, count)[0], self.ranks, nodes, rank)
            for rank, count in enumerate(self.plan.tokens.tolist())
        ]
        return np.array([np.bincount(h[h >= 0], minlength=nodes) for h in held])

    @property
    def fused(self) -> Fused:
        """The fused operators between these ranks."""
        return Fused(
            self.fabric,
            self.endpoints,
            self.plan.copies,
            self.plan.tokens,
            self.hidden,
            self.quant,
            self.model or model_of(self.fabric),
            self.start_ps,
            self.early,
        )

    def wrong(self, show: Callable[[float], None] | None = None) -> int:
        """Run it with real bytes, rank by rank; return how many elements came out wrong.

        Parameters
        ----------
        show : callable, optional
            Is told now and then which part is done, from 0 to 1.
        """
        from .real_payload import quiet, wrong_combine, wrong_dispatch

        shown, tokens = show or quiet, self.plan.tokens
        if self.op == COMBINE:
            return wrong_combine(self.gate, tokens, self.hidden, shown)
        return wrong_dispatch(self.gate, tokens, self.hidden, self.quant, shown)


def default_experts(ranks: int, replicas: int = 0) -> int:
    """Return 256 experts, or the next number above that fills the ranks together with replicas.

    >>> default_experts(32), default_experts(48), default_experts(320), default_experts(288, 32)
    (256, 288, 320, 256)
    """
    return ranks * -(-(EXPERTS + replicas) // ranks) - replicas


def replicated(routing: Routing, ranks: int, tokens: ArrayLike, replicas: int) -> Placement | None:
    """Place experts with replicas by the loads that a routing gives them; None without replicas.

    Raises
    ------
    OptionError
        If experts and replicas together are no multiple of the ranks.
    """
    if not replicas:
        return None
    each = np.broadcast_to(np.asarray(tokens, dtype=np.int64), ranks).tolist()
    loads = sum(routing.counts(rank, count) for rank, count in enumerate(each))
    return balanced_placement(loads, ranks, replicas)
