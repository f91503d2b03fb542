"""``ubnet bench p2p``: one transfer between two endpoints."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from ubnet.cli.inputs import Numbers, bench_dtype
from ubnet.cli.memory import moves_bytes
from ubnet.cli.notes import progress
from ubnet.cli.options import (
    Way,
    choose_ways,
    dtype_option,
    fabric_options,
    output_options,
    payload_options,
    sizes_option,
)
from ubnet.cli.pairs import PAIRS, find_pair
from ubnet.cli.results import Results
from ubnet.errors import OptionError, did_you_mean
from ubnet.replay import Arena, replay
from ubnet.report.row import Row
from ubnet.report.table import legend
from ubnet.schedule import OUTPUT, Schedule, ScheduleBuilder
from ubnet.timing import time_schedule

OPS = ("read", "write", "send")


def _ops(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    ops = value.split(",")
    for op in ops:
        if op not in OPS:
            raise OptionError(f"--op {op}: {did_you_mean(op, OPS)}")
    return ops


@click.command("p2p")
@click.option(
    "--op",
    "ops",
    default="read,write",
    show_default=True,
    metavar="OP",
    callback=_ops,
    help="read (the first of the pair pulls), write (it pushes), send (a message); or a list.",
)
@click.option(
    "--pair",
    "pairs",
    default="near,far",
    show_default=True,
    metavar="PAIR",
    callback=lambda ctx, param, value: value.split(","),
    help=f"{', '.join(PAIRS)}, or two endpoints A:B; or a list.",
)
@sizes_option("512:32MiB:4,64MiB")
@dtype_option("uint8")
@fabric_options
@payload_options
@output_options
def p2p(
    ops: list[str],
    pairs: list[str],
    sizes: list[int],
    dtype: str,
    payload: str,
    seed: int,
    as_json: bool,
    plot: Path | None,
    **way_options: Any,
) -> None:
    """Time one transfer between two endpoints on an idle fabric, and move its bytes.

    S is the bytes of the transfer. By default by AIV-Direct; with --plot also by SDMA.
    """
    ways = choose_ways(**way_options, usual="aiv,sdma" if plot else "aiv")
    fabric = ways[0].fabric
    ends = {pair: find_pair(fabric, pair) for pair in pairs}
    named = (
        f"{p} = {fabric.endpoints[a].name}:{fabric.endpoints[b].name}" for p, (a, b) in ends.items()
    )
    header = [f"fabric {fabric.name}, {', '.join(named)}, seed {seed}", *legend("1")]
    results = Results(header, as_json=as_json, plot=plot)
    bench = PointToPoint(dtype, payload, seed)
    cases = [(op, p, w, s) for op in ops for p in pairs for w in ways for s in sizes]
    for op, pair, way, size in progress(cases, "p2p"):
        results.add(bench.row(way, op, pair, ends[pair], size))
    results.close()


class PointToPoint:
    """Measures single transfers; rows of one size share their memory and its numbers.

    Parameters
    ----------
    dtype : str
        Type of an element.
    payload : {"auto", "real", "size"}
        Whether bytes are moved.
    seed : int
        Of the numbers that are sent.
    """

    def __init__(self, dtype: str, payload: str, seed: int) -> None:
        self.dtype = bench_dtype(dtype)
        self.payload = payload
        self.numbers = Numbers.for_sums(seed, self.dtype, 1)
        self._arena: Arena | None = None

    def row(self, way: Way, op: str, pair: str, ends: tuple[int, int], size: int) -> Row:
        """Time one transfer, move its bytes and return the row.

        Parameters
        ----------
        way : Way
            Fabric, plane and transport.
        op : {"read", "write", "send"}
            Who drives it.
        pair : str
            What the row calls the two ends.
        ends : tuple of int
            The endpoint that drives, and the other.
        size : int
            Bytes; rounded down to whole elements.
        """
        itemsize = self.dtype.itemsize
        count = size // itemsize
        schedule = one_transfer(count)
        bytes_ = count * itemsize
        source, target = ends if op == "write" else ends[::-1]
        timing = time_schedule(
            schedule,
            way.fabric,
            np.array([source, target]),
            itemsize,
            transport=way.transport,
            plane=way.plane,
            op=op,
        )
        real = moves_bytes(self.payload, 2 * bytes_, f"p2p of {bytes_} bytes")
        return Row.timed(
            timing.time_ps,
            bytes_,
            op="p2p",
            case=f"{op} {pair}",
            transport=timing.transport,
            plane=way.plane,
            ranks=2,
            wrong=self._wrong(schedule, count) if real else None,
            efficiency=timing.efficiency,
            busiest_link=timing.busiest,
            busiest_link_utilisation=timing.busiest_utilisation,
            count=count,
            dtype=self.dtype.name,
        )

    def _wrong(self, schedule: Schedule, count: int) -> int:
        """Move the bytes once more and count what arrived wrong."""
        arena = self._arena
        if arena is None or not np.array_equal(arena.sizes, schedule.sizes):
            arena = self._arena = Arena(schedule.sizes, self.dtype)
            self.numbers.fill(arena.input(0), 0)
        arena.output(1)[:] = 0
        replay(schedule, arena)
        parts = (np.array([value]) for value in (0, 0, 0, count))
        return self.numbers.wrong_moved(arena.output(1), *parts)


def one_transfer(count: int) -> Schedule:
    """Return the schedule of one transfer of `count` elements from rank 0 to rank 1."""
    builder = ScheduleBuilder("p2p", 2, [[count, 0, 0], [0, count, 0]])
    builder.add(0, 0, 1, 0, 0, count, dst_buf=OUTPUT)
    return builder.build()
