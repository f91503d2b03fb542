"""Checks of a fabric: that it is whole, and what its pairs, nodes and halves really get."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ubnet.errors import NoRoute
from ubnet.fabric import Fabric, Floats, Ints
from ubnet.pair_rates import BUDGET, Packages, resource_load
from ubnet.routing import graph_router
from ubnet.survey import bisection, node_uplinks, plane_endpoints, plane_members, plane_ports
from ubnet.units import format_rate

OK, FAULT, YES, NO = "ok", "FAULT", "yes", "no"
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    plane : str
        The plane; empty where it is about the whole fabric.
    claim : str
        What was asked.
    verdict : str
        ``ok`` or ``FAULT`` for what must hold, ``yes`` or ``no`` for what may.
    evidence : str
        The figures.
    """

    plane: str
    claim: str
    verdict: str
    evidence: str


def check_fabric(fabric: Fabric) -> Iterator[Finding]:
    """Yield the findings of all checks, in the order in which they are shown."""
    yield _loose_ends(fabric)
    yield _capacities(fabric)
    yield _both_ways(fabric)
    for plane in fabric.planes:
        if plane not in fabric.plane_names:
            yield Finding(plane, "it has links of its own", NO, "it uses those of other planes")
            continue
        joined = _joined(fabric, plane)
        yield joined
        members = plane_members(fabric, plane)
        if joined.verdict == OK and len(members) > 1:
            try:
                if len(np.unique(fabric.node_of[members])) > 1:
                    yield from _between_nodes(fabric, plane)
                yield _halves(fabric, plane)
            except NoRoute as error:
                yield Finding(plane, "the router finds all its pairs", FAULT, str(error))


def _loose_ends(fabric: Fabric) -> Finding:
    claim = "every endpoint and switch has links in and out"
    names = [fabric.vertex_name(v) for v in range(len(fabric.endpoints) + len(fabric.switches))]
    out, into = (np.bincount(c, minlength=len(names)) for c in (fabric.links.src, fabric.links.dst))
    loose = np.flatnonzero((out == 0) | (into == 0)).tolist()
    if loose:
        return Finding("", claim, FAULT, f"{len(loose)} have not: {_some(names[v] for v in loose)}")
    return Finding("", claim, OK, f"all {len(names):,}")


def _capacities(fabric: Fabric) -> Finding:
    claim = "capacities are above 0, and each resource carries what its links do"
    links = fabric.links
    total = np.zeros(len(fabric.capacity))
    np.add.at(total, links.resource, links.capacity)
    used = np.unique(links.resource)
    right = np.isclose(total[used], fabric.capacity[used], rtol=_EQUAL) & (
        fabric.capacity[used] > 0
    )
    if not right.all():
        names = _some(fabric.resource_names[i] for i in used[~right].tolist())
        return Finding("", claim, FAULT, f"{int((~right).sum())} do not: {names}")
    return Finding("", claim, OK, f"{len(links):,} directed links in {len(used):,} resources")


