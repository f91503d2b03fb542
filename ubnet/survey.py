"""What a fabric holds and carries, counted from its arrays: cables, capacities, bisection."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import Fabric, Floats, Ints


@dataclass(frozen=True, slots=True)
class Cables:
    """The cables of a plane between two sorts of vertices.

    Attributes
    ----------
    plane : str
        The plane.
    low, high : str
        What they join: a kind of endpoint or a tier of switches.
    cables, directed : int
        Cables, and directed links, of which a cable has one each way.
    rate : tuple of float
        The smallest and largest capacity of one link, in bytes/s.
    total : float
        The sum of all links one way, in bytes/s.
    latency_ps : tuple of int
        The smallest and largest latency of a cable.
    """

    plane: str
    low: str
    high: str
    cables: int
    directed: int
    rate: tuple[float, float]
    total: float
    latency_ps: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Uplinks:
    """What the nodes can send on a plane, and what leaves them: arrays over the nodes.

    Attributes
    ----------
    plane : str
        The plane.
    dies, others : ndarray of float64, shape (nodes,)
        The ports of a node's dies and of its other endpoints, in bytes/s.
    out, back : ndarray of float64, shape (nodes,)
        Links from inside a node to outside it and back, in bytes/s. A switch that serves the
        endpoints of one node alone is inside it.
    """

    plane: str
    dies: Floats
    others: Floats
    out: Floats
    back: Floats

    def convergence(self, *, everything: bool) -> float:
        """Return the largest ratio of ports to uplink, of dies alone or of all endpoints."""
        ports = self.dies + self.others if everything else self.dies
        return float(np.max(ports / np.minimum(self.out, self.back)))


@dataclass(frozen=True, slots=True)
class Bisection:
    """The narrowest cut found between two halves of the endpoints that a plane joins.

    Attributes
    ----------
    plane : str
        The plane.
    first, second : ndarray of int64
        The endpoints of both halves, dies where the plane has any.
    rate : float
        What the cut carries from the first to the second half, in bytes/s.
    """

    plane: str
    first: Ints
    second: Ints
    rate: float


def vertex_sorts(fabric: Fabric) -> tuple[list[str], Ints]:
    """Return the sorts of vertices (kinds, then tiers) and the sort of every vertex."""
    tiers = list(dict.fromkeys(s.tier for s in fabric.switches))
    sorts = [*fabric.kinds, *tiers]
    code = {tier: len(fabric.kinds) + i for i, tier in enumerate(tiers)}
    switches = [code[s.tier] for s in fabric.switches]
    return sorts, np.concatenate([fabric.kind_of, np.array(switches, dtype=np.int64)])


def count_cables(fabric: Fabric) -> list[Cables]:
    """Count the cables of every plane between every two sorts of vertices."""
    sorts, sort = vertex_sorts(fabric)
    links = fabric.links
    a, b = sort[links.src], sort[links.dst]
    low, high = np.minimum(a, b), np.maximum(a, b)
    key = (links.plane * len(sorts) + low) * len(sorts) + high
    found = []
    for code in np.unique(key):
        mine = key == code
        directed, up = int(mine.sum()), int((mine & (a < b)).sum())
        rate, latency = links.capacity[mine], links.latency_ps[mine]
        plane, low_sort, high_sort = (int(c[mine][0]) for c in (links.plane, low, high))
        same = low_sort == high_sort
        found.append(
            Cables(
                plane=fabric.plane_names[plane],
                low=sorts[low_sort],
                high=sorts[high_sort],
                cables=directed // 2 if same else max(up, directed - up),
                directed=directed,
                rate=(float(rate.min()), float(rate.max())),
                total=float(rate.sum()) / 2 if same else float(rate[a[mine] < b[mine]].sum()),
                latency_ps=(int(latency.min()), int(latency.max())),
            )
        )
    return found


def plane_endpoints(fabric: Fabric, plane: str) -> Ints:
    """Return the endpoints that have a link on a plane."""
    mine = _on_plane(fabric, plane)
    ends = np.union1d(fabric.links.src[mine], fabric.links.dst[mine])
    return ends[ends < len(fabric.endpoints)]


def plane_members(fabric: Fabric, plane: str) -> Ints:
    """Return the dies that have a link on a plane or, where none has, its endpoints."""
    ends = plane_endpoints(fabric, plane)
    dies = np.intersect1d(ends, fabric.of_kind("die"))
    return dies if len(dies) else ends


def node_uplinks(fabric: Fabric, plane: str) -> Uplinks:
    """Sum, for every node, its endpoints' ports and the links that leave it on a plane."""
    mine = _on_plane(fabric, plane)
    src, dst = fabric.links.src[mine], fabric.links.dst[mine]
    rate = fabric.links.capacity[mine]
    node = vertex_nodes(fabric, plane)
    nodes = int(fabric.node_of.max()) + 1
    ports = plane_ports(fabric, plane)
    is_die = np.isin(np.arange(len(ports)), fabric.of_kind("die"))
    leaves = (node[src] != node[dst]) & (node[src] >= 0)
    comes = (node[src] != node[dst]) & (node[dst] >= 0)
    return Uplinks(
        plane,
        dies=_sum(fabric.node_of, ports, is_die, nodes),
        others=_sum(fabric.node_of, ports, ~is_die, nodes),
        out=_sum(node[src], rate, leaves, nodes),
        back=_sum(node[dst], rate, comes, nodes),
    )


