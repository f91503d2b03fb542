"""One dispatch or combine of all ranks, run with real bytes and timed: what a bench calls."""

from dataclasses import dataclass, field, replace

from ubnet.errors import NoRoute, OptionError, did_you_mean
from ubnet.fabric import Fabric, Ints
from ubnet.transport import Transport
from ubnet.units import format_time

from .fused import Fused, FusedTiming
from .fused_model import CLOUDMATRIX, FusedModel
from .quantise import BF16_BYTES, bytes_per_copy
from .routing import Routing
from .token_plan import TokenPlan, check_experts, token_plan

DISPATCH, COMBINE = "dispatch", "combine"
OPS = (DISPATCH, COMBINE)
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
    tokens, hidden : int
        Tokens of each rank, and their channels.
    quant : {"int8", "none"}
        What a dispatch sends; a combine sends bfloat16.
    model : FusedModel
        The constants of the fused operators.
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
    tokens: int = 128
    hidden: int = 7168
    quant: str = "int8"
    model: FusedModel = CLOUDMATRIX
    plan: TokenPlan = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise OptionError(f"no operator {self.op!r}; {did_you_mean(self.op, OPS)}")
        if self.tokens < 0 or self.hidden < 1:
            raise OptionError(
                f"{self.tokens} tokens of hidden {self.hidden}: give tokens of 0 or more and "
                "hidden of 1 or more"
            )
        bytes_per_copy(self.hidden, self.quant)
        check_experts(self.routing.experts, self.ranks)
        counts = [self.routing.counts(rank, self.tokens) for rank in range(self.ranks)]
        plan = token_plan(counts, [self.tokens] * self.ranks, self.routing.topk)
        object.__setattr__(self, "plan", plan)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.endpoints)

    @property
    def copy_bytes(self) -> int:
        """Bytes of one token copy of this operator."""
        return bytes_per_copy(self.hidden, self.quant if self.op == DISPATCH else "none")

    @property
    def size_bytes(self) -> int:
        """Bytes that a rank sends, copies to itself included: tokens x topk x bytes of a copy."""
        return self.tokens * self.routing.topk * self.copy_bytes

    @property
    def peak_bytes(self) -> int:
        """Memory that `wrong` takes, about; for the choice between real bytes and size only."""
        from .real_payload import BLOCK_BYTES

        row = self.hidden * BF16_BYTES
        if self.op == COMBINE:
            return max(BLOCK_BYTES, 2 * self.tokens * self.routing.topk * row)
        rows = self.ranks * self.tokens + int(self.plan.copies.sum(axis=0).max())
        return rows * (self.hidden if self.quant == "int8" else row) + self.tokens * row

    def timing(self, transport: str = "auto", plane: str = "ub") -> FusedTiming:
        """Time it by one transport, or by the fastest of a plane.

        Parameters
        ----------
        transport : str
            Its name, or ``auto``: each one of the plane is tried, ties go to the first.
        plane : str
            The plane for ``auto``.

        Raises
        ------
        NoRoute
            If the fabric has no such transport or plane.
        """
        fused = Fused(
            self.fabric,
            self.endpoints,
            self.plan.copies,
            self.plan.tokens,
            self.hidden,
            self.quant,
            self.model,
        )
        run = fused.dispatch if self.op == DISPATCH else fused.combine
        if transport != "auto":
            return run(self.fabric.transport(transport))
        tried = [run(choice) for choice in self._choices(plane)]
        times = ", ".join(f"{t.transport} {format_time(t.time_ps)}" for t in tried)
        best = min(tried, key=lambda timing: timing.time_ps)
        return replace(best, reason=f"least modelled time: {times}")

    def wrong(self) -> int:
        """Run it with real bytes, rank by rank; return how many elements came out wrong."""
        from .real_payload import wrong_combine, wrong_dispatch

        if self.op == COMBINE:
            return wrong_combine(self.routing, self.ranks, self.tokens, self.hidden)
        return wrong_dispatch(self.routing, self.ranks, self.tokens, self.hidden, self.quant)

    def _choices(self, plane: str) -> list[Transport]:
        self.fabric.plane(plane)
        found = [t for t in self.fabric.transports.values() if t.plane == plane]
        if not found:
            raise NoRoute(f"fabric {self.fabric.name} has no transport on plane {plane!r}")
        return found


def default_experts(ranks: int) -> int:
    """Return 256 experts, or the next multiple of the ranks above.

    >>> default_experts(32), default_experts(48), default_experts(320)
    (256, 288, 320)
    """
    return ranks * -(-EXPERTS // ranks)


@dataclass(frozen=True, eq=False)
class MoeResult:
    """What one run gives a table.

    Attributes
    ----------
    op, algorithm : str
        The operator, and how it was done.
    size_bytes : int
        tokens x topk x bytes of one copy, per rank, own copies included.
    timing : FusedTiming
        Times and loads.
    wrong : int or None
        Elements that came out wrong; None by size only.
    hottest : float
        Copies of the hottest expert over the mean.
    """

    op: str
    algorithm: str
    size_bytes: int
    timing: FusedTiming
    wrong: int | None
    hottest: float


def run_moe(
    op: str,
    fabric: Fabric,
    endpoints: Ints,
    *,
    experts: int | None = None,
    tokens: int = 128,
    topk: int = 8,
    hidden: int = 7168,
    quant: str = "int8",
    routing: str = "balanced",
    skew: float | None = None,
    transport: str = "auto",
    plane: str = "ub",
    real: bool = True,
    seed: int = 0,
) -> MoeResult:
    """Run one dispatch or combine of all ranks and time it; see `ExpertParallel` and `Routing`.

    Parameters
    ----------
    experts : int, optional
        A multiple of the ranks; default: `default_experts`.
    real : bool
        Move and check real bytes; False: by size only.
    """
    gate = Routing(routing, experts or default_experts(len(endpoints)), topk, skew, seed)
    run = ExpertParallel(op, fabric, endpoints, gate, tokens, hidden, quant)
    timing = run.timing(transport, plane)
    wrong = run.wrong() if real else None
    return MoeResult(op, "fused", run.size_bytes, timing, wrong, run.plan.hottest)
