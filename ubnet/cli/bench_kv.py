"""``ubnet bench kv``: the KV cache of a prompt from a prefill die to a decode die."""

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from ubnet.cli.latency_row import LatencyResults, LatencyRow
from ubnet.cli.memory import moves_bytes
from ubnet.cli.options import Way, choose_ways, fabric_options, output_options, payload_options
from ubnet.cli.pairs import find_pair
from ubnet.errors import OptionError
from ubnet.idle_time import choose_transport
from ubnet.kv import MODELS, find_model, transfer_prompt
from ubnet.report.row import Row
from ubnet.transport import WRITE
from ubnet.units import PS_PER_US


def _token_counts(context: click.Context, parameter: click.Parameter, value: str) -> list[int]:
    counts = value.split(",")
    if not all(c.strip().isdecimal() and int(c) for c in counts):
        raise OptionError(f"--tokens {value}: give whole numbers above 0, such as 4096 or 512,4096")
    return [int(c) for c in counts]


@click.command("kv")
@click.option(
    "--tokens",
    default="4096",
    show_default=True,
    callback=_token_counts,
    help="Length of the prompt; a list for several rows.",
)
@click.option(
    "--model",
    default="deepseek-r1",
    show_default=True,
    help=f"Whose cache: {', '.join(MODELS)}.",
)
@click.option(
    "--pair",
    default="far",
    show_default=True,
    metavar="PAIR",
    help="From prefill to decode: SRC:DST, or as for `ubnet bench p2p`.",
)
@click.option("--op", type=click.Choice(["write", "read"]), default="write", show_default=True)
@click.option(
    "--page-tokens", type=click.IntRange(1), default=16, show_default=True, help="Of one page."
)
@click.option(
    "--scattered",
    is_flag=True,
    help="Pages anywhere in both caches: every page of every layer is a message.",
)
@fabric_options
@payload_options
@output_options
def kv(
    tokens: list[int],
    model: str,
    pair: str,
    op: str,
    page_tokens: int,
    scattered: bool,
    payload: str,
    seed: int,
    as_json: bool,
    plot: Path | None,
    **way_options: Any,
) -> None:
    """Move the KV cache of a prompt from prefill to decode and check every byte.

    One page of one layer is a block of the list that is sent; neighbouring blocks are one message.
    By default by RoCE over the RDMA plane.
    """
    ways = choose_ways(**way_options, usual="roce")
    each = find_model(model)
    prompt = Prompt(model, pair, op, page_tokens, scattered, seed)
    header = [
        f"fabric {ways[0].fabric.name}, {model}: {each.bytes_per_token:,} B a token, "
        f"pages of {page_tokens} tokens, seed {seed}",
    ]
    results = LatencyResults(
        header, as_json=as_json, plot=plot, where=ways[0].fabric.name, fabric=ways[0].fabric
    )
    for count in tokens:
        layer = partial(int, 2 * each.bytes_per_layer * count)
        need = 2 * each.prompt_bytes(count)
        real = moves_bytes(payload, need, f"kv of {count} tokens", least=layer)
        for way in ways:
            results.add(kv_row(way, prompt, count, real=real))
    results.close()


@dataclass(frozen=True, slots=True)
class Prompt:
    """How the caches of a prompt lie and where they go; the options of ``ubnet bench kv``."""

    model: str = "deepseek-r1"
    pair: str = "far"
    op: str = WRITE
    page_tokens: int = 16
    scattered: bool = False
    seed: int = 1


class PromptRow(LatencyRow):
    """A row whose line of JSON has the fields of every bench and no more."""

    __slots__ = ()

    def record(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        whole = LatencyRow.record(self)
        return {f.name: whole[f.name] for f in fields(Row) if f.name in whole}


def kv_row(way: Way, prompt: Prompt, tokens: int, *, real: bool) -> PromptRow:
    """Move the cache of one prompt and return its row.

    Parameters
    ----------
    way : Way
        Fabric, plane and transport.
    prompt : Prompt
        Model, pages and ends.
    tokens : int
        Length of the prompt.
    real : bool
        Move and check real bytes, or take the time alone.
    """
    fabric = way.fabric
    src, dst = find_pair(fabric, prompt.pair)
    nbytes = find_model(prompt.model).prompt_bytes(tokens)
    chosen = fabric.transports.get(way.transport)
    if chosen is None:
        chosen, _ = choose_transport(fabric, src, dst, nbytes, prompt.op, way.plane)
    result = transfer_prompt(
        fabric,
        model=prompt.model,
        tokens=tokens,
        src=src,
        dst=dst,
        transport=chosen,
        op=prompt.op,
        page_tokens=prompt.page_tokens,
        scattered=prompt.scattered,
        payload=real,
        seed=prompt.seed,
    )
    time_us = result.time_ps / PS_PER_US
    post_us = result.messages * chosen.post_ps / PS_PER_US
    return PromptRow.timed(
        result.time_ps,
        result.nbytes,
        op="kv",
        case=f"{tokens} tokens",
        transport=result.transport,
        plane=result.plane,
        ranks=2,
        wrong=result.wrong,
        efficiency=result.load.efficiency,
        busiest_link=result.load.busiest,
        busiest_link_utilisation=result.load.utilisation,
        count=result.nbytes,
        dtype="uint8",
        block_bytes=prompt.page_tokens * find_model(prompt.model).bytes_per_layer,
        batch=result.blocks,
        latency_avg_us=time_us,
        latency_p99_us=time_us,
        prepare_us=0.0,
        post_us=post_us,
        transfer_us=time_us - post_us,
    )
