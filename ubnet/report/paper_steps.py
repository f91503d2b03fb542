"""What each step of the published design gains, and where AIV-Direct beats SDMA by how much.

The steps, from the plain form on: quantising before sending, AIV-Direct instead of SDMA, static
buffers, fusion. Nothing of it is published as a figure; the press speaks of a cut of over 70 % for
fine-grained transfers by AIV-Direct.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ubnet.collectives.expert_parallel import (
    COMBINE,
    DISPATCH,
    FUSED,
    UNFUSED,
    ExpertParallel,
    default_experts,
)
from ubnet.collectives.routing import Routing
from ubnet.fabric import NODE, Fabric
from ubnet.idle_time import idle_times
from ubnet.place import place_ranks
from ubnet.transport import Transport
from ubnet.units import format_size

from .paper_figure import PREDICTED, Figure

Load = Callable[..., Fabric]

RANKS = 32
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128)
SIZES = (512, 7680, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20)
"""Bytes of single transfers: P's 512, a token, and up to where start-ups no longer count."""

STEPS = (
    ("SDMA, unfused, bfloat16 sent", "sdma", {"method": UNFUSED, "early": False, "static": False}),
    ("+ quantised before sending", "sdma", {"method": UNFUSED, "static": False}),
    ("+ AIV-Direct", "aiv", {"method": UNFUSED, "static": False}),
    ("+ static buffers", "aiv", {"method": UNFUSED}),
    ("+ fused", "aiv", {"method": FUSED}),
)
"""Name, transport and options of each step, from the plain form to the published design."""


def step_rows(load: Load) -> Iterator[Figure]:
    """Yield the steps of the design, then AIV-Direct against SDMA."""
    fabric = load("cloudmatrix384")
    for op in (DISPATCH, COMBINE):
        for tokens in (8, 128):
            last = 0.0
            for name, transport, options in STEPS:
                ours = _run(fabric, op, tokens, **options).timing(transport).time_ps / 1e6
                if ours == last:
                    continue  # a combine sends bfloat16 and knows its counts from the dispatch
                last = ours
                what = f"{op} EP {RANKS}, {tokens} tokens: {name}"
                yield Figure("steps", what, "us", None, ours, PREDICTED)
    for tokens in TOKENS:
        yield from _against_sdma(fabric, tokens)
    yield from _single_transfers(fabric)


def _run(fabric: Fabric, op: str, tokens: int, **options: bool | str) -> ExpertParallel:
    gate = Routing("balanced", default_experts(RANKS))
    return ExpertParallel(op, fabric, place_ranks(fabric, RANKS), gate, tokens, **options)  # type: ignore[arg-type]


def _against_sdma(fabric: Fabric, tokens: int) -> Iterator[Figure]:
    """Yield SDMA over AIV-Direct for a dispatch, and how much of the difference is start-up."""
    run = _run(fabric, DISPATCH, tokens)
    aiv, sdma = fabric.transport("aiv"), fabric.transport("sdma")
    times = [run.timing(t).time_ps for t in (aiv, sdma, quick_start(sdma, aiv))]
    what = f"dispatch EP {RANKS}, {tokens} tokens"
    yield Figure("steps", f"{what}: SDMA / AIV-Direct", "x", None, times[1] / times[0], PREDICTED)
    share = 100 * (times[1] - times[2]) / (times[1] - times[0])
    yield Figure("steps", f"{what}: of it start-up", "%", None, share, PREDICTED)


def quick_start(slow: Transport, quick: Transport) -> Transport:
    """Return a transport with the start-up of another."""
    return replace(slow, startup_ps=quick.startup_ps, package_startup_ps=quick.package_startup_ps)


def _single_transfers(fabric: Fabric) -> Iterator[Figure]:
    """Yield by how much AIV-Direct cuts the time of one write inside a node."""
    dies = fabric.of_kind("die")
    near = int(dies[fabric.distance(np.zeros(len(dies), int), dies) == NODE][0])
    sizes = list(SIZES)
    src, dst = [0] * len(sizes), [near] * len(sizes)
    aiv, sdma = (
        idle_times(fabric, fabric.transport(name), src, dst, sizes) for name in ("aiv", "sdma")
    )
    for size, cut in zip(sizes, 100 * (1 - aiv / sdma), strict=True):
        what = f"a write of {format_size(size)}: cut by AIV-Direct (press: over 70 %)"
        yield Figure("steps", what, "%", None, float(cut), PREDICTED)
