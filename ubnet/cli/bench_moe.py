"""``ubnet bench dispatch|combine|moe``: tokens to their experts and back."""

from pathlib import Path
from typing import Any

import click

from ubnet.cli.expert_rows import Experts, row_of
from ubnet.cli.notes import progress
from ubnet.cli.options import choose_ways, fabric_options, output_options, payload_options
from ubnet.cli.rank_counts import read_rank_counts
from ubnet.cli.results import Results
from ubnet.collectives.expert_parallel import (
    COMBINE,
    DISPATCH,
    METHODS,
    ExpertParallel,
)
from ubnet.collectives.gate import EXPERT, LAYOUTS
from ubnet.collectives.quantise import QUANTS
from ubnet.collectives.routing import ROUTINGS
from ubnet.collectives.staged import FusedTiming
from ubnet.errors import OptionError
from ubnet.report.table import legend
from ubnet.units import format_time, parse_time


def _no_ranks(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise OptionError(f"--ranks {value}: here --ep sets the ranks, as in --ep {value}")


def command(name: str) -> click.Command:
    """Return the subcommand ``dispatch``, ``combine`` or ``moe``."""
    ops = [DISPATCH, COMBINE] if name == "moe" else [name]
    moves = {
        DISPATCH: "Send every rank's tokens to the ranks of their experts",
        COMBINE: "Bring the experts' results back and sum them by weight",
    }

    @click.command(
        name,
        help=". ".join(moves[op] for op in ops)
        + ": the fused operators of CloudMatrix384, run with real routing and real tokens. "
        "S is tokens x topk x bytes of one copy, per rank, copies to itself included; "
        "busbw = algbw x (n-1)/n.",
    )
    @click.option(
        "--ep",
        default="8:256",
        show_default=True,
        callback=lambda ctx, param, value: read_rank_counts("--ep", value),
        metavar="RANKS",
        help="Ranks of expert parallelism: 32, a list, or 8:320 (doubling, the end included).",
    )
    @click.option("--ranks", hidden=True, expose_value=False, callback=_no_ranks)
    @click.option(
        "--experts",
        type=click.IntRange(1),
        help="A multiple of --ep; default 256 or the next multiple above.",
    )
    @click.option(
        "--tokens", type=click.IntRange(0), default=128, show_default=True, help="Of each rank."
    )
    @click.option("--topk", default=8, show_default=True, help="Experts of a token.")
    @click.option(
        "--hidden",
        type=click.IntRange(1, 2**20),
        default=7168,
        show_default=True,
        help="Channels of a token.",
    )
    @click.option("--quant", default="int8", show_default=True, help="|".join(QUANTS))
    @click.option("--layout", default="expert", show_default=True, help="|".join(LAYOUTS))
    @click.option("--algo", default="fused", show_default=True, help="|".join(METHODS))
    @click.option("--routing", default="balanced", show_default=True, help="|".join(ROUTINGS))
    @click.option("--skew", type=float, help="The hottest expert gets so many times the mean.")
    @click.option(
        "--replicas",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Slots for replicas of experts, placed by their loads (EPLB).",
    )
    @click.option(
        "--uneven",
        default=0.0,
        show_default=True,
        metavar="PART",
        help="Ranks have up to this part more or fewer tokens, drawn by the seed.",
    )
    @click.option(
        "--late",
        default="0us",
        show_default=True,
        metavar="TIME",
        callback=lambda ctx, param, value: parse_time(value),
        help="Ranks call up to so much later than the first, drawn by the seed.",
    )
    @click.option(
        "--detail", is_flag=True, help="Also bytes and times by rank, by peer and by expert."
    )
    @fabric_options
    @payload_options
    @output_options
    def bench(**options: Any) -> None:
        _bench(ops, **options)

    return bench


def _bench(
    ops: list[str],
    *,
    ep: list[int],
    payload: str,
    as_json: bool,
    plot: Path | None,
    experts: int | None,
    tokens: int,
    topk: int,
    hidden: int,
    quant: str,
    routing: str,
    skew: float | None,
    seed: int,
    layout: str,
    algo: str,
    replicas: int,
    uneven: float,
    late: int,
    detail: bool,
    **way_options: Any,
) -> None:
    ways = choose_ways(**way_options, usual="aiv,sdma" if plot else "auto")
    layer = Experts(
        experts,
        tokens,
        topk,
        hidden,
        quant,
        routing,
        skew,
        seed,
        layout,
        algo,
        replicas,
        uneven,
        late,
    )
    held = {ranks: layer.experts_on(ranks) for ranks in ep}
    alike = len(set(held.values())) == 1
    counts = str(held[ep[0]]) if alike else "/".join(str(held[ranks]) for ranks in ep)
    header = [
        f"fabric {ways[0].fabric.name}, {tokens} tokens a rank, hidden {hidden}, top-{topk} of "
        f"{counts} experts, "
        f"{quant} dispatch, bfloat16 combine, routing {routing}"
        + (f" with skew {skew:g}" if skew else "")
        + (f", {replicas} replicas" if replicas else "")
        + (f", token counts uneven by {uneven:g}" if uneven else "")
        + (f", late by up to {format_time(late)}" if late else "")
        + (f", layout {layout}" if layout != EXPERT else "")
        + f", seed {seed}",
        *legend("(n-1)/n"),
    ]
    results = Results(
        header, as_json=as_json, plot=plot, where=ways[0].fabric.name, fabric=ways[0].fabric
    )
    cases = [(op, way, ranks) for op in ops for way in ways for ranks in ep]
    runs: list[tuple[str, ExpertParallel, FusedTiming]] = []
    for op, way, ranks in progress(cases, "bench", as_json=as_json):
        if payload == "real":
            layer.check_payload(op, ranks)
        run = layer.run(way, op, ranks)
        timing = run.timing(way.transport, way.plane)
        results.add(row_of(run, timing, payload))
        runs.append((f"{op} ep{ranks} by {timing.transport}", run, timing))
    results.close()
    if detail and not as_json:
        from ubnet.cli.moe_detail import print_details

        print_details(runs)
