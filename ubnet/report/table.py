"""A table of rows in nccl-tests' columns, with a legend in lines that begin with ``#``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Generic, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ubnet.fabric import Fabric
from ubnet.report.row import Row
from ubnet.units import format_rate

T = TypeVar("T")

LEGEND = (
    "size: S, the bytes that bandwidths count; time: virtual, the last rank's end minus the start",
    "algbw = S / time, busbw = algbw x {factor}; GB = 1e9 bytes",
    "wrong: elements that differ from what they must be (- = size only, no bytes moved)",
    "eff: lower bound / time; the bound is the fullest resource's bytes over its rate + a latency",
    "busiest: the resource with the highest utilisation of its rate during that time",
)
"""What the columns mean; ``{factor}`` is the operation's."""


IN_PLACE_LEGEND = (
    "the second time to wrong: in place, input and output in one array, by the same transfers in "
    "the same time: wrong alone can differ (- = not run again above 64 MiB of buffers, N/A = the "
    "algorithm needs two arrays)"
)
"""What the columns of `IN_PLACE` mean."""


def capped(rows: Sequence[Row], fabric: Fabric) -> list[str]:
    """Return a line of the legend for each transport of these rows whose flows have a cap."""
    names = dict.fromkeys(row.transport for row in rows)
    caps = {name: fabric.transports[name].rate_cap for name in names if name in fabric.transports}
    return [
        f"eff of {name}: one stream carries at most {format_rate(cap)}, which the bound counts, too"
        for name, cap in caps.items()
        if np.isfinite(cap)
    ]


def legend(factor: str) -> list[str]:
    """Return the legend of a table, with the factor from algbw to busbw.

    >>> legend("2(n-1)/n")[1]
    'algbw = S / time, busbw = algbw x 2(n-1)/n; GB = 1e9 bytes'
    """
    return [line.format(factor=factor) for line in LEGEND]


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column: its title and unit, how a line fills it, whether it is text."""

    title: str
    unit: str
    cell: Callable[[T], str]
    text: bool = False


NAME = Column[Row]("# op", "#", lambda r: f"{r.op} {r.case}".rstrip(), True)
"""The first column."""

SHARED = (
    Column[Row]("algo", "", lambda r: r.algorithm, True),
    Column[Row]("transport", "", lambda r: r.transport, True),
    Column[Row]("plane", "", lambda r: r.plane, True),
    Column[Row]("ranks", "", lambda r: str(r.ranks)),
)
"""Columns that become one ``#`` line where all rows agree."""


def _wrong(count: int | None) -> str:
    return "-" if count is None else str(count)


FIGURES = (
    Column[Row]("time", "(us)", lambda r: figure(r.time_us)),
    Column[Row]("algbw", "(GB/s)", lambda r: figure(r.algbw_GBps)),
    Column[Row]("busbw", "(GB/s)", lambda r: figure(r.busbw_GBps)),
    Column[Row]("wrong", "", lambda r: _wrong(r.wrong)),
    Column[Row]("eff", "(%)", lambda r: f"{100 * r.efficiency:.1f}"),
    Column[Row]("busiest", "", lambda r: r.busiest_link, True),
    Column[Row]("used", "(%)", lambda r: f"{100 * r.busiest_link_utilisation:.1f}"),
)
"""What was measured."""

IN_PLACE = (
    Column[Row]("time", "in place", lambda r: figure(r.time_us) if r.in_place else "N/A"),
    Column[Row]("algbw", "(GB/s)", lambda r: figure(r.algbw_GBps) if r.in_place else "N/A"),
    Column[Row]("busbw", "(GB/s)", lambda r: figure(r.busbw_GBps) if r.in_place else "N/A"),
    Column[Row]("wrong", "", lambda r: _wrong(r.wrong_in_place) if r.in_place else "N/A"),
)
"""The same in place; N/A where an algorithm needs an output of its own."""

