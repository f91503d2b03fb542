"""``ubnet bench OP``: a collective operation on many ranks, timed, run and checked."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from ubnet.arena import Arena
from ubnet.cli.collective_rows import Collectives
from ubnet.cli.notes import progress
from ubnet.cli.options import (
    Way,
    choose_ways,
    dtype_option,
    fabric_options,
    output_options,
    payload_options,
    place_option,
    ranks_option,
    sizes_option,
)
from ubnet.cli.results import Results
from ubnet.cli.sizes import distinct, rounding
from ubnet.collectives.registry import OPERATIONS, Operation
from ubnet.errors import OptionError
from ubnet.msccl_reader import read_msccl
from ubnet.operation import INPUT, OUTPUT
from ubnet.place import all_places, place_ranks
from ubnet.report.row import Row
from ubnet.report.table import ending, legend
from ubnet.schedule import Schedule

F = TypeVar("F", bound=Callable[..., Any])


def command(name: str) -> click.Command:
    """Return the subcommand of an operation, or of ``all``."""
    operations = [OPERATIONS[name]] if name in OPERATIONS else list(OPERATIONS.values())

    @click.command(name, help=_about(operations))
    @click.option(
        "--algo",
        default="auto",
        show_default=True,
        metavar="NAME|auto|all",
        help="auto takes the fastest by the model, a list or all compares. "
        + "; ".join(f"{o.name}: {', '.join(o.algorithms)}" for o in operations)
        + ".",
    )
    @_option_of_some("--chunks", 1, [o.name for o in operations if o.chunked])
    @_option_of_some("--root", 0, [o.name for o in operations if o.rooted])
    @_schedule_option(len(operations) == 1)
    @sizes_option("1KiB:64MiB:4")
    @dtype_option("float32")
    @ranks_option
    @place_option
    @fabric_options
    @payload_options
    @output_options
    def bench(chunks: int = 1, root: int = 0, **options: Any) -> None:
        _bench(operations, chunks=chunks, root=root, **options)

    return bench


def _schedule_option(single: bool) -> Callable[[F], F]:
    """Return ``--schedule`` for a single operation, else nothing."""
    if not single:
        return lambda command: command
    return click.option(
        "--schedule",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE.xml",
        help="MSCCL XML, in place of --algo; it says the number of ranks.",
    )


def _option_of_some(name: str, default: int, operations: list[str]) -> Callable[[F], F]:
    """Return a whole-number option if any of the operations has it, else nothing."""
    if not operations:
        return lambda command: command
    whose = ", ".join(operations)
    what = {"--chunks": f"Chunks of a ring's block ({whose}).", "--root": f"The root of {whose}."}
    return click.option(name, type=int, default=default, show_default=True, help=what[name])


def _about(operations: list[Operation]) -> str:
    if len(operations) > 1:
        return "Time, run and check every collective, one after the other."
    only = operations[0]
    size = "the part of one rank times the ranks" if only.blocks else "the array of one rank"
    return (
        f"Time {only.name} on many ranks, run it on real bytes and check the results. "
        f"S is {size}; algbw = S / time; busbw = algbw x {only.busbw}."
    )


def _bench(
    operations: list[Operation],
    *,
    algo: str,
    chunks: int,
    root: int,
    sizes: list[int],
    dtype: str,
    ranks: list[int] | None,
    place: str | list[str],
    payload: str,
    seed: int,
    as_json: bool,
    plot: Path | None,
    schedule: Path | None = None,
    **way_options: Any,
) -> None:
    given = None if schedule is None else read_msccl(schedule)
    if given is not None:
        ranks, algo = [_fitting(given, operations[0], ranks)], given.name
    ways = choose_ways(**way_options, usual="aiv,sdma" if plot else "auto")
    fabric = ways[0].fabric
    unused: list[Arena] = []
    benches = [
        Collectives(
            place_ranks(fabric, n, place), dtype, payload, seed, root, chunks, given, unused
        )
        for n in dict.fromkeys(ranks or [len(all_places(fabric, place))])
    ]
    where = place if isinstance(place, str) else ",".join(place)
    factor = operations[0].busbw if len(operations) == 1 else "the operation's factor"
    asked = {o.name: sizes if o.name != "barrier" else [0] for o in operations}
    header = [
        f"fabric {fabric.name}, place {where}, seed {seed}",
        *legend(factor),
        *rounding(
            dtype,
            ((s, bench.used(o, s)) for bench in benches for o in operations for s in asked[o.name]),
        ),
    ]
    results = Results(
        header, as_json=as_json, plot=plot, where=fabric.name, fabric=fabric, footer=ending
    )
    rows = [
        row
        for operation in operations
        for bench in benches
        for row in _rows(bench, operation, asked[operation.name], algo, ways)
    ]
    for row in progress(rows, "bench", as_json=as_json):
        results.attempt(row, len(ways))
    results.close()


def _rows(
    bench: Collectives, operation: Operation, asked: list[int], algo: str, ways: list[Way]
) -> Iterator[Callable[[], Row]]:
    """Yield what makes each row of an operation on some ranks."""
    what = f"{operation.name} of {bench.dtype} on {len(bench.endpoints)} ranks"
    sizes = distinct(asked, partial(bench.count, operation), what)
    for name in operation.algorithms if algo == "all" else algo.split(","):
        # A comparison of all algorithms shows those that send no chunks, too.
        plain = algo == "all" and name not in operation.chunked
        able = replace(bench, chunks=1) if plain else bench
        for way in ways:
            for size in sizes:
                yield partial(able.row, way, operation, name, size)


def _fitting(given: Schedule, operation: Operation, ranks: list[int] | None) -> int:
    """Return the ranks of a schedule from a file, which must be those asked for."""
    name = given.name.partition(" ")[0]
    if name != operation.name:
        raise OptionError(
            f"the file holds a schedule of {name}, not of {operation.name}: ubnet bench {name}"
        )
    if ranks not in (None, [given.ranks]):
        asked = ", ".join(map(str, ranks or []))
        raise OptionError(
            f"the file's schedule is for {given.ranks} ranks, not {asked}: leave --ranks out"
        )
    if given.ranks and not given.sizes[:, [INPUT, OUTPUT]].any():
        raise OptionError(
            "the file's schedule has no chunks to move: let a gpu have i_chunks or o_chunks of 1 "
            "or more"
        )
    return given.ranks
