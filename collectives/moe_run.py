"""One dispatch or combine of all ranks by plain arguments: timed, and run with real bytes."""

from dataclasses import dataclass

from ubnet.fabric import Fabric, Ints

from .expert_parallel import FUSED, ExpertParallel, default_experts, replicated
from .gate import EXPERT
from .routing import Routing
from .staged import FusedTiming


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
    layout: str = EXPERT,
    replicas: int = 0,
    method: str = FUSED,
    transport: str = "auto",
    plane: str = "ub",
    real: bool = True,
    seed: int = 0,
) -> MoeResult:
    """Run one dispatch or combine of all ranks and time it; see `ExpertParallel` and `Routing`.

    Parameters
    ----------
    experts : int, optional
        A multiple of the ranks, replicas counted; default: `default_experts`.
    replicas : int
        Slots for replicas of experts, placed by their loads; see `replicated`.
    real : bool
        Move and check real bytes; False: by size only.
    """
    if experts is None:
        experts = default_experts(len(endpoints), replicas)
    gate = Routing(routing, experts, topk, skew, seed)
    placement = replicated(gate, len(endpoints), tokens, replicas)
    run = ExpertParallel(
        op,
        fabric,
        endpoints,
        gate,
        tokens,
        hidden,
        quant,
        layout=layout,
        placement=placement,
        method=method,
    )
    timing = run.timing(transport, plane)
    wrong = run.wrong() if real else None
    return MoeResult(op, method, run.size_bytes, timing, wrong, run.plan.hottest)
