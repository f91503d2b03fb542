"""``ubnet explain OP SIZE``: why the automatic choice takes the algorithm that it takes."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from ubnet.cli.options import fabric_options, place_option
from ubnet.cli.sizes import parse_sizes

SMALLEST, LARGEST = 1 << 10, 1 << 30
"""Sizes between which crossings are looked for."""


@click.command("explain")
@click.argument("op")
@click.argument("size", callback=lambda ctx, param, value: _one_size(value))
@click.option("--chunks", type=int, default=1, show_default=True, help="Of a ring's block.")
@click.option("--root", type=int, default=0, show_default=True, help="Of a rooted operation.")
@click.option("--no-crossings", is_flag=True, help="Leave out the sizes at which the choice turns.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the winner's run (ranks down, time across) and the load of each tier.",
)
@click.option("--ranks", type=int, help="How many; by default all that --place holds.")
@place_option
@fabric_options
def explain(op: str, size: int, no_crossings: bool, **options: Any) -> None:
    """Print the algorithms of OP at SIZE (S of ubnet bench) with the parts of their times.

    Start-up (with switches and cables), wire (with what messages and targets cost the engines) and
    reduction are by formula; the best ones are simulated, and the least simulated time wins.
    """
    _explain(op, size, no_crossings, **options)


def _one_size(value: str) -> int:
    sizes = parse_sizes(value)
    if len(sizes) != 1:
        raise click.BadParameter(f"{value!r} is not one size; give one, such as 1MiB")
    return sizes[0]


def _explain(
    op: str,
    size: int,
    no_crossings: bool,
    *,
    chunks: int,
    root: int,
    ranks: int | None,
    place: str | list[str],
    plot: Path | None,
    **way_options: Any,
) -> None:
    from ubnet.cli.options import choose_ways
    from ubnet.collectives.registry import operation
    from ubnet.place import all_places, place_ranks

    way = choose_ways(**way_options)[0]
    number = len(all_places(way.fabric, place)) if ranks is None else ranks
    why = Explanation(
        operation(op),
        way.fabric,
        place_ranks(way.fabric, number, place),
        {"transport": way.transport, "plane": way.plane, "root": root, "chunks": chunks},
    )
    for line in why.lines(size, plot):
        click.echo(line)
    if not no_crossings:
        for line in why.crossings():
            click.echo(line)


class Explanation:
    """Says how the choice is made for one operation on one set of ranks.

    Parameters
    ----------
    known : Operation
        What is done.
    fabric : Fabric
        Where.
    endpoints : ndarray of int64, shape (ranks,)
        The places of the ranks.
    question : dict
        Transport, plane, root and chunks, as `ubnet.collectives.choose` takes them.
    """

    itemsize = 4

    def __init__(self, known: Any, fabric: Any, endpoints: Any, question: dict[str, Any]) -> None:
        self.known = known
        self.fabric = fabric
        self.endpoints = np.asarray(endpoints)
        self.question = question

    def lines(self, size: int, plot: Path | None = None) -> list[str]:
        """Return the table of candidates, the winner and its bound; draw its run if wanted."""
        from ubnet.collectives.choice import made
        from ubnet.collectives.decision import weigh
        from ubnet.timing import time_schedule
        from ubnet.units import format_size, format_time

        count, ranks = self._count(size), len(self.endpoints)
        used = self.known.size_of(count, ranks, self.itemsize)
        decision = weigh(
            self.known.name, self.fabric, self.endpoints, count, self.itemsize, **self.question
        )
        found = [
            f"{self.known.name} of {format_size(used)} on {ranks} ranks of {self.fabric.name}",
            f"{'algorithm':22s} formula us  start-up    wire  reduction  simulated us  transport",
        ]
        for c in decision.candidates:
            parts = c.startup_ps, c.wire_ps, c.reduction_ps
            start, wire, reduction = (part / max(c.time_ps, 1) for part in parts)
            simulated = decision.simulated_ps.get(c.algorithm)
            shown = f"{simulated / 1e6:12.2f}" if simulated is not None else f"{'-':>12s}"
            mark = "*" if c.algorithm == decision.algorithm else " "
            found.append(
                f"{mark}{c.algorithm:21s} {c.time_ps / 1e6:11.2f} {start:8.0%} {wire:7.0%} "
                f"{reduction:9.0%}  {shown}  {c.transport}"
            )
        winner = next(c for c in decision.candidates if c.algorithm == decision.algorithm)
        options = {name: self.question[name] for name in ("root", "chunks")}
        schedule = made(self.known, winner.algorithm, self.fabric, self.endpoints, count, **options)
        timing = time_schedule(
            schedule, self.fabric, self.endpoints, self.itemsize, winner.transport
        )
        if plot is not None:
            from ubnet.report.space_time import plot_run

            plot_run(schedule, timing, self.fabric, plot, f"{found[0]}: {winner.algorithm}")
        how = "least simulated time" if decision.simulated_ps else "least time by formula"
        found += [
            f"taken: {winner.algorithm} ({how}): {format_time(timing.time_ps)}",
            f"bound of the fabric for its transfers: {format_time(timing.lower_bound_ps)} "
            f"({timing.efficiency:.1%} of the time), by {timing.busiest or 'latency alone'}",
        ]
        return found

    def crossings(self) -> list[str]:
        """Return the sizes at which another algorithm becomes the fastest by formula."""
        from ubnet.units import format_size

        if self.known.name == "barrier":
            return []
        found, size = [], SMALLEST
        best = first = self._best(size)
        while size < LARGEST:
            larger = self._best(size * 4)
            if larger != best:
                middle = self._best(size * 2)
                for at, name, before in ((size * 2, middle, best), (size * 4, larger, middle)):
                    if name != before:
                        found.append(f"{name} from {format_size(at)}")
            best, size = larger, size * 4
        turns = ", then ".join(found) or f"up to {format_size(LARGEST)}, too"
        return [f"by size: {first} at {format_size(SMALLEST)}, {turns}"]

    def _count(self, size: int) -> int:
        count: int = self.known.count_of(size, len(self.endpoints), self.itemsize)
        return count

    def _best(self, size: int) -> str:
        from ubnet.collectives.choice import choose

        return choose(
            self.known.name,
            self.fabric,
            self.endpoints,
            max(self._count(size), 1),
            self.itemsize,
            **self.question,
        )[0]
