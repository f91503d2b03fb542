"""``ubnet bench`` without arguments: the main job on one screen."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import cpu_count

from ubnet import __version__
from ubnet.cli.bench_kv import Prompt, kv_row
from ubnet.cli.bench_p2p import PointToPoint
from ubnet.cli.collective_rows import Collectives
from ubnet.cli.compile_ahead import compile_ahead
from ubnet.cli.expert_rows import Experts, moe_row
from ubnet.cli.notes import progress
from ubnet.cli.options import Way, choose_ways
from ubnet.cli.pairs import find_pair
from ubnet.cli.results import Results
from ubnet.collectives.expert_parallel import COMBINE, DISPATCH
from ubnet.collectives.registry import OPERATIONS
from ubnet.place import all_places
from ubnet.report.row import Row
from ubnet.report.table import (
    FIGURES,
    NAME,
    SHARED,
    Column,
    capped,
    figure,
    open_console,
    print_columns,
    print_lines,
)
from ubnet.transport import READ, WRITE
from ubnet.units import format_size

PAIRS = ("near", "far", "cpu-near", "cpu-far")
SMALL, LARGE = 512, 64 << 20
P2P_WAYS = ("aiv", "sdma")
COLLECTIVES = ("all_to_all", "all_reduce")
SIZES = (64 << 10, 1 << 20)
EP_REAL, EP_LARGE = (8, 32), 256
KV_WAYS = ("roce", "vpc")
KV_TOKENS = 4096


Job = Callable[[], list[Row]]


def overview(*, as_json: bool, seed: int) -> None:
    """Run and check the main job on the whole supernode and print it on one screen.

    Parameters
    ----------
    as_json : bool
        One JSON object a line in place of the tables.
    seed : int
        Of the numbers that are sent.
    """
    ways = {way.transport: way for way in choose_ways(transport="auto,aiv,sdma,roce,vpc")}
    compile_ahead()
    results = Results([], as_json=as_json)
    auto = ways["auto"]
    # The longest first, so that the cores end together; rows come in the order of the screen.
    first = _collective_jobs(auto, seed)
    p2p, kv = partial(_p2p_rows, ways, seed), _kv_jobs(ways, seed)
    others = [*_moe_jobs(auto, seed), *kv, *_large_moe_jobs(auto, seed)]
    with run_ahead([*first, p2p, *others]) as done:
        screen = [done[len(first)], *done[: len(first)], *done[len(first) + 1 :]]
        for rows in progress(screen, "ubnet bench", as_json=as_json):
            for row in rows.result():
                results.add(row)
    if not as_json:
        _print(results.rows, auto, seed)
    results.end()


@contextmanager
def run_ahead(jobs: Sequence[Job]) -> Iterator[list[Future[list[Row]]]]:
    """Run jobs on all cores, in order, while their rows are taken; kernels leave the lock free.

    When the block is left early, what has not begun is not begun.
    """
    pool = ThreadPoolExecutor(cpu_count())
    try:
        yield [pool.submit(job) for job in jobs]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _p2p_rows(ways: dict[str, Way], seed: int) -> list[Row]:
    # float32 like the collectives, so that they share their compiled kernels.
    bench = PointToPoint("float32", "real", seed)
    return [
        bench.row(ways[name], op, pair, find_pair(ways["auto"].fabric, pair), size)
        for size in (SMALL, LARGE)
        for op in (READ, WRITE)
        for pair in PAIRS
        for name in P2P_WAYS
    ]


def _collective_jobs(way: Way, seed: int) -> list[Job]:
    bench = Collectives(all_places(way.fabric), payload="real", seed=seed)

    def run(op: str, size: int) -> list[Row]:
        return [bench.row(way, OPERATIONS[op], "auto", size)]

    return [partial(run, op, size) for op in COLLECTIVES for size in SIZES]


def _moe_jobs(way: Way, seed: int) -> list[Job]:
    def run(op: str, ranks: int) -> list[Row]:
        return [moe_row(way, op, Experts(seed=seed), ranks, "real")]

    return [partial(run, op, ranks) for op in (DISPATCH, COMBINE) for ranks in EP_REAL]


def _large_moe_jobs(way: Way, seed: int) -> list[Job]:
    def by_size_only(op: str) -> list[Row]:
        row = moe_row(way, op, Experts(seed=seed), EP_LARGE, "size")
        return [replace(row, note="size only")]

    return [partial(by_size_only, op) for op in (DISPATCH, COMBINE)]


def _kv_jobs(ways: dict[str, Way], seed: int) -> list[Job]:
    def run(name: str) -> list[Row]:
        return [kv_row(ways[name], Prompt(seed=seed), KV_TOKENS, real=True)]

    return [partial(run, name) for name in KV_WAYS]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A line of the first table: one pair and direction, by both transports and at both sizes."""

    op: str
    pair: str
    rows: dict[tuple[str, int], Row]

    @property
    def wrong(self) -> int:
        """Wrong elements of all its rows."""
        return sum(row.wrong or 0 for row in self.rows.values())


def _print(rows: Sequence[Row], way: Way, seed: int) -> None:
    console = open_console(sys.stdout)
    print_lines(
        [
            f"ubnet {__version__}: {way.fabric.name}, {len(all_places(way.fabric))} dies in "
            f"{len(set(way.fabric.node_of.tolist()))} nodes; rank r on die r; seed {seed}",
            "time is virtual; the bytes of every row were moved and checked, unless wrong is -",
            "one transfer between a die and a near or far die or CPU:",
        ],
        console,
    )
    print_columns(list(_transfers(rows)), TRANSFER_COLUMNS, console)
    print_lines(
        [
            "",
            "busbw = S / time x factor (2(n-1)/n all_reduce, 1 kv, else (n-1)/n), in 1e9 B/s",
            "eff = lower bound / time; busiest = the resource used most during that time",
            *capped(rows, way.fabric),
        ],
        console,
    )
    others = [row for row in rows if row.op != "p2p"]
    print_columns(others, [NAME, *SHARED, SIZE, *FIGURES, NOTE], console)
    how = f"ubnet bench moe --ep {EP_LARGE} --payload real"
    print_lines([f"size only: `{how}` moves and checks the bytes of these, too"], console)


def _transfers(rows: Sequence[Row]) -> Iterator[Transfer]:
    cases = dict.fromkeys(row.case for row in rows if row.op == "p2p")
    for case in cases:
        op, pair = case.split(" ")
        mine = {(r.transport, r.size_bytes): r for r in rows if (r.op, r.case) == ("p2p", case)}
        yield Transfer(op, pair, mine)


def _latency(transport: str) -> Callable[[Transfer], str]:
    return lambda line: f"{line.rows[transport, SMALL].time_us:.2f}"


def _rate(transport: str) -> Callable[[Transfer], str]:
    return lambda line: figure(line.rows[transport, LARGE].busbw_GBps)


SIZE = Column[Row]("size", "(B)", lambda r: str(r.size_bytes))
NOTE = Column[Row]("", "", lambda r: r.note, True)
TRANSFER_COLUMNS = [
    Column[Transfer]("# op", "#", lambda line: f"p2p {line.op} {line.pair}", True),
    *(
        column
        for name in P2P_WAYS
        for column in (
            Column[Transfer](f"{name} {format_size(SMALL)}", "(us)", _latency(name)),
            Column[Transfer](f"{name} {format_size(LARGE)}", "(GB/s)", _rate(name)),
        )
    ),
    Column[Transfer]("wrong", "", lambda line: str(line.wrong)),
]
