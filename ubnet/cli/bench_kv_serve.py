"""``ubnet bench kv-serve``: many requests from prefill to decode, with queues and hot spots."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from ubnet.cli.options import NamesOptions, Way, choose_ways, fabric_options, output_options
from ubnet.cli.results import Results
from ubnet.errors import OptionError
from ubnet.kv import MODELS, Deployment, Requests, ServingReport, find_model, poisson_requests
from ubnet.kv import serve as serve_requests
from ubnet.kv.deployment import MAPPINGS
from ubnet.kv.serving import STREAMING
from ubnet.kv.serving_report import SourceLoad
from ubnet.report.bars import Bars, plot_bars
from ubnet.report.row import Row
from ubnet.report.table import Column, figure, open_console, print_columns, print_lines

LEGEND = (
    "queue: waiting for prefill and for a place to decode; transfer: from computed to arrived",
    "total: from arrival to the first step of decode; times are virtual; p99 of all requests",
    "hot source: the prefill rank that sent most, and the part of the time its card was in use",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRow(Row):
    """What requests took, in microseconds of virtual time."""

    requests: int
    queue_avg_us: float
    queue_p99_us: float
    transfer_avg_us: float
    transfer_p99_us: float
    total_avg_us: float
    total_p99_us: float
    hot_source: str
    hot_busy: float
    even_busy: float


COLUMNS = (
    Column[ServingRow]("# mapping, streaming", "#", lambda r: r.case, True),
    Column[ServingRow]("transport", "", lambda r: r.transport, True),
    Column[ServingRow]("requests", "", lambda r: str(r.requests)),
    Column[ServingRow]("queue", "(us)", lambda r: figure(r.queue_avg_us)),
    Column[ServingRow]("p99", "(us)", lambda r: figure(r.queue_p99_us)),
    Column[ServingRow]("transfer", "(us)", lambda r: figure(r.transfer_avg_us)),
    Column[ServingRow]("p99", "(us)", lambda r: figure(r.transfer_p99_us)),
    Column[ServingRow]("total", "(us)", lambda r: figure(r.total_avg_us)),
    Column[ServingRow]("p99", "(us)", lambda r: figure(r.total_p99_us)),
    Column[ServingRow]("hot source", "", lambda r: r.hot_source, True),
    Column[ServingRow]("busy", "(%)", lambda r: f"{100 * r.hot_busy:.1f}"),
    Column[ServingRow]("mean", "(%)", lambda r: f"{100 * r.even_busy:.1f}"),
)

SOURCES = (
    Column[SourceLoad]("# source", "#", lambda s: s.name, True),
    Column[SourceLoad]("transfers", "", lambda s: str(s.transfers)),
    Column[SourceLoad]("bytes", "(GB)", lambda s: f"{s.nbytes / 1e9:.2f}"),
    Column[SourceLoad]("busy", "(%)", lambda s: f"{100 * s.busy:.2f}"),
    Column[SourceLoad]("mean", "(us)", lambda s: figure(s.mean_us)),
    Column[SourceLoad]("p99", "(us)", lambda s: figure(s.p99_us)),
)


def _among(allowed: tuple[str, ...]) -> Any:
    def read(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
        wrong = [word for word in value.split(",") if word not in allowed]
        if wrong:
            raise OptionError(
                f"--{parameter.name} {value}: {wrong[0]!r} is none of {', '.join(allowed)}"
            )
        return value.split(",")

    return read


@click.command("kv-serve", cls=NamesOptions)
@click.option("--requests", "count", type=click.IntRange(1), default=10_000, show_default=True)
@click.option("--rate", type=float, default=60.0, show_default=True, help="Requests a second.")
@click.option("--mean-prompt", type=click.IntRange(1), default=4096, show_default=True)
@click.option("--mean-answer", type=click.IntRange(1), default=512, show_default=True)
@click.option(
    "--mapping",
    default="spread,first",
    show_default=True,
    callback=_among(MAPPINGS),
    help="Which of the ranks with the same KV sends: as published, or always the first; a list.",
)
@click.option(
    "--streaming",
    default="prompt",
    show_default=True,
    callback=_among(STREAMING),
    help="KV leaves when the prompt is computed, or layer by layer: prompt, layers; a list.",
)
@click.option("--model", default="deepseek-r1", show_default=True, help=", ".join(MODELS))
@click.option("--prefill-groups", type=click.IntRange(1), default=3, show_default=True)
@click.option("--prefill-tp", type=int, default=32, show_default=True, help="Ranks of a group.")
@click.option("--decode-dp", type=int, default=320, show_default=True, help="Decode groups.")
@click.option("--decode-tp", type=int, default=1, show_default=True, help="Ranks of a group.")
@click.option(
    "--slots", type=click.IntRange(1), default=96, show_default=True, help="Requests a group holds."
)
@click.option(
    "--sources",
    "shown",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Sources of the hot-spot report, the busiest first.",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=1, show_default=True)
@fabric_options
@output_options
def kv_serve(
    count: int,
    rate: float,
    mean_prompt: int,
    mean_answer: int,
    mapping: list[str],
    streaming: list[str],
    model: str,
    prefill_groups: int,
    prefill_tp: int,
    decode_dp: int,
    decode_tp: int,
    slots: int,
    shown: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
    **way_options: Any,
) -> None:
    """Serve requests that arrive at random: queues, transfers, and who sends most; sizes alone."""
    if not 0 < rate < math.inf:
        raise OptionError(f"--rate {rate:g}: give a rate above 0, in requests a second")
    ways = choose_ways(**way_options, usual="roce")
    name = ways[0].fabric.name
    requests = poisson_requests(
        count, rate, np.random.default_rng(seed), mean_prompt=mean_prompt, mean_answer=mean_answer
    )
    header = [
        f"fabric {name}, {model}, {rate:g} requests a second of "
        f"{requests.prompt.mean():.0f} tokens on average, seed {seed}",
        f"{prefill_groups} prefill groups of TP {prefill_tp} to {decode_dp} decode groups of TP "
        f"{decode_tp}",
        *LEGEND,
    ]
    results = Results(header, as_json=as_json, plot=plot, where=f"fabric {name}")
    hot: list[tuple[str, list[SourceLoad]]] = []
    for way in ways:
        for kind in mapping:
            site = Deployment(
                way.fabric, find_model(model), prefill_groups, prefill_tp, decode_dp, decode_tp,
                kind, slots=slots,
            )  # fmt: skip
            for how in streaming:
                row, loads = serving_row(way, site, requests, how)
                results.add(row)
                hot.append((row.case, loads[:shown]))
    if not as_json:
        _print(header, results.rows, hot if shown else [])
    if plot is not None:
        from ubnet.cli.notes import note

        served = [row for row in results.rows if isinstance(row, ServingRow)]
        plot_bars(_panels(served), plot, f"kv-serve, {count} requests, {results.where}")
        note(f"picture written to {plot}")


def serving_row(
    way: Way, site: Deployment, requests: Requests, streaming: str
) -> tuple[ServingRow, list[SourceLoad]]:
    """Serve requests; return the row and the load of each source, the busiest first."""
    transport = "roce" if way.transport == "auto" else way.transport
    report = serve_requests(site, requests, transport=transport, streaming=streaming)
    loads = report.source_loads()
    time_ps = int(report.arrived_ps.max())
    nbytes = int(report.sent[:, 3].sum())
    row = ServingRow.timed(
        time_ps,
        nbytes,
        op="kv-serve",
        case=f"{site.mapping}, {streaming}",
        transport=transport,
        plane=way.fabric.transport(transport).plane,
        ranks=site.prefill.size + site.decode.size,
        wrong=None,
        # Requests arrive when they arrive: the last arrival is the least time there is.
        efficiency=int(requests.arrival_ps[-1]) / time_ps,
        busiest_link=loads[0].name,
        busiest_link_utilisation=loads[0].busy,
        requests=len(requests),
        hot_source=loads[0].name,
        hot_busy=loads[0].busy,
        even_busy=sum(load.busy for load in loads) / len(loads),
        **_figures(report),
    )
    return row, loads


def _figures(report: ServingReport) -> dict[str, float]:
    found = {}
    for name in ("queue", "transfer", "total"):
        times = getattr(report, f"{name}_us")
        found[f"{name}_avg_us"] = float(times.mean())
        found[f"{name}_p99_us"] = float(np.percentile(times, 99, method="higher"))
    return found


def _panels(rows: list[ServingRow]) -> list[Bars]:
    """Return what a picture shows of each mapping: times, and how busy its sources are."""
    names = [f"{row.case}, {row.transport}" for row in rows]
    times = {
        name: {
            "average": [getattr(row, f"{name}_avg_us") / 1e3 for row in rows],
            "99 %": [getattr(row, f"{name}_p99_us") / 1e3 for row in rows],
        }
        for name in ("queue", "transfer")
    }
    busy = {
        "busiest source": [100 * row.hot_busy for row in rows],
        "mean source": [100 * row.even_busy for row in rows],
    }
    return [
        *(Bars(f"{name} (ms, virtual)", names, values) for name, values in times.items()),
        Bars("busy (%)", names, busy),
    ]


def _print(header: list[str], rows: list[Row], hot: list[tuple[str, list[SourceLoad]]]) -> None:
    console = open_console(sys.stdout)
    print_lines(header, console)
    print_columns([row for row in rows if isinstance(row, ServingRow)], COLUMNS, console)
    for case, loads in hot:
        print_lines(["", case], console)
        print_columns(loads, SOURCES, console)
