"""``ubnet bench p2p``: one transfer between two endpoints."""

from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

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
from ubnet.cli.sending import send_message
from ubnet.cli.sizes import distinct, note_empty, rounding
from ubnet.errors import OptionError, did_you_mean
from ubnet.replay import Arena, replay
from ubnet.report.row import Row
from ubnet.report.table import legend
from ubnet.schedule import OUTPUT, Schedule
from ubnet.schedule_builder import ScheduleBuilder
from ubnet.timing import time_schedule
from ubnet.transport import READ, WRITE

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
    help=f"{', '.join(PAIRS)}, or two endpoints A:B; or a list. near: the first die and another "
    "of its node; far: and one of another node; package: and its package mate; cpu-: and a CPU.",
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
    bench = PointToPoint(dtype, payload, seed)
    header = [f"fabric {fabric.name}, {', '.join(named)}, seed {seed}", *legend("1")]
    header += rounding(dtype, ((size, bench.used(size)) for size in sizes))
    results = Results(header, as_json=as_json, plot=plot, where=fabric.name, fabric=fabric)
    rows = distinct(sizes, bench.count, f"p2p of {dtype}")
    cases = [(op, p, w, s) for op in ops for p in pairs for w in ways for s in rows]
    for op, pair, way, size in progress(cases, "p2p", as_json=as_json):
        row = partial(bench.row, way, op, pair, ends[pair], size)
        results.attempt(row, len(ways))
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
        count, used = self.count(size), self.used(size)
        note_empty(size, used, f"p2p of {self.dtype.name}")
        real = moves_bytes(self.payload, 2 * used, f"p2p of {used} bytes")
        measured = (self._send if op == "send" else self._transfer)(way, op, ends, count, real)
        return Row.timed(
            size_bytes=used,
            op="p2p",
            case=f"{op} {pair}",
            plane=way.plane,
            ranks=2,
            count=count,
            dtype=self.dtype.name,
            **measured,
        )

    def count(self, size: int) -> int:
        """Return the elements that so many bytes hold."""
        return size // self.dtype.itemsize

    def used(self, size: int) -> int:
        """Return the bytes of whole elements."""
        return self.count(size) * self.dtype.itemsize

    def _transfer(
        self, way: Way, op: str, ends: tuple[int, int], count: int, real: bool
    ) -> dict[str, Any]:
        """Time a read or write of the idle fabric; run its schedule on real bytes."""
        schedule = one_transfer(count)
        places = np.array(ends if op == WRITE else ends[::-1])
        timing = time_schedule(
            schedule, way.fabric, places, self.dtype.itemsize, way.transport, way.plane, op
        )
        wrong = None
        if real:
            arena = self._memory(schedule)
            replay(schedule, arena)
            wrong = self._wrong(arena.output(1))
        return {
            "time_ps": timing.time_ps,
            "transport": timing.transport,
            "wrong": wrong,
            "efficiency": timing.efficiency,
            "busiest_link": timing.busiest,
            "busiest_link_utilisation": timing.busiest_utilisation,
        }

    def _send(
        self, way: Way, op: str, ends: tuple[int, int], count: int, real: bool
    ) -> dict[str, Any]:
        """Send a message in a world of two ranks; the bound is that of a write or of a read."""
        schedule = one_transfer(count)
        arena = self._memory(schedule) if real else None
        buffers = () if arena is None else (arena.input(0), arena.output(1))
        sent = send_message(way, ends, count * self.dtype.itemsize, *buffers)
        bound = min(
            time_schedule(
                schedule, way.fabric, ends, self.dtype.itemsize, sent.transport, op=driven
            ).lower_bound_ps
            for driven in (WRITE, READ)
        )
        return {
            "time_ps": sent.time_ps,
            "transport": sent.transport,
            "wrong": None if arena is None else self._wrong(arena.output(1)),
            "efficiency": bound / sent.time_ps if sent.time_ps else 1.0,
            "busiest_link": sent.busiest,
            "busiest_link_utilisation": sent.utilisation,
        }

    def _memory(self, schedule: Schedule) -> Arena:
        """Return the memory of both sides, the source filled and the target empty."""
        if self._arena is None or not np.array_equal(self._arena.sizes, schedule.sizes):
            self._arena = Arena(schedule.sizes, self.dtype)
            self.numbers.fill(self._arena.input(0), 0)
        self._arena.output(1)[:] = 0
        return self._arena

    def _wrong(self, arrived: NDArray[Any]) -> int:
        zero = np.zeros(1, dtype=np.int64)
        return self.numbers.wrong_moved(arrived, zero, zero, zero, np.array([len(arrived)]))


def one_transfer(count: int) -> Schedule:
    """Return the schedule of one transfer of `count` elements from rank 0 to rank 1."""
    builder = ScheduleBuilder("p2p", 2, [[count, 0, 0], [0, count, 0]])
    builder.add(0, 0, 1, 0, 0, count, dst_buf=OUTPUT)
    return builder.build()
