"""Published figures of the memory pool and of model loading beside the model's."""

from collections.abc import Callable, Iterator

from ubnet.fabric import Fabric
from ubnet.kv import Carrier, Deployment, burst, dispatch_beside_kv, find_model
from ubnet.pool import MemoryPool
from ubnet.pool.loading_table import FITTED as FITTED_CELLS
from ubnet.pool.loading_table import PUBLISHED, loading_figures

from .paper_figure import FITTED, FOLLOWS, PREDICTED, Figure

Load = Callable[..., Fabric]

CELLS = {
    "cold_s": ("cold start", "s", 1.0),
    "warm_s": ("warm start", "s", 1.0),
    "dram_models": ("DRAM", "models", 1.0),
    "hit_rate": ("hit rate on switches", "%", 100.0),
    "switch_s": ("mean switch", "s", 1.0),
}
NAMES = {"none": "no cache", "local": "local DRAM", "pool": "EMS"}


def loading_rows(load: Load) -> Iterator[Figure]:
    """Yield the table of model loading, cell by cell."""
    fabric = load("cloudmatrix384")
    for cache, published in PUBLISHED.items():
        ours = loading_figures(fabric, cache)
        for cell, (what, unit, scale) in CELLS.items():
            printed, value = getattr(published, cell), getattr(ours, cell)
            if printed is None:
                continue
            yield Figure(
                "loading",
                f"671 GB, 8 instances, {NAMES[cache]}: {what}",
                unit,
                printed * scale,
                value * scale,
                FITTED if (cache, cell) in FITTED_CELLS else FOLLOWS,
                "P, section 6",
            )


def pool_rows(load: Load) -> Iterator[Figure]:
    """Yield what is predicted of the pool, of the mapping of sources and of the planes."""
    fabric, model = load("cloudmatrix384"), find_model("deepseek-r1")
    for tokens in (128, 512):
        times = [_read_us(fabric, way, model.prompt_bytes(tokens)) for way in ("sdma", "vpc")]
        yield _prediction(f"hit to HBM, {tokens} tokens over UB", "us", times[0])
        yield _prediction(f"{tokens} tokens: VPC / UB", "", times[1] / times[0])
    spread, first = (Deployment(fabric, mapping=mapping) for mapping in ("spread", "first"))
    yield _prediction("320 prompts, TP32 to DP320, mapped", "ms", burst(spread).time_ps / 1e9)
    yield _prediction("320 prompts from one source", "ms", burst(first).time_ps / 1e9)
    alone, rdma, ub = (
        dispatch_beside_kv(spread, transport=way, sharing="fifo").time_ps / 1e6
        for way in (None, "roce", "sdma")
    )
    yield _prediction("decode dispatch EP 320, 96 tokens, alone", "us", alone)
    yield _prediction("the same beside KV on RDMA", "us", rdma)
    yield _prediction("the same beside KV on UB", "us", ub)


def _prediction(what: str, unit: str, ours: float) -> Figure:
    return Figure("pool", what, unit, None, ours, PREDICTED)


def _read_us(fabric: Fabric, way: str, nbytes: int) -> float:
    """Return what one read of a block takes, its lookup included."""
    pool = MemoryPool(Carrier(fabric), transport=way)
    pool.create_namespace("paper", "paper")
    client = pool.client("paper", 0)
    pool.wait(client.put("paper", b"block", nbytes))
    got = client.get("paper", b"block")
    pool.wait(got)
    return got.time_ps / 1e6
