"""Published figures of dispatch and combine, and what the model says where nothing is printed.

All are modelled alike: 128 tokens a rank unless said otherwise, top-8, hidden 7168, balanced
routing, rank r on die r, the time of the last rank (P, section 4).
"""

from collections.abc import Callable, Iterator

from ubnet.collectives.expert_parallel import COMBINE, DISPATCH, ExpertParallel, default_experts
from ubnet.collectives.layout import StaticBuffer
from ubnet.collectives.quantise import bytes_per_copy
from ubnet.collectives.routing import Routing
from ubnet.fabric import Fabric
from ubnet.place import place_ranks

from .paper_figure import FITTED, PREDICTED, Figure

Load = Callable[..., Fabric]

CLOUDMATRIX = {DISPATCH: {8: 116, 32: 133, 256: 152}, COMBINE: {8: 118, 32: 146, 256: 149}}
DEEP_EP = {DISPATCH: {8: 163, 32: 182, 256: 194}, COMBINE: {8: 318, 32: 350, 256: 360}}
"""P, Table 7: microseconds by EP."""

BUFFERS = {"int8": 225, "none": 420}
"""P, section 4.2: MiB a die at EP320 with 96 tokens."""

PREDICTED_EP = (16, 64, 128, 144, 288, 320)
PREFILL_EP = (8, 16, 32, 64, 128)
TOKENS = (4, 8, 16, 32, 64, 96, 128)
SEED = 1


def moe_time_us(
    fabric: Fabric,
    op: str,
    ranks: int,
    transport: str,
    *,
    tokens: int = 128,
    quant: str = "int8",
    routing: str = "balanced",
) -> float:
    """Return the time of one operator in microseconds."""
    gate = Routing(routing, default_experts(ranks), seed=SEED)
    places = place_ranks(fabric, ranks)
    run = ExpertParallel(op, fabric, places, gate, tokens, quant=quant)
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
        yield Figure("moe", what, "MiB", published, ours, PREDICTED, "P section 4.2")
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
