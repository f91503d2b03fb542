"""The command ``ubnet paper``: published figures beside ubnet's own."""

import json
import sys

import click

from ubnet.cli.notes import progress
from ubnet.fabrics import load_fabric
from ubnet.report.paper import NOTES, SECTIONS, section
from ubnet.report.paper_figure import Figure
from ubnet.report.table import Column, figure, open_console, print_columns, print_lines

COLUMNS = (
    Column[Figure]("# figure", "#", lambda f: f.what, True),
    Column[Figure]("published", "", lambda f: _value(f.published)),
    Column[Figure]("ours", "", lambda f: _value(f.ours)),
    Column[Figure]("unit", "", lambda f: f.unit, True),
    Column[Figure]("error", "(%)", lambda f: "-" if f.error is None else f"{100 * f.error:+.1f}"),
    Column[Figure]("", "", lambda f: f.kind, True),
    Column[Figure]("source", "", lambda f: f.source, True),
)

LINES = (
    "published figures of CloudMatrix384 and of H800 nodes beside the model's",
    "given: put into the model; fitted: constants were chosen to meet it; follows: arithmetic from",
    "these; predicted: it had no part in making the model",
    "P: arXiv 2506.12708, S: arXiv 2607.26444, D: derived by arithmetic from these",
)


@click.command()
@click.option(
    "--section",
    "names",
    multiple=True,
    metavar="NAME",
    help=f"{'|'.join(SECTIONS)}, or a list; by default all. May stand several times.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def paper(names: tuple[str, ...], as_json: bool) -> None:
    """Print published figures beside ubnet's, with the error, and what the model knew of each."""
    chosen = [name for given in names for name in given.split(",")] or list(SECTIONS)
    makers = [(name, section(name)) for name in chosen]
    console = open_console(sys.stdout)
    if not as_json:
        print_lines(LINES, console)
    for name, make in progress(makers, "paper", as_json=as_json):
        figures = list(make(load_fabric))
        if as_json:
            for each in figures:
                print(json.dumps(each.record()), flush=True)
        else:
            print_lines(["", name, *NOTES.get(name, ())], console)
            print_columns(figures, COLUMNS, console)


def _value(value: float | None) -> str:
    if value is not None and float(value).is_integer():
        return str(int(value))
    return figure(value)
