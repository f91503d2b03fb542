"""Published figures of dispatch and combine, and what the model says where nothing is printed.

All are modelled alike: 128 tokens a rank unless said otherwise, top-8, hidden 7168, balanced
routing, rank r on die r, the time of the last rank (P, section 4).
"""

from collections.abc import Callable, Iterator
from typing import Any

from ubnet.collectives.expert_parallel import (
    COMBINE,
    DISPATCH,
    FORWARDED,
    ExpertParallel,
    default_experts,
    replicated,
)
from ubnet.collectives.gate import RANK
from ubnet.collectives.layout import StaticBuffer
from ubnet.collectives.quantise import bytes_per_copy
from ubnet.collectives.routing import Routing
from ubnet.fabric import Fabric
from ubnet.place import place_ranks

from .paper_figure import FITTED, FOLLOWS, PREDICTED, Figure

Load = Callable[..., Fabric]

CLOUDMATRIX = {DISPATCH: {8: 116, 32: 133, 256: 152}, COMBINE: {8: 118, 32: 146, 256: 149}}
DEEP_EP = {DISPATCH: {8: 163, 32: 182, 256: 194}, COMBINE: {8: 318, 32: 350, 256: 360}}
"""P, Table 7: microseconds by EP."""

BUFFERS = {"int8": 225, "none": 420}
"""P, section 4.2: MiB a die at EP320 with 96 tokens."""

PREDICTED_EP = (16, 64, 128, 144, 288, 320)
PREFILL_EP = (8, 16, 32, 64, 128)
TOKENS = (4, 8, 16, 32, 64, 96, 128)
NORMAL_EP = (8, 16, 32, 64)
SKEWED_EP = (8, 16, 32)
"""Ranks that 256 experts fill alike with 32 replicas and without them."""
HOTTEST, REPLICAS = 30, 32
"""X: the hottest expert can get 30 times the mean."""
SEED = 1


def moe_time_us(
    fabric: Fabric,
    op: str,
    ranks: int,
    transport: str,
    *,
    tokens: int = 128,
    routing: str = "balanced",
    skew: float | None = None,
    replicas: int = 0,
    **options: Any,
) -> float:
    """Return the time of one operator in microseconds; `options` are `ExpertParallel`'s."""
    gate = Routing(routing, default_experts(ranks, replicas), skew=skew, seed=SEED)
    places = place_ranks(fabric, ranks)
    placement = replicated(gate, ranks, tokens, replicas)
    run = ExpertParallel(op, fabric, places, gate, tokens, placement=placement, **options)
    return run.timing(transport).time_ps / 1e6


def moe_rows(load: Load) -> Iterator[Figure]:
    """Yield CloudMatrix's rows of Table 7, the static buffers, and random routing beside."""
    fabric = load("cloudmatrix384")
    for op, rows in CLOUDMATRIX.items():
        for ranks, published in rows.items():
            ours = moe_time_us(fabric, op, ranks, "aiv")
            yield Figure("moe", f"{op} EP {ranks}", "us", published, ours, FITTED, "P Table 7")
    for quant, published in BUFFERS.items():
        buffer = StaticBuffer(320, 96, 8, 1, bytes_per_copy(7168, quant))
        what = f"{'dispatch' if quant == 'int8' else 'combine'} buffer, EP 320, 96 tokens"
        ours = buffer.nbytes / (1 << 20)
        yield Figure("moe", what, "MiB", published, ours, FOLLOWS, "P section 4.2")
    for op, rows in CLOUDMATRIX.items():
        for ranks in rows:
            ours = moe_time_us(fabric, op, ranks, "aiv", routing="uniform")
            what = f"{op} EP {ranks}, random routing, seed {SEED}"
            yield Figure("moe", what, "us", None, ours, PREDICTED)


def h800_rows(load: Load) -> Iterator[Figure]:
    """Yield DeepEP's rows of Table 7, and the newer kernel with NVLink inside a node."""
    fabric = load("h800")
    for op, rows in DEEP_EP.items():
        for ranks, published in rows.items():
            ours = moe_time_us(fabric, op, ranks, "ibgda", quant="fp8")
            what = f"{op} EP {ranks}, cards even inside a node"
            yield Figure("h800", what, "us", published, ours, FITTED, "P Table 7")
    for op, rows in DEEP_EP.items():
        for ranks in rows:
            ours = moe_time_us(fabric, op, ranks, "nvlink", quant="fp8")
            what = f"{op} EP {ranks}, NVLink inside a node"
            yield Figure("h800", what, "us", None, ours, PREDICTED)
    for op in DEEP_EP:
        for ranks in NORMAL_EP:
            options: dict[str, Any] = {
                "tokens": 4096,
                "quant": "fp8",
                "layout": RANK,
                "method": FORWARDED,
            }
            ours = moe_time_us(fabric, op, ranks, "nvlink", **options)
            what = f"{op} EP {ranks}, normal kernel (two hops), 4096 tokens"
            yield Figure("h800", what, "us", None, ours, PREDICTED)


def skew_rows(load: Load) -> Iterator[Figure]:
    """Yield what the hottest expert at 30 times the mean costs, and what replicas recover."""
    fabric = load("cloudmatrix384")
    for op in (DISPATCH, COMBINE):
        for ranks in SKEWED_EP:
            even, hot, eplb = (
                moe_time_us(fabric, op, ranks, "aiv", skew=skew, replicas=replicas)
                for skew, replicas in ((None, 0), (HOTTEST, 0), (HOTTEST, REPLICAS))
            )
            what = f"{op} EP {ranks}"
            for name, ours in (
                ("all experts alike", even),
                (f"hottest expert {HOTTEST}x the mean", hot),
                (f"the same with {REPLICAS} replicas by EPLB", eplb),
            ):
                yield Figure("skew", f"{what}, {name}", "us", None, ours, PREDICTED)
            recovered = 100 * (hot - eplb) / (hot - even)
            yield Figure("skew", f"{what}, recovered", "%", None, recovered, PREDICTED)


def moe_predictions(load: Load) -> Iterator[Figure]:
    """Yield dispatch and combine where nothing was fitted: other EP, 4,096 tokens, few tokens."""
    fabric = load("cloudmatrix384")
    cases = [(ranks, 128) for ranks in PREDICTED_EP]
    cases += [(ranks, 4096) for ranks in PREFILL_EP]
    cases += [(128, tokens) for tokens in TOKENS]
    for op in (DISPATCH, COMBINE):
        for ranks, tokens in cases:
            ours = moe_time_us(fabric, op, ranks, "aiv", tokens=tokens)
            what = f"{op} EP {ranks}, {tokens} tokens"
            yield Figure("predictions", what, "us", None, ours, PREDICTED)
