"""Which algorithm to take: the least simulated time, on the fabric that is there.

The formulas of start-up, wire and reduction rank the algorithms: `algorithm_phases` says what is
under way together and `collectives.pricing` what it costs. The best of them are simulated.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ubnet.errors import NoRoute, ScheduleError
from ubnet.fabric import Fabric, Ints
from ubnet.schedule import Schedule
from ubnet.transport import WRITE, Transport
from ubnet.units import PS_PER_S

from .algorithm_phases import PHASES
from .grid import grid_of
from .phase import Phase, messages, of_schedule
from .pricing import Parts, Pricing
from .registry import Operation
from .registry import operation as find


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm with its modelled time, in picoseconds.

    Attributes
    ----------
    algorithm, transport : str
        What is chosen, and how the bytes move.
    time_ps, startup_ps, wire_ps, reduction_ps : float
        The time, and its three parts: start-ups with switches and cables, bytes with what each
        message costs its engine, and combining elements.
    messages : float
        How many messages it sends, about.
    """

    algorithm: str
    transport: str
    time_ps: float
    startup_ps: float
    wire_ps: float
    reduction_ps: float
    messages: float = 0.0

    @classmethod
    def of(cls, algorithm: str, transport: str, parts: Parts, messages: float) -> "Candidate":
        """Return the candidate with these parts, which are in seconds."""
        startup, wire, reduction = (float(part) * PS_PER_S for part in parts)
        time = startup + wire + reduction
        return cls(algorithm, transport, time, startup, wire, reduction, messages)


def choose(
    operation: str,
    fabric: Fabric,
    endpoints: Ints,
    count: int,
    itemsize: int = 4,
    *,
    root: int = 0,
    chunks: int = 1,
    commutative: bool = True,
    transport: str = "auto",
    plane: str | None = None,
    op: str = WRITE,
) -> tuple[str, list[Candidate]]:
    """Return the algorithm with the least modelled time, and why.

    Parameters
    ----------
    operation : str
        The operation's name.
    fabric : Fabric
        Where it runs.
    endpoints : ndarray of int64, shape (ranks,)
        The endpoint of every rank.
    count, itemsize : int
        Elements as the builders count them (of all_to_all_v the mean for a peer), and their bytes.
    root, chunks : int
        As for the builders; chunks only count where an algorithm has them.
    commutative : bool
        Whether a reduction may change the order of its operands.
    transport : str
        A transport's name, or ``auto``: the best one of `plane` for each algorithm.
    plane : str, optional
        The plane for ``auto``, by default the fabric's first.
    op : {"write", "read"}
        Whether the source writes or the destination reads.

    Returns
    -------
    algorithm : str
    candidates : list of Candidate
        The fastest first; of equal ones that which the registry names first.

    Raises
    ------
    NoRoute
        If no transport joins the ranks.
    """
    known = find(operation)
    places = np.asarray(endpoints, dtype=np.int64)
    ways = transports(fabric, transport, plane)
    names = known.candidates(commutative=commutative)
    if len(places) < 2 or (count == 0 and known.name != "barrier"):
        return names[0], [Candidate(name, ways[0].name, 0, 0, 0, 0) for name in names]
    pricing = [Pricing(fabric, way, op, places, itemsize) for way in ways]
    candidates = []
    for name in names:
        try:
            phases = phases_of(known, name, fabric, places, count, root, chunks)
        except ScheduleError:
            continue  # not for these ranks: no levels of equal size
        candidates.append(_fastest(name, phases, pricing))
    candidates.sort(key=lambda candidate: candidate.time_ps)
    return candidates[0].algorithm, candidates


def phases_of(
    known: Operation,
    name: str,
    fabric: Fabric,
    endpoints: Ints,
    count: int,
    root: int = 0,
    chunks: int = 1,
) -> list[Phase]:
    """Return what an algorithm does at a time, from its formula or from its schedule.

    Raises
    ------
    ScheduleError
        If the algorithm is not for these ranks.
    """
    ranks = len(endpoints)
    if name == "hierarchical":
        _check_grid(known, fabric, endpoints)
    if (known.name, name) in PHASES:
        return PHASES[known.name, name](ranks, count, root, chunks)
    schedule = made(known, name, fabric, endpoints, count, root=root, chunks=chunks)
    return of_schedule(schedule, together=2 if name == "double_tree" else 1)


def _check_grid(known: Operation, fabric: Fabric, endpoints: Ints) -> None:
    """Raise `ScheduleError` where composing levels makes no sense, or their form is not met."""
    grid = grid_of(fabric, endpoints)
    if 1 in grid.ranks.shape:
        raise ScheduleError("a single level is no composition")
    if not grid.in_order and known.name not in ("all_reduce", "broadcast", "reduce"):
        raise ScheduleError(f"{known.name} on levels needs ranks that follow each other")


def made(
    known: Operation,
    name: str,
    fabric: Fabric,
    endpoints: Ints,
    count: int,
    *,
    root: int = 0,
    chunks: int = 1,
) -> Schedule:
    """Make the schedule of a candidate; uneven operations get equal parts."""
    options: dict[str, Any] = {"root": root} if known.rooted else {}
    if name == "hierarchical":
        options["grid"] = grid_of(fabric, endpoints)
    if name in known.chunked:
        options["chunks"] = chunks
    make = known.algorithms[name]
    if known.uneven == "ranks":
        return make([count] * len(endpoints), **options)
    if known.uneven == "pairs":
        ranks = len(endpoints)
        column = [count] * ranks, list(range(0, ranks * count + 1, max(count, 1)))[:ranks]
        return make([(*column, *column)] * ranks)
    return make(len(endpoints), count, **options)


def transports(fabric: Fabric, name: str, plane: str | None = None) -> list[Transport]:
    """Return the transport called `name`, or for ``auto`` all of the plane in their order.

    Raises
    ------
    NoRoute
        If there is none.
    """
    if name != "auto":
        return [fabric.transport(name)]
    return fabric.automatic_transports(plane or next(iter(fabric.planes), ""))


def _fastest(algorithm: str, phases: list[Phase], pricing: list[Pricing]) -> Candidate:
    """Return an algorithm by the fastest transport that joins its ranks."""
    found, refused, sent = [], [], messages(phases)
    for way in pricing:
        try:
            found.append(Candidate.of(algorithm, way.transport.name, way.price(phases), sent))
        except NoRoute as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return min(found, key=lambda candidate: candidate.time_ps)