def plane_ports(fabric: Fabric, plane: str) -> Floats:
    """Return what every endpoint's ports on a plane carry away from it, in bytes/s.

    Links straight to another endpoint, such as those inside a package, count as ports on planes
    without switches only.
    """
    mine = _on_plane(fabric, plane)
    src, dst = fabric.links.src[mine], fabric.links.dst[mine]
    endpoints = len(fabric.endpoints)
    port = src < endpoints
    if (dst >= endpoints).any():
        port &= dst >= endpoints
    return _sum(src, fabric.links.capacity[mine], port, endpoints)


def vertex_nodes(fabric: Fabric, plane: str) -> Ints:
    """Return the node of every vertex on a plane; -1 for switches that serve several or none."""
    mine = _on_plane(fabric, plane)
    src, dst = fabric.links.src[mine], fabric.links.dst[mine]
    endpoints = len(fabric.endpoints)
    vertices = endpoints + len(fabric.switches)
    lowest, highest = np.full(vertices, np.iinfo(np.int64).max), np.full(vertices, -1)
    for end, switch in ((src, dst), (dst, src)):
        attached = (end < endpoints) & (switch >= endpoints)
        at = fabric.node_of[end[attached]]
        np.minimum.at(lowest, switch[attached], at)
        np.maximum.at(highest, switch[attached], at)
    node = np.where(lowest == highest, highest, -1)
    node[:endpoints] = fabric.node_of
    return node


def bisection(fabric: Fabric, plane: str) -> Bisection:
    """Return the narrowest of four cuts between the halves of a plane's endpoints.

    The halves are nodes where there are several, else endpoints, in the order of their numbers.
    The cuts run along the ports of either half, and along the switches that serve one half only.
    """
    members = plane_members(fabric, plane)
    places = fabric.node_of[members]
    if len(np.unique(places)) < 2:
        places = np.arange(len(members))
    kinds = np.unique(places)
    early = np.isin(places, kinds[: len(kinds) // 2])
    first, second = members[early], members[~early]
    mine = _on_plane(fabric, plane)
    src, dst = fabric.links.src[mine], fabric.links.dst[mine]
    rate = fabric.links.capacity[mine]
    near, far = (_side(fabric, half, src, dst) for half in (first, second))
    alone, rest = (np.isin(np.arange(len(near)), half) for half in (first, second))
    cuts = [alone, near & ~rest, ~(far & ~alone), ~rest]
    rates = [float(rate[side[src] & ~side[dst]].sum()) for side in cuts]
    return Bisection(plane, first, second, min(rates))


def _side(fabric: Fabric, half: Ints, src: Ints, dst: Ints) -> NDArray[np.bool_]:
    """Return the vertices of one half: its nodes' endpoints and the switches that serve no other.

    Endpoints of the same nodes (CPUs) come along, so that a node's switches stay with it.
    """
    endpoints = len(fabric.endpoints)
    nodes = np.unique(fabric.node_of[half])
    own = np.zeros(endpoints + len(fabric.switches), dtype=bool)
    if len(nodes) == len(np.unique(fabric.node_of)):
        own[half] = True
    else:
        own[:endpoints] = np.isin(fabric.node_of, nodes)
    serves, foreign = np.zeros_like(own), np.zeros_like(own)
    for end, switch in ((src, dst), (dst, src)):
        attached = (end < endpoints) & (switch >= endpoints)
        serves[switch[attached & own[end]]] = True
        foreign[switch[attached & ~own[end]]] = True
    own[serves & ~foreign] = True
    return own


def _on_plane(fabric: Fabric, plane: str) -> NDArray[np.bool_]:
    mine: NDArray[np.bool_] = fabric.links.plane == fabric.plane_names.index(plane)
    return mine


def _sum(group: Ints, rate: Floats, mine: NDArray[np.bool_], groups: int) -> Floats:
    total = np.zeros(groups)
    np.add.at(total, group[mine], rate[mine])
    return total
