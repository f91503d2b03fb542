"""What pairs of packages get on an idle fabric: by their routes, and at most by their cables."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ubnet.fabric import Fabric, Floats, Ints, Routes
from ubnet.survey import plane_members

if TYPE_CHECKING:
    import networkx as nx

# Route entries that one look may cost; more flows than that are sampled evenly.
BUDGET = 6_000_000


@dataclass(frozen=True)
class Packages:
    """The packages (NPUs) that a plane joins, with the endpoints of each.

    Attributes
    ----------
    fabric : Fabric
        The fabric.
    plane : str
        The plane.
    members : ndarray of int64, shape (packages, most endpoints of one)
        Endpoint numbers; a smaller package repeats its own.
    size : ndarray of int64, shape (packages,)
        Endpoints of each package.
    node : ndarray of int64, shape (packages,)
        The node of each package.
    """

    fabric: Fabric
    plane: str
    members: Ints
    size: Ints
    node: Ints

    @classmethod
    def of(cls, fabric: Fabric, plane: str) -> "Packages":
        """Group the endpoints of a plane (its dies, where it has any) by package."""
        ends = plane_members(fabric, plane)
        _, place, size = np.unique(fabric.package_of[ends], return_inverse=True, return_counts=True)
        ordered = ends[np.argsort(place, kind="stable")]
        first = np.cumsum(size) - size
        column = np.arange(size.max(initial=0))[None, :] % size[:, None]
        members = ordered[first[:, None] + column]
        return cls(fabric, plane, members, size, fabric.node_of[members[:, 0]])

    @property
    def noun(self) -> str:
        """What to call them."""
        if self.fabric.endpoints[int(self.members[0, 0])].kind != "die":
            return "endpoints"
        if len(np.unique(self.node)) == len(self.node):
            return "nodes"
        return "NPUs" if self.members.shape[1] > 1 else "dies"

    def far_pairs(self) -> tuple[Ints, Ints, int]:
        """Return ordered pairs on different nodes, evenly sampled, and how many there are."""
        a, b = np.nonzero(self.node[:, None] != self.node[None, :])
        if not len(a):
            return a, b, 0
        kept = np.linspace(0, len(a) - 1, min(len(a), self._affordable(a[0], b[0])), dtype=np.int64)
        return a[kept], b[kept], len(a)

    def rates(self, a: Ints, b: Ints) -> tuple[Floats, Ints]:
        """Return what each pair gets in bytes/s, and its latency in picoseconds.

        All endpoints of package `a` send to those of `b` at once, one flow each, at equal rates.
        """
        width = self.members.shape[1]
        pair = np.repeat(np.arange(len(a)), width)
        routes = self._routes(self.members[a].ravel(), self.members[b].ravel())
        load, owner, resource = _loads(routes, pair, len(self.fabric.capacity))
        slowest = np.full(len(a), np.inf)
        np.minimum.at(slowest, owner, self.fabric.capacity[resource] / load)
        latency = np.zeros(len(a), dtype=np.int64)
        np.maximum.at(latency, pair, routes.latency_ps)
        return slowest * width, latency

    def most(self, a: int, b: int) -> float:
        """Return the maximum flow from package `a` to package `b`, in bytes/s, by networkx."""
        import networkx as nx

        ends = [np.unique(self.members[p]).tolist() for p in (a, b)]
        graph = _cable_graph(self.fabric, self.plane, {*ends[0], *ends[1]})
        graph.add_edges_from(("source", end) for end in ends[0])
        graph.add_edges_from((end, "sink") for end in ends[1])
        return float(nx.maximum_flow_value(graph, "source", "sink"))

    def _affordable(self, a: int, b: int) -> int:
        probe = self._routes(self.members[a], self.members[b])
        return max(1, BUDGET // max(1, len(probe.resource)))

    def _routes(self, src: Ints, dst: Ints) -> Routes:
        router = self.fabric.planes[self.plane].router
        return router.routes(src, dst, np.zeros(len(src), dtype=np.int64))


def resource_load(routes: Routes, rate: Floats, resources: int) -> Floats:
    """Return the load of every resource, in bytes/s, when each flow runs at its rate."""
    load = np.zeros(resources)
    np.add.at(load, routes.resource, routes.share * np.repeat(rate, np.diff(routes.ptr)))
    return load


def _loads(routes: Routes, owner: Ints, resources: int) -> tuple[Floats, Ints, Ints]:
    """Sum the shares of the flows of one owner on each resource."""
    key = np.repeat(owner, np.diff(routes.ptr)) * resources + routes.resource
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    load = np.add.reduceat(routes.share[order], first) if len(first) else np.zeros(0)
    return load, ordered[first] // resources, ordered[first] % resources


def _cable_graph(fabric: Fabric, plane: str, ends: set[int]) -> "nx.DiGraph":
    """Return the cables of a plane between switches and the endpoints in question.

    Other endpoints do not pass bytes on, except where there are no switches at all.
    """
    import networkx as nx

    links = fabric.links
    mine = links.plane == fabric.plane_names.index(plane)
    endpoints = len(fabric.endpoints)
    direct = not (links.dst[mine] >= endpoints).any()
    graph = nx.DiGraph()
    columns = (links.src[mine], links.dst[mine], links.capacity[mine])
    for src, dst, rate in zip(*(column.tolist() for column in columns), strict=True):
        if direct or all(v >= endpoints or v in ends for v in (src, dst)):
            known = graph.get_edge_data(src, dst, {"capacity": 0.0})["capacity"]
            graph.add_edge(src, dst, capacity=known + rate)
    return graph
