"""``ubnet bench dispatch|combine|moe``: tokens to their experts and back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ubnet.cli.memory import moves_bytes
from ubnet.cli.notes import progress
from ubnet.cli.options import Way, choose_ways, fabric_options, output_options, payload_options
from ubnet.cli.results import Results
from ubnet.collectives.expert_parallel import COMBINE, DISPATCH, ExpertParallel, default_experts
from ubnet.collectives.quantise import QUANTS
from ubnet.collectives.routing import ROUTINGS, Routing
from ubnet.errors import OptionError
from ubnet.place import place_ranks
from ubnet.report.row import Row
from ubnet.report.table import legend


def _ep_sizes(context: click.Context, parameter: click.Parameter, value: str) -> list[int]:
    """Read ``8``, ``8,32`` or ``8:320``: doubling, the end included."""
    sizes: list[int] = []
    for part in value.split(","):
        ends = part.split(":")
        if len(ends) > 2 or not all(end.strip().isdigit() and int(end) for end in ends):
            raise OptionError(f"--ep {value}: give ranks, such as 32, 8,32 or 8:320 (doubling)")
        first, last = int(ends[0]), int(ends[-1])
        if first > last:
            raise OptionError(f"--ep {value}: {part} must grow, as in 8:320")
        doubled = [first << k for k in range((last // first).bit_length())]
        sizes += doubled if doubled[-1] == last else [*doubled, last]
    return sizes


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
        callback=_ep_sizes,
        metavar="RANKS",
        help="Ranks of expert parallelism: 32, a list, or 8:320 (doubling, the end included).",
    )
    @click.option("--ranks", hidden=True, expose_value=False, callback=_no_ranks)
    @click.option(
        "--experts", type=int, help="A multiple of --ep; default 256 or the next multiple above."
    )
    @click.option("--tokens", default=128, show_default=True, help="Of each rank.")
    @click.option("--topk", default=8, show_default=True, help="Experts of a token.")
    @click.option("--hidden", default=7168, show_default=True, help="Channels of a token.")
    @click.option("--quant", default="int8", show_default=True, help="|".join(QUANTS))
    @click.option("--routing", default="balanced", show_default=True, help="|".join(ROUTINGS))
    @click.option("--skew", type=float, help="The hottest expert gets so many times the mean.")
    @fabric_options
    @payload_options
    @output_options
    def bench(**options: Any) -> None:
        _bench(ops, **options)

    return bench


@dataclass(frozen=True, slots=True)
class Experts:
    """What is dispatched and combined; the options of ``ubnet bench moe``.

    Attributes
    ----------
    experts : int or None
        A multiple of the ranks; None = 256 or the next multiple above.
    tokens, topk, hidden : int
        Tokens of each rank, experts of each token, channels.
    quant, routing : str
        What dispatch sends, and who chooses the experts.
    skew : float or None
        The hottest expert over the mean.
    seed : int
        Of routing and tokens.
    """

    experts: int | None = None
    tokens: int = 128
    topk: int = 8
    hidden: int = 7168
    quant: str = "int8"
    routing: str = "balanced"
    skew: float | None = None
    seed: int = 1


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
    **way_options: Any,
) -> None:
    ways = choose_ways(**way_options, usual="aiv,sdma" if plot else "auto")
    layer = Experts(experts, tokens, topk, hidden, quant, routing, skew, seed)
    header = [
        f"fabric {ways[0].fabric.name}, {tokens} tokens a rank, hidden {hidden}, top-{topk}, "
        f"{quant} dispatch, bfloat16 combine, routing {routing}"
        + (f" with skew {skew:g}" if skew else "")
        + f", seed {seed}",
        *legend("(n-1)/n"),
    ]
    results = Results(header, as_json=as_json, plot=plot, where=ways[0].fabric.name)
    cases = [(op, way, ranks) for op in ops for way in ways for ranks in ep]
    for op, way, ranks in progress(cases, "bench", as_json=as_json):
        results.add(moe_row(way, op, layer, ranks, payload))
    results.close()


def moe_row(way: Way, op: str, layer: Experts, ranks: int, payload: str) -> Row:
    """Time one dispatch or combine, run it on real tokens and return its row.

    Parameters
    ----------
    way : Way
        Fabric, plane and transport.
    op : {"dispatch", "combine"}
        The operator.
    layer : Experts
        Tokens, experts and routing.
    ranks : int
        Ranks of expert parallelism, rank r on die r.
    payload : {"auto", "real", "size"}
        Whether bytes are moved and checked.
    """
    gate = Routing(
        layer.routing, layer.experts or default_experts(ranks), layer.topk, layer.skew, layer.seed
    )
    places = place_ranks(way.fabric, ranks)
    run = ExpertParallel(op, way.fabric, places, gate, layer.tokens, layer.hidden, layer.quant)
    timing = run.timing(way.transport, way.plane)
    real = moves_bytes(payload, run.peak_bytes, f"{op} on {ranks} ranks")
    return Row.timed(
        timing.time_ps,
        run.size_bytes,
        (ranks - 1) / ranks,
        op=op,
        case=f"ep{ranks}",
        algorithm="fused",
        transport=timing.transport,
        plane=timing.plane,
        ranks=ranks,
        wrong=run.wrong() if real else None,
        efficiency=timing.efficiency,
        busiest_link=timing.busiest,
        busiest_link_utilisation=timing.busiest_utilisation,
        count=layer.tokens * layer.topk * layer.hidden,
        dtype=layer.quant if op == DISPATCH and layer.quant != "none" else "bfloat16",
        redop="sum" if op == COMBINE else "none",
    )
