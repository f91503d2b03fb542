"""The automatic choice: the formulas rank, the simulation decides, a table remembers.

What stands in the table follows from the question alone, and every entry carries the question and a
check sum: a table that is deleted, damaged or shared changes no answer, only how long it takes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ubnet.fabric import Fabric, Ints
from ubnet.timing import time_schedule
from ubnet.transport import WRITE

from .choice import Candidate, choose, made
from .decision_table import DecisionTable, fingerprint
from .registry import operation as find

SIMULATED = 3
"""How many candidates are simulated at most."""

WITHIN = 1.3
"""Those whose formula lies within this factor of the best one."""

LATE = {"double_tree": 2.0, "bidirectional_ring": WITHIN, "double_ring": WITHIN}
"""How much too long a formula may be: it counts the layers of a tree, which overlap, one by one,
and the reductions of two rings, each of which hides behind what the other one moves."""

DOUBT = 1.03
"""A formula counts for this much more than a simulated time beside which it stands."""

MESSAGES = 60_000
"""Messages of all simulated candidates together: more take longer than a second, and only the
formula speaks for them."""

CLASSES = 8
"""Classes of sizes between a power of two and the next: a class is decided by its smallest size."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was chosen, and why.

    Attributes
    ----------
    algorithm : str
        The choice.
    candidates : list of Candidate
        By their formulas, the fastest first.
    simulated_ps : dict of str to int
        The simulated times of those that were simulated.
    """

    algorithm: str
    candidates: list[Candidate]
    simulated_ps: dict[str, int]


def decide(
    operation: str,
    fabric: Fabric,
    endpoints: Ints,
    count: int,
    itemsize: int = 4,
    *,
    table: DecisionTable | None = None,
    **question: Any,
) -> str:
    """Return the algorithm with the least simulated time for the size class of a call.

    Parameters
    ----------
    operation, fabric, endpoints, count, itemsize
        As for `ubnet.collectives.choose`.
    table : DecisionTable, optional
        Where answers are kept, by default in the user's cache.
    **question
        The other arguments of `ubnet.collectives.choose`.
    """
    known = find(operation)
    places = np.asarray(endpoints, dtype=np.int64)
    asked = (
        fingerprint(),
        known.name,
        fabric_key(fabric),
        places.tobytes().hex(),
        class_of(count),
        itemsize,
        sorted(question.items()),
    )
    kept = table or DecisionTable.of_user()
    allowed = known.candidates(commutative=question.get("commutative", True))
    answer = kept.find(asked)
    if answer not in allowed:
        answer = weigh(operation, fabric, places, class_of(count), itemsize, **question).algorithm
        kept.keep(asked, answer)
    return answer


def weigh(
    operation: str, fabric: Fabric, endpoints: Ints, count: int, itemsize: int = 4, **question: Any
) -> Decision:
    """Rank the candidates by formula and simulate the best; nothing is remembered.

    The arguments are those of `ubnet.collectives.choose`.
    """
    known = find(operation)
    first, candidates = choose(operation, fabric, endpoints, count, itemsize, **question)
    best_ps = candidates[0].time_ps
    near = [c for c in candidates if c.time_ps <= WITHIN * best_ps][:SIMULATED]
    near += [c for c in candidates if c.algorithm in LATE and c not in near]
    near = [c for c in near if c.time_ps <= best_ps * LATE.get(c.algorithm, WITHIN)]
    if len(near) < 2 or candidates[0].time_ps == 0:
        return Decision(first, candidates, {})
    options = {name: question[name] for name in ("root", "chunks") if name in question}
    left, simulated = MESSAGES, {}
    for candidate in near:
        needed = candidate.messages
        if candidate.algorithm == "nhr":
            needed += 2 * len(endpoints) ** 2  # its slices are sorted one by one
        if needed > left:
            continue
        left -= int(needed)
        schedule = made(known, candidate.algorithm, fabric, endpoints, count, **options)
        simulated[candidate.algorithm] = time_schedule(
            schedule,
            fabric,
            endpoints,
            itemsize,
            candidate.transport,
            op=question.get("op", WRITE),
        ).time_ps
    times = {c.algorithm: simulated.get(c.algorithm, c.time_ps * DOUBT) for c in near}
    if not simulated:
        return Decision(first, candidates, {})
    return Decision(min(times, key=lambda name: times[name]), candidates, simulated)


def class_of(count: int) -> int:
    """Return the smallest count of a count's class.

    >>> [class_of(count) for count in (7, 1000, 1024, 1100, 1200)]
    [7, 960, 1024, 1024, 1152]
    """
    unit = 1 << max(count.bit_length() - CLASSES.bit_length(), 0)
    return count // unit * unit


def fabric_key(fabric: Fabric) -> str:
    """Return what tells a fabric apart: the digest of all that a time can depend on."""
    from hashlib import sha256

    digest = sha256(fabric.name.encode())
    links = fabric.links
    columns = [fabric.capacity, fabric.memory_rate, fabric.node_of, fabric.package_of]
    columns += [links.src, links.dst, links.capacity, links.latency_ps, links.plane, links.resource]
    columns += [fabric.engines[kind] for kind in sorted(fabric.engines)]
    for column in columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    planes = [(plane.name, plane.paths) for plane in fabric.planes.values()]
    transports = list(fabric.transports.values())
    options = sorted(fabric.options.items())
    for part in (planes, transports, options, fabric.switches, sorted(fabric.engines)):
        digest.update(repr(part).encode())
    return digest.hexdigest()
