"""Rows in nixlbench's columns: what one block or batch takes, on average and at worst."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ubnet.cli.notes import note
from ubnet.cli.results import Results
from ubnet.report.row import Row
from ubnet.report.table import Column, figure, open_console, print_columns, print_lines

LEGEND = (
    "B/W: all bytes over the time of the last one; GB = 1e9 bytes; all times are virtual",
    "avg lat, p99 lat: of one transfer, from asking to its last byte; prep + post + transfer",
    "wrong: bytes that differ (- = size only, no bytes moved)",
    "eff: lower bound / time; the bound is what the fullest resource or one transfer alone needs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow(Row):
    """A row with the latency of single transfers and its parts, in microseconds.

    Attributes
    ----------
    block_bytes, batch : int
        Bytes of a block, and blocks of a transfer.
    latency_avg_us, latency_p99_us : float
        Of one transfer.
    prepare_us, post_us, transfer_us : float
        Its parts on average: until it can be posted, the posting of its messages, the rest.
    """

    block_bytes: int
    batch: int
    latency_avg_us: float
    latency_p99_us: float
    prepare_us: float
    post_us: float
    transfer_us: float


COLUMNS = (
    Column[LatencyRow]("# op", "#", lambda r: f"{r.op} {r.case}".rstrip(), True),
    Column[LatencyRow]("transport", "", lambda r: r.transport, True),
    Column[LatencyRow]("block", "(B)", lambda r: str(r.block_bytes)),
    Column[LatencyRow]("batch", "", lambda r: str(r.batch)),
    Column[LatencyRow]("B/W", "(GB/s)", lambda r: figure(r.algbw_GBps)),
    Column[LatencyRow]("avg lat", "(us)", lambda r: figure(r.latency_avg_us)),
    Column[LatencyRow]("p99 lat", "(us)", lambda r: figure(r.latency_p99_us)),
    Column[LatencyRow]("prep", "(us)", lambda r: figure(r.prepare_us)),
    Column[LatencyRow]("post", "(us)", lambda r: figure(r.post_us)),
    Column[LatencyRow]("transfer", "(us)", lambda r: figure(r.transfer_us)),
    Column[LatencyRow]("wrong", "", lambda r: "-" if r.wrong is None else str(r.wrong)),
    Column[LatencyRow]("eff", "(%)", lambda r: f"{100 * r.efficiency:.1f}"),
    Column[LatencyRow]("busiest", "", lambda r: r.busiest_link, True),
    Column[LatencyRow]("", "", lambda r: r.note, True),
)


def latencies(times_us: ArrayLike) -> dict[str, float]:
    """Return the average and the 99th percentile of some times.

    >>> latencies([1.0, 3.0])
    {'latency_avg_us': 2.0, 'latency_p99_us': 3.0}
    """
    times = np.asarray(times_us, dtype=np.float64)
    return {
        "latency_avg_us": float(times.mean()),
        # A time that was measured, not one between two of them.
        "latency_p99_us": float(np.percentile(times, 99, method="higher")),
    }


class LatencyResults(Results):
    """Results that are printed in nixlbench's columns."""

    def close(self) -> None:
        """Print the table, draw the picture, and end with status 1 where bytes were wrong."""
        rows: Sequence[LatencyRow] = [row for row in self.rows if isinstance(row, LatencyRow)]
        if rows and not self.as_json:
            console = open_console(sys.stdout)
            print_lines([*self.header, *LEGEND, *self.caps], console)
            print_columns(rows, COLUMNS, console)
        if self.plot is not None:
            from ubnet.report.plot import plot_rows

            plot_rows(self.rows, self.plot, self.where)
            note(f"picture written to {self.plot}")
        self.end()
