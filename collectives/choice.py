"""Which algorithm to take: the least time by the formulas, on the fabric that is there.

The formulas are those of start-up, wire and reduction (alpha, beta, gamma), but no constant stands
here: every hop brings its own start-up and rate, as `Transport.flows` gives them to the flow
engine, with what a message and many targets cost its engine. Messages that are under way together
share the resources on their routes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ubnet.errors import NoRoute
from ubnet.fabric import Fabric, Floats, Ints
from ubnet.transport import WRITE, Transport

from .phases import PHASES, Chain, Phase
from .registry import operation as find

PS_PER_S = 1e12


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
    """

    algorithm: str
    transport: str
    time_ps: float
    startup_ps: float
    wire_ps: float
    reduction_ps: float


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
    plane: str = "ub",
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
    plane, op : str
        The plane for ``auto``; whether the source writes or the destination reads.

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
    if len(places) < 2:
        return names[0], [Candidate(name, ways[0].name, 0, 0, 0, 0) for name in names]
    candidates = []
    for name in names:
        phases = PHASES[known.name, name](len(places), count, root, chunks)
        found = [_candidate(name, way, op, fabric, places, itemsize, phases) for way in ways]
        candidates.append(min(found, key=lambda candidate: candidate.time_ps))
    candidates.sort(key=lambda candidate: candidate.time_ps)
    return candidates[0].algorithm, candidates


def transports(fabric: Fabric, name: str, plane: str) -> list[Transport]:
    """Return the transport called `name`, or for ``auto`` all of the plane in their order."""
    if name != "auto":
        return [fabric.transport(name)]
    found = [way for way in fabric.transports.values() if way.plane == plane]
    if not found:
        raise NoRoute(f"fabric {fabric.name} has no transport on plane {plane!r}")
    return found


class Parts(NamedTuple):
    """Seconds of start-up, wire and reduction."""

    startup: float
    wire: float
    reduction: float


def _candidate(
    name: str,
    way: Transport,
    op: str,
    fabric: Fabric,
    places: Ints,
    itemsize: int,
    phases: list[Phase],
) -> Candidate:
    parts = np.zeros(3)
    for phase in phases:
        startup, busy, reduction = _messages(phase, way, op, fabric, places, itemsize)
        if isinstance(phase, Chain):
            parts += _chained(phase, startup, busy, reduction)
        else:
            parts += np.array(_together(startup, busy, reduction)) * phase.repeats
    shares = (float(seconds * PS_PER_S) for seconds in (parts.sum(), *parts))
    return Candidate(name, way.name, *shares)


def _messages(
    phase: Phase, way: Transport, op: str, fabric: Fabric, places: Ints, itemsize: int
) -> tuple[Floats, Floats, Floats]:
    """Return start-up, wire and reduction of each message in seconds, all under way at once."""
    chunks = phase.chunks if isinstance(phase, Chain) else 1
    src, dst = places[phase.src], places[phase.dst]
    piece = np.ceil(np.asarray(phase.count) / chunks) * itemsize
    flows = way.flows(fabric, op, src, dst, piece.astype(np.int64), targets=phase.targets)
    length = np.diff(flows.route_ptr)
    owner = np.repeat(np.arange(len(src)), length)
    work = flows.nbytes[owner] * flows.route_share * phase.weight
    load = np.bincount(flows.route_link, work, len(fabric.capacity)) / fabric.capacity
    busy = flows.nbytes / flows.rate_cap
    np.maximum.at(busy, owner, load[flows.route_link])
    reduction = phase.reduced / chunks * itemsize / fabric.memory_rate[dst]
    return flows.startup_ps / PS_PER_S, busy, reduction


def _together(startup: Floats, busy: Floats, reduction: Floats) -> Parts:
    """Return the parts of the message that ends last."""
    last = int(np.argmax(startup + busy + reduction))
    return Parts(startup[last], busy[last], reduction[last])


def _chained(chain: Chain, startup: Floats, busy: Floats, reduction: Floats) -> Parts:
    """Return the parts of the longest chain, or those of the hop that is never idle.

    Every piece passes its hops one after the other, each with its own times; and every hop
    carries its pieces one after the other. What is longer decides.
    """
    hop = startup + busy + reduction
    behind = (chain.chunks - 1) * max(hop[0], busy.max())
    path = _longest_path(hop, chain.hops)
    slowest = int(np.argmax(busy))
    carried = chain.passes * chain.chunks * busy[slowest]
    if hop[path].sum() + behind >= carried + startup[slowest] + reduction[slowest]:
        share = 1 + behind / hop[path].sum()
        sums = (float(part[path].sum() * share) for part in (startup, busy, reduction))
        return Parts(*sums)
    return Parts(startup[slowest], carried, reduction[slowest])


def _longest_path(hop: Floats, hops: int) -> Ints:
    """Return the run of hops, around the circle, whose times have the largest sum."""
    ends = np.concatenate([[0.0], np.cumsum(np.tile(hop, 2))])
    start = int(np.argmax(ends[hops : hops + len(hop)] - ends[: len(hop)]))
    path: Ints = (start + np.arange(hops)) % len(hop)
    return path
