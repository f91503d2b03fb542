"""``ubnet bench model-load``: models into dies, from a bucket or SSD, with and without a pool."""

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from ubnet.cli.options import choose_ways, output_options
from ubnet.cli.results import Results
from ubnet.errors import OptionError
from ubnet.pool.loading_table import FITTED, PUBLISHED, LoadingFigures, loading_figures
from ubnet.pool.model_loading import BUCKET_FRACTION, CACHES, SOURCES, LoadingSetup
from ubnet.report.bars import Bars, plot_bars
from ubnet.report.row import Row
from ubnet.report.table import Column, open_console, print_columns, print_lines
from ubnet.units import PS_PER_S, parse_rate, parse_size

TIMES = {"cold_s": "cold start", "warm_s": "warm start", "switch_s": "mean switch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingRow(Row):
    """A time of model loading, beside the published one.

    Attributes
    ----------
    published_s, error : float or None
        What is printed in [P], and ours over it less 1; None where nothing is.
    fitted : bool
        Whether a figure of the model was chosen to meet this one.
    dram_models, hit_rate : float
        DRAM in use, in models; how often a switch finds its model in DRAM.
    """

    published_s: float | None
    error: float | None
    fitted: bool
    dram_models: float
    hit_rate: float


COLUMNS = (
    Column[LoadingRow]("# cache", "#", lambda r: r.algorithm, True),
    Column[LoadingRow]("time of", "", lambda r: r.case.partition(" ")[2], True),
    Column[LoadingRow]("ours", "(s)", lambda r: f"{r.time_us / 1e6:.2f}"),
    Column[LoadingRow]("published", "(s)", lambda r: _or_dash(r.published_s, "{:g}")),
    Column[LoadingRow]("error", "(%)", lambda r: _or_dash(r.error, "{:+.1%}")),
    Column[LoadingRow]("", "", lambda r: _kind(r), True),
    Column[LoadingRow]("DRAM", "(models)", lambda r: f"{r.dram_models:g}"),
    Column[LoadingRow]("hit rate", "(%)", lambda r: f"{100 * r.hit_rate:g}"),
)


@click.command("model-load")
@click.option(
    "--cache",
    default=",".join(CACHES),
    show_default=True,
    help="What keeps models in DRAM: none, local (own nodes), pool (all nodes); a list.",
)
@click.option("--source", type=click.Choice(SOURCES), default="bucket", show_default=True)
@click.option("--bucket", default="2.5GB/s", show_default=True, help="Promised rate of the bucket.")
@click.option("--size", default="671GB", show_default=True, help="Bytes of a model.")
@click.option("--instances", type=click.IntRange(1), default=8, show_default=True)
@click.option(
    "--dies", type=click.IntRange(1), default=32, show_default=True, help="Of an instance."
)
@click.option(
    "--models",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Models that an instance switches among.",
)
@click.option(
    "--fabric", "fabric_name", default="cloudmatrix384", show_default=True, metavar="NAME|FILE"
)
@output_options
def model_load(
    cache: str,
    source: str,
    bucket: str,
    size: str,
    instances: int,
    dies: int,
    models: int,
    fabric_name: str,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Load models: all instances cold and warm, and one that switches among models.

    Every time is the end of simulated transfers. Two figures are fitted to the published table:
    what the bucket delivers of its rate, and what one instance draws from DRAM.
    """
    caches = cache.split(",")
    wrong = [name for name in caches if name not in CACHES]
    if wrong:
        raise OptionError(f"--cache {cache}: {wrong[0]} is none of {', '.join(CACHES)}")
    fabric = choose_ways(fabric_name)[0].fabric
    setup = LoadingSetup(
        instances=instances,
        dies=dies,
        model_bytes=parse_size(size),
        source=source,
        bucket_rate=parse_rate(bucket) * BUCKET_FRACTION,
    )
    published = setup == LoadingSetup() and models == instances
    header = [
        f"fabric {fabric.name}, {instances} instances of {dies} dies, model of {size}, {models} "
        "models to switch among",
        f"bucket {BUCKET_FRACTION} of {bucket} (fitted), {setup.draw_rate / 1e9:g} GB/s drawn from "
        "DRAM by an instance (fitted)",
    ]
    results = Results(header, as_json=as_json, plot=plot, where=f"fabric {fabric.name}")
    for name in caches:
        figures = loading_figures(fabric, name, models=models, setup=setup)
        for row in _rows(name, figures, setup, published):
            results.add(row)
    if not as_json:
        console = open_console(sys.stdout)
        print_lines(header, console)
        print_columns(
            [row for row in results.rows if isinstance(row, LoadingRow)], COLUMNS, console
        )
    if plot is not None:
        from ubnet.cli.notes import note

        rows = [row for row in results.rows if isinstance(row, LoadingRow)]
        values: dict[str, list[float | None]] = {"ours": [row.time_us / 1e6 for row in rows]}
        if published:
            values["published"] = [row.published_s for row in rows]
        panel = Bars("time (s, virtual)", [row.case for row in rows], values)
        plot_bars([panel], plot, f"model-load, {size} models from {source}, {results.where}")
        note(f"picture written to {plot}")


def _rows(
    cache: str, ours: LoadingFigures, setup: LoadingSetup, published: bool
) -> list[LoadingRow]:
    rows = []
    for name, words in TIMES.items():
        seconds = getattr(ours, name)
        if seconds is None:
            continue
        printed = getattr(PUBLISHED[cache], name) if published else None
        loaded = 1 if name == "switch_s" else setup.instances
        from_outside = cache == "none" or name == "cold_s"
        rows.append(
            LoadingRow.timed(
                round(seconds * PS_PER_S),
                loaded * setup.model_bytes,
                op="model-load",
                case=f"{cache} {words}",
                algorithm=cache,
                transport=setup.source if from_outside else "sdma",
                plane="vpc" if from_outside else "ub",
                ranks=loaded * setup.dies,
                wrong=None,
                efficiency=_least_s(cache, name, setup, ours) / seconds,
                busiest_link=setup.source if from_outside else "draw of an instance",
                busiest_link_utilisation=_least_s(cache, name, setup, ours) / seconds,
                published_s=printed,
                error=None if printed is None else seconds / printed - 1,
                fitted=(cache, name) in FITTED,
                dram_models=ours.dram_models,
                hit_rate=ours.hit_rate,
            )
        )
    return rows


def _least_s(cache: str, name: str, setup: LoadingSetup, ours: LoadingFigures) -> float:
    """Return what the bucket or the draw of an instance needs for the bytes, in seconds."""
    warm = setup.model_bytes / setup.draw_rate
    fetched = setup.model_bytes / setup.bucket_rate if setup.source == "bucket" else 0.0
    if name == "warm_s":
        return warm
    if name == "switch_s":
        return ours.hit_rate * warm + (1 - ours.hit_rate) * max(fetched, warm * (cache != "none"))
    return fetched * (1 if cache == "pool" else setup.instances)


def _or_dash(value: float | None, how: str) -> str:
    return "-" if value is None else how.format(value).rstrip("%")


def _kind(row: LoadingRow) -> str:
    if row.published_s is None:
        return ""
    return "fitted" if row.fitted else "follows"