SENT = (
    Column[Row]("size", "(B)", lambda r: str(r.size_bytes)),
    Column[Row]("count", "", lambda r: str(r.count)),
    Column[Row]("type", "", lambda r: r.dtype),
    Column[Row]("redop", "", lambda r: r.redop),
    Column[Row]("root", "", lambda r: str(r.root)),
)
"""What was sent: nccl-tests' first columns."""


def ending(rows: Sequence[Row]) -> list[str]:
    """Return the lines with which nccl-tests ends a table: of what was checked, and one series."""
    found = []
    checked = [w for row in rows for w in (row.wrong, row.wrong_in_place) if w is not None]
    if checked:
        wrong = sum(checked)
        found.append(f"Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}")
    rates = [row.busbw_GBps for row in rows if row.size_bytes and row.busbw_GBps is not None]
    sizes = {(row.op, row.size_bytes) for row in rows}
    if rates and len(sizes) == len(rows) and len({(row.op, row.ranks) for row in rows}) == 1:
        found.append(f"Avg bus bandwidth    : {sum(rates) / len(rates):.4g}")
    return found


def print_table(
    rows: Sequence[Row], header: Sequence[str], file: IO[str], footer: Sequence[str] = ()
) -> None:
    """Print rows as a table under ``#`` lines.

    Parameters
    ----------
    rows : sequence of Row
        At least one.
    header, footer : sequence of str
        What stands above and below the table, a line each, without the ``#``.
    file : text stream
        Where it goes; colours are used on a terminal only.
    """
    console = open_console(file)
    same = [c for c in SHARED if len({c.cell(r) for r in rows}) == 1]
    shared = ", ".join(f"{c.title} {c.cell(rows[0])}" for c in same if c.cell(rows[0]))
    twice = any(r.wrong_in_place is not None for r in rows)
    explained = [IN_PLACE_LEGEND] if twice else []
    print_lines([*header, *explained, *([shared] if shared else [])], console)
    differing = [c for c in SHARED if c not in same]
    notes = [Column[Row]("", "", lambda r: r.note, True)] if any(r.note for r in rows) else []
    figures = list(FIGURES)
    if twice:
        # As nccl-tests does: out of place first, then in place.
        place = next(i for i, column in enumerate(figures) if column.title == "wrong") + 1
        figures[place:place] = IN_PLACE
    print_columns(rows, [NAME, *differing, *SENT, *figures, *notes], console)
    print_lines(footer, console)


def open_console(file: IO[str]) -> Console:
    """Return what prints tables; colours are used on a terminal only."""
    return _Console(file=file, highlight=False)


class _Console(Console):
    """Leaves it to the command line what a reader that has gone means; rich would end with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError from None


def print_lines(lines: Sequence[str], console: Console) -> None:
    """Print lines that begin with ``#``."""
    for line in lines:
        console.print(Text(f"# {line}".rstrip(), style="dim"), soft_wrap=True)


def print_columns(
    rows: Sequence[T],
    columns: Sequence[Column[T]],
    console: Console,
    *,
    alarm: Callable[[T], object] = lambda row: (
        getattr(row, "wrong", None) or getattr(row, "wrong_in_place", None)
    ),
) -> None:
    """Print a line a row in the given columns; lines are never wrapped or cut.

    `alarm` says which rows are red.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        title = f"{column.title}\n{column.unit}"
        table.add_column(title, justify="left" if column.text else "right", no_wrap=True)
    for row in rows:
        cells = (Text(c.cell(row)) for c in columns)
        table.add_row(*cells, style="red" if alarm(row) else None)
    print_whole(table, console)


def print_whole(table: Table, console: Console) -> None:
    """Print a table whose lines are never wrapped or cut, without blanks at their ends."""
    wide = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(table, options=wide).maximum)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def figure(value: float | None) -> str:
    """Print a time or bandwidth so that small ones keep their digits.

    >>> figure(1.3), figure(67.3024), figure(11752.4913), figure(None)
    ('1.300', '67.30', '11752.5', '-')
    """
    if value is None:
        return "-"
    digits = 3 if value < 10 else 2 if value < 1000 else 1
    return f"{value:.{digits}f}"
