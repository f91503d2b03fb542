"""Shortest-path routing on any graph: for fabrics that bring no router of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import NoRoute, OptionError, did_you_mean
from ubnet.fabric import Fabric, Floats, Ints, Links, Routes
from ubnet.fabric_builder import FabricBuilder
from ubnet.path_hash import path_hash

PATHS = ("spray", "ecmp", "hash")

# Flows routed in one go, so that a large all-to-all on many paths does not fill the memory.
_CHUNK = 1 << 14
_UNREACHED = -1


class _Front(NamedTuple):
    """Where the bytes of some flows are, a row for each flow and vertex."""

    flow: Ints
    vertex: Ints
    part: Floats
    latency: Ints


class _Steps(NamedTuple):
    """Links taken by flows, a row for each flow and link."""

    flow: Ints
    link: Ints
    part: Floats


@dataclass(frozen=True)
class GraphRouter:
    """Finds paths of the fewest links under one of three policies.

    ``spray`` splits a flow evenly over all next links on shortest paths, at every vertex;
    ``ecmp`` splits it over all such links of its source, and each part then takes one by hash;
    ``hash`` takes one everywhere. The latency of a split flow is that of its slowest path.

    Attributes
    ----------
    plane : str
        The plane's name, for errors.
    paths : str
        The policy.
    names : sequence of str
        The name of every vertex.
    links : Links
        The plane's directed links.
    vertex_latency_ps : ndarray of int64, shape (vertices,)
        What it costs to pass a vertex.
    forwards : ndarray of bool, shape (vertices,)
        Whether a vertex passes on what is not its own.

    Raises
    ------
    OptionError
        If there is no such policy.
    """

    plane: str
    paths: str
    names: Sequence[str]
    links: Links
    vertex_latency_ps: Ints
    forwards: NDArray[np.bool_]
    _out_ptr: Ints = field(init=False, repr=False)
    _out: Ints = field(init=False, repr=False)
    _hops: dict[int, Ints] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.paths not in PATHS:
            hint = did_you_mean(self.paths, PATHS)
            raise OptionError(f"paths is {self.paths!r} on plane {self.plane}; {hint}")
        degree = np.bincount(self.links.src, minlength=len(self.names))
        object.__setattr__(self, "_out_ptr", np.concatenate([[0], np.cumsum(degree)]))
        object.__setattr__(self, "_out", np.argsort(self.links.src, kind="stable"))

    def routes(self, src: Ints, dst: Ints, flow: Ints) -> Routes:
        """Return the routes of flows from `src` to `dst`.

        Raises
        ------
        NoRoute
            If the plane does not join a pair.
        """
        nothing = np.zeros(0, dtype=np.int64)
        steps = [_Steps(nothing, nothing, np.zeros(0))]
        latency = np.zeros(len(src), dtype=np.int64)
        for first in range(0, len(src), _CHUNK):
            part = slice(first, first + _CHUNK)
            taken, latency[part] = self._walk(src[part], dst[part], flow[part])
            steps += [step._replace(flow=step.flow + first) for step in taken]
        return self._collect(steps, latency)

    def hops(self, targets: Ints) -> Ints:
        """Return the links from every vertex to each target, shape (targets, vertices); -1 = none.

        Vertices that do not forward can begin and end a path only.
        """
        missing = np.array([t for t in targets.tolist() if t not in self._hops], dtype=np.int64)
        if len(missing):
            self._hops.update(zip(missing.tolist(), self._search(missing), strict=True))
        return np.stack([self._hops[t] for t in targets.tolist()])

    def _search(self, targets: Ints) -> Ints:
        """Search breadth first from all targets at once, against the links' direction."""
        found = np.full((len(targets), len(self.names)), _UNREACHED, dtype=np.int64)
        found[np.arange(len(targets)), targets] = 0
        passable = self.forwards[self.links.dst]
        level = 0
        while (found == level).any():
            open_links = (found[:, self.links.dst] == level) & (passable | (level == 0))
            row, link = np.nonzero(open_links)
            new = found[row, self.links.src[link]] == _UNREACHED
            level += 1
            found[row[new], self.links.src[link[new]]] = level
        return found

    def _walk(self, src: Ints, dst: Ints, flow: Ints) -> tuple[list[_Steps], Ints]:
        """Take all flows from source to destination, one link at a time."""
        targets, target = np.unique(dst, return_inverse=True)
        hops = self.hops(targets)
        lost = np.flatnonzero(hops[target, src] == _UNREACHED)
        if len(lost):
            a, b = (self.names[int(ends[lost[0]])] for ends in (src, dst))
            raise NoRoute(f"plane {self.plane} has no way from {a} to {b}")
        seed = path_hash(src, dst, flow)
        latency = np.zeros(len(src), dtype=np.int64)
        moving = np.flatnonzero(src != dst)
        front = _Front(moving, src[moving], np.ones(len(moving)), latency[moving])
        steps: list[_Steps] = []
        while len(front.flow):
            row, link = self._next_links(front, target, dst, hops)
            if self.paths == "hash" or (self.paths == "ecmp" and steps):
                row, link = _one_each(row, link, path_hash(seed[front.flow], front.vertex))
            part = front.part[row] / np.bincount(row, minlength=len(front.flow))[row]
            steps.append(_Steps(front.flow[row], link, part))
            front = self._arrive(front, row, link, part)
            home = front.vertex == dst[front.flow]
            latency[front.flow[home]] = front.latency[home]
            front = _Front(*(column[~home] for column in front))
        return steps, latency

    def _next_links(self, front: _Front, target: Ints, dst: Ints, hops: Ints) -> tuple[Ints, Ints]:
        """Return, for each row of the front, its links on shortest paths."""
        first, last = self._out_ptr[front.vertex], self._out_ptr[front.vertex + 1]
        degree = last - first
        row = np.repeat(np.arange(len(degree)), degree)
        ahead = np.arange(len(row)) - np.repeat(np.cumsum(degree) - degree, degree)
        link = self._out[first[row] + ahead]
        after = self.links.dst[link]
        goal = target[front.flow[row]]
        nearer = hops[goal, after] == hops[goal, front.vertex[row]] - 1
        nearer &= self.forwards[after] | (after == dst[front.flow[row]])
        return row[nearer], link[nearer]

    def _arrive(self, front: _Front, row: Ints, link: Ints, part: Floats) -> _Front:
        """Move over the links; what meets at a vertex becomes one row, as late as the last."""
        vertex = self.links.dst[link]
        late = front.latency[row] + self.links.latency_ps[link] + self.vertex_latency_ps[vertex]
        key = front.flow[row] * len(self.names) + vertex
        met, place = np.unique(key, return_inverse=True)
        latest = np.zeros(len(met), dtype=np.int64)
        np.maximum.at(latest, place, late)
        sums = np.zeros(len(met))
        np.add.at(sums, place, part)
        return _Front(met // len(self.names), met % len(self.names), sums, latest)

    def _collect(self, steps: list[_Steps], latency: Ints) -> Routes:
        """Sort steps by flow, and sum the parts on links of one bundle."""
        flow, link, part = (np.concatenate(column) for column in zip(*steps, strict=True))
        resource = self.links.resource[link]
        key = flow * (int(self.links.resource.max(initial=0)) + 1) + resource
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        share = np.zeros(len(first))
        np.add.at(share, place, part)
        order = np.lexsort((first, flow[first]))
        counts = np.bincount(flow[first], minlength=len(latency))
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Routes(ptr, resource[first][order], share[order], latency)


def add_graph_plane(
    build: FabricBuilder, plane: str, paths: str, *, forwards: Sequence[int] = ()
) -> None:
    """Add a plane that routes by shortest paths over the links that it has got so far.

    Parameters
    ----------
    build : FabricBuilder
        Holds all vertices and the plane's links already.
    plane, paths : str
        The plane's name and policy.
    forwards : sequence of int
        Endpoints that pass on what is not their own. Switches always do; on a plane without
        switches, such as a torus of dies, all endpoints do.
    """
    links, endpoints = build.links_of(plane), build.endpoint_count
    latency = build.vertex_latency_ps()
    passing = np.arange(len(latency)) >= endpoints
    passing[list(forwards)] = True
    if not (links.dst >= endpoints).any():
        passing[:] = True
    router = GraphRouter(plane, paths, build.vertex_names(), links, latency, passing)
    build.add_plane(plane, paths, router)


def graph_router(fabric: Fabric, plane: str) -> GraphRouter:
    """Return a router over a plane's own links, whatever the plane's router is.

    A plane that routes by shortest paths gives its own; elsewhere switches alone forward.
    """
    router = fabric.plane(plane).router
    if isinstance(router, GraphRouter):
        return router
    mine = fabric.links.plane == fabric.plane_names.index(plane)
    links = Links(*(getattr(fabric.links, column.name)[mine] for column in fields(Links)))
    endpoints, switches = len(fabric.endpoints), len(fabric.switches)
    names = [fabric.vertex_name(vertex) for vertex in range(endpoints + switches)]
    latency = np.array([0] * endpoints + [s.latency_ps for s in fabric.switches], dtype=np.int64)
    passing = np.arange(len(names)) >= endpoints
    return GraphRouter(plane, "spray", names, links, latency, passing)


def _one_each(row: Ints, link: Ints, hashed: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Keep one link of each row: the one that its hash names, counted in the links' order."""
    count = np.bincount(row, minlength=len(hashed))
    choice = (hashed % np.maximum(count, 1).astype(np.uint64)).astype(np.int64)
    kept = np.cumsum(count) - count + choice
    kept = kept[count > 0]
    return row[kept], link[kept]