def _both_ways(fabric: Fabric) -> Finding:
    claim = "both directions between two vertices carry the same"
    links = fabric.links
    vertices = len(fabric.endpoints) + len(fabric.switches)
    forth = (links.plane * vertices + links.src) * vertices + links.dst
    back = (links.plane * vertices + links.dst) * vertices + links.src
    pairs, place = np.unique(np.concatenate([forth, back]), return_inverse=True)
    balance = np.zeros(len(pairs))
    np.add.at(balance, place, np.concatenate([links.capacity, -links.capacity]))
    uneven = pairs[np.abs(balance) > _EQUAL * links.capacity.max(initial=1.0)]
    if not len(uneven):
        return Finding("", claim, YES, f"{len(pairs):,} directed neighbours")
    a, b = (int(uneven[0]) // vertices % vertices, int(uneven[0]) % vertices)
    names = f"{fabric.vertex_name(a)} and {fabric.vertex_name(b)}"
    return Finding("", claim, NO, f"{len(uneven):,} directed neighbours differ, such as {names}")


def _joined(fabric: Fabric, plane: str) -> Finding:
    """Check that a plane's own links join all of its endpoints, in both directions."""
    claim = "every two endpoints are joined"
    ends = plane_endpoints(fabric, plane)
    router = graph_router(fabric, plane)
    src, dst, passing = router.links.src, router.links.dst, router.forwards
    lost, example = 0, ""
    groups = _alike(ends, src[passing[src]], dst[passing[src]])
    hops = router.hops(np.array([group[0] for group in groups], dtype=np.int64))
    for group, row in zip(groups, hops, strict=True):
        arrives = (passing[dst] & (row[dst] >= 0)) | (dst == group[0])
        starts = np.unique(src[arrives])
        apart = np.setdiff1d(ends, [*starts, *group] if len(group) == 1 else starts)
        if len(apart):
            lost += len(apart) * len(group)
            example = example or f"{router.names[apart[0]]} to {router.names[group[0]]}"
    if lost:
        return Finding(plane, claim, FAULT, f"{lost:,} ordered pairs are not, such as {example}")
    return Finding(plane, claim, OK, f"{len(ends):,} endpoints{_others(fabric, plane, ends)}")


def _others(fabric: Fabric, plane: str, ends: Ints) -> str:
    """Say how the endpoints without a port on a plane fare."""
    others = np.setdiff1d(np.arange(len(fabric.endpoints)), ends)
    if not len(others):
        return ""
    try:
        fabric.planes[plane].router.routes(others[:1], ends[-1:], np.zeros(1, dtype=np.int64))
    except NoRoute:
        return f"; the other {len(others):,} are not on it"
    return f"; the other {len(others):,} come to it over another plane"


def _alike(ends: Ints, src: Ints, dst: Ints) -> list[list[int]]:
    """Group endpoints that the same vertices lead to: what reaches one reaches all of them."""
    order = np.lexsort((src, dst))
    src, dst = src[order], dst[order]
    first, last = np.searchsorted(dst, ends), np.searchsorted(dst, ends, side="right")
    groups: dict[bytes, list[int]] = {}
    for end, a, b in zip(ends.tolist(), first.tolist(), last.tolist(), strict=True):
        groups.setdefault(np.unique(src[a:b]).tobytes(), []).append(end)
    return list(groups.values())


def _between_nodes(fabric: Fabric, plane: str) -> Iterator[Finding]:
    packages = Packages.of(fabric, plane)
    a, b, pairs = packages.far_pairs()
    rate, latency = packages.rates(a, b)
    yield _equal_pairs(packages, a, b, pairs, rate, latency)
    yield _most_possible(packages, a, b, rate)
    yield _one_to_one(fabric, plane)
    yield _shifts(fabric, plane)


def _equal_pairs(
    packages: Packages, a: Ints, b: Ints, pairs: int, rate: Floats, latency: Ints
) -> Finding:
    apart = "" if packages.noun == "nodes" else " on different nodes"
    claim = f"any two {packages.noun}{apart} get the same bandwidth"
    evidence = (
        f"all {pairs:,} ordered pairs" if pairs == len(a) else f"{len(a):,} of {pairs:,} pairs"
    )
    low, high = float(rate.min()), float(rate.max())
    same = high - low <= _EQUAL * high
    if same:
        evidence += f": {format_rate(high)} each"
    else:
        worst = int(np.argmin(rate))
        ends = [packages.fabric.endpoints[int(packages.members[p[worst], 0])].name for p in (a, b)]
        evidence += f": {format_rate(low)} ({ends[0]} to {ends[1]}) to {format_rate(high)}"
    shortest, longest = latency.min() / 1e6, latency.max() / 1e6
    evidence += f"; switches and cables {shortest:g}"
    evidence += " us" if shortest == longest else f" to {longest:g} us"
    return Finding(packages.plane, claim, YES if same else NO, evidence)


def _most_possible(packages: Packages, a: Ints, b: Ints, rate: Floats) -> Finding:
    claim = "a pair gets all that the cables allow (max-flow)"
    chosen = sorted({0, len(a) // 2, int(np.argmin(rate))})
    most = [packages.most(int(a[i]), int(b[i])) for i in chosen]
    reached = min(float(rate[i]) / m for i, m in zip(chosen, most, strict=True))
    verdict = YES if reached >= 1 - _EQUAL else NO
    shown = ", ".join(format_rate(m) for m in dict.fromkeys(most))
    return Finding(
        packages.plane,
        claim,
        verdict,
        f"{len(chosen)} pairs, the slowest among them: at most {shown}; "
        f"routing reaches {100 * reached:.4g} % or more",
    )


def _one_to_one(fabric: Fabric, plane: str) -> Finding:
    uplinks = node_uplinks(fabric, plane)
    has_dies = bool(uplinks.dies.any())
    claim = "a node's uplink carries all that its dies can send (1:1)"
    if not has_dies:
        claim = "a node's uplink carries all that its endpoints can send (1:1)"
    ratio = uplinks.convergence(everything=not has_dies)
    ports = uplinks.dies if has_dies else uplinks.others
    evidence = f"{len(ports)} nodes: at most {format_rate(float(ports.max()))} of ports, at least "
    evidence += f"{format_rate(float(min(uplinks.out.min(), uplinks.back.min())))} of uplink"
    if has_dies and uplinks.others.any():
        evidence += f"; {uplinks.convergence(everything=True):.2f}:1 with all other endpoints"
    return Finding(plane, claim, YES if ratio <= 1 + _EQUAL else NO, f"{ratio:.2f}:1, {evidence}")


def _shifts(fabric: Fabric, plane: str) -> Finding:
    """Let every endpoint send to its like on another node at full rate, for all distances."""
    claim = "when all send to other nodes at full rate, no link is overfull"
    members = plane_members(fabric, plane)
    _, node, size = np.unique(fabric.node_of[members], return_inverse=True, return_counts=True)
    members = members[np.argsort(node, kind="stable")]
    node = np.sort(node)
    first = np.cumsum(size) - size
    within = np.arange(len(members)) - first[node]
    rate = plane_ports(fabric, plane)[members]
    router = fabric.planes[plane].router
    busiest, where, shifts = 0.0, "", range(1, len(size))
    probe = router.routes(members[:1], members[-1:], np.zeros(1, dtype=np.int64))
    affordable = max(1, BUDGET // max(1, len(probe.resource) * len(members)))
    shifts = shifts[:: -(-len(shifts) // affordable)]
    for shift in shifts:
        goal = (node + shift) % len(size)
        target = members[first[goal] + within % size[goal]]
        routes = router.routes(members, target, np.zeros(len(members), dtype=np.int64))
        used = resource_load(routes, rate, len(fabric.capacity)) / fabric.capacity
        if used.max() > busiest:
            busiest, where = float(used.max()), fabric.resource_names[int(used.argmax())]
    evidence = f"every endpoint to its like, {len(shifts)} distances in nodes: the fullest link, "
    evidence += f"{where}, is asked for {100 * busiest:.4g} % of its capacity"
    return Finding(plane, claim, YES if busiest <= 1 + _EQUAL else NO, evidence)


def _halves(fabric: Fabric, plane: str) -> Finding:
    """Compare the narrowest cut with what uniform traffic from half to half reaches."""
    claim = "uniform traffic between two halves fills their cut (bisection)"
    cut = bisection(fabric, plane)
    count, others = len(cut.first), len(cut.second)
    router = fabric.planes[plane].router
    probe = router.routes(cut.first[:1], cut.second[-1:], np.zeros(1, dtype=np.int64))
    turns = np.unique(
        np.linspace(
            0, others - 1, max(1, min(others, BUDGET // max(1, len(probe.resource) * count)))
        ).astype(np.int64)
    )
    src = np.repeat(cut.first, len(turns))
    dst = cut.second[(np.repeat(np.arange(count), len(turns)) + np.tile(turns, count)) % others]
    routes = router.routes(src, dst, np.zeros(len(src), dtype=np.int64))
    load = resource_load(routes, np.ones(len(src)), len(fabric.capacity)) / fabric.capacity
    reached = len(src) / float(load.max())
    evidence = f"{count} + {others} endpoints: cut {format_rate(cut.rate)} a direction, "
    evidence += f"{len(src):,} flows reach {format_rate(reached)}"
    return Finding(plane, claim, YES if reached >= cut.rate * (1 - _EQUAL) else NO, evidence)


def _some(names: Iterator[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (" ..." if len(listed) > 3 else "")
