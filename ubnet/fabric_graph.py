"""Fabrics from and to networkx graphs."""

import json
from collections.abc import Hashable, Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ubnet.errors import FabricError, UnitError, did_you_mean
from ubnet.fabric import KINDS, Fabric
from ubnet.fabric_builder import FabricBuilder
from ubnet.routing import add_graph_plane
from ubnet.transport import Transport, ideal_transports
from ubnet.units import MOST_PS, parse_rate, parse_time

if TYPE_CHECKING:
    import networkx as nx

ENDPOINT_KEYS = ("kind", "node", "package", "rack", "memory_rate", "forwards")
SWITCH_KEYS = ("tier", "latency_ps", "latency", "rack")
MOST_RACK = 1_000_000
EDGE_KEYS = ("capacity", "bandwidth", "latency_ps", "latency", "plane", "tier")


def to_networkx(fabric: Fabric) -> "nx.MultiDiGraph":
    """Return a fabric's vertices and directed links as a networkx graph.

    Vertices are called by their names. Endpoints have the attributes ``kind``, ``node``,
    ``package``, ``rack`` and ``memory_rate``; switches ``tier``, ``rack`` and ``latency_ps``;
    edges ``capacity`` (bytes/s), ``latency_ps``, ``plane`` and ``tier``.

    Examples
    --------
    >>> from ubnet import load_fabric
    >>> graph = to_networkx(load_fabric("cloudmatrix64"))
    >>> graph.number_of_edges("node03.l1.4", "plane4.l2.11")
    1
    """
    import networkx as nx

    graph = nx.MultiDiGraph(name=fabric.name)
    for e, memory in zip(fabric.endpoints, fabric.memory_rate.tolist(), strict=True):
        graph.add_node(
            e.name, kind=e.kind, node=e.node, package=e.package, rack=e.rack, memory_rate=memory
        )
    for s in fabric.switches:
        graph.add_node(s.name, tier=s.tier, rack=s.rack, latency_ps=s.latency_ps)
    names = list(graph)
    links = fabric.links
    columns = (links.src, links.dst, links.capacity, links.latency_ps, links.plane, links.tier)
    for src, dst, capacity, latency, plane, tier in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        graph.add_edge(
            names[src],
            names[dst],
            capacity=capacity,
            latency_ps=latency,
            plane=fabric.plane_names[plane],
            tier=fabric.tier_names[tier],
        )
    return graph


def from_networkx(
    graph: "nx.Graph",
    *,
    name: str = "",
    paths: str = "spray",
    transports: Iterable[Transport] = (),
) -> Fabric:
    """Build a fabric from a networkx graph; flows take shortest paths.

    Parameters
    ----------
    graph : networkx graph
        A node with the attribute ``tier`` is a switch, every other one an endpoint. Endpoints may
        have ``kind`` (default ``die``), ``node`` and ``package`` (default: each its own), ``rack``,
        ``memory_rate`` and ``forwards``; switches ``latency`` and ``rack``. An edge needs
        ``capacity`` or ``bandwidth``, in bytes/s or as a text such as ``400Gb/s``, and may have
        ``latency`` as a text or ``latency_ps``, ``plane`` and ``tier``. An edge of an undirected
        graph goes both ways.
    name : str
        The fabric's name; by default the graph's.
    paths : {"spray", "ecmp", "hash"}
        The policy of all planes.
    transports : iterable of Transport
        How bytes are moved; a plane without one gets an ideal one.

    Returns
    -------
    Fabric

    Raises
    ------
    FabricError
        If the graph has no endpoint, an edge no capacity, or an attribute is unknown or wrong.

    Examples
    --------
    >>> import networkx as nx
    >>> ring = nx.cycle_graph(4)
    >>> nx.set_edge_attributes(ring, "50GB/s", "capacity")
    >>> from_networkx(ring, name="ring")
    <Fabric ring: 4 die, 8 links>
    """
    if not hasattr(graph, "nodes") or not hasattr(graph, "edges"):
        raise FabricError(f"{graph!r} is no graph of networkx; give such as nx.cycle_graph(4)")
    title = name or str(graph.graph.get("name", "")) or "graph"
    build = FabricBuilder(title, {"paths": paths})
    vertices, forwards = _add_vertices(build, graph)
    planes = _add_edges(build, graph, vertices)
    for plane in planes:
        add_graph_plane(build, plane, paths, forwards=forwards)
    given = list(transports)
    for transport in given:
        if transport.plane not in planes:
            hint = did_you_mean(transport.plane, planes)
            raise FabricError(f"transport {transport.name}: no plane {transport.plane!r}; {hint}")
    for transport in [*given, *ideal_transports(planes, given)]:
        build.add_transport(transport)
    return build.build()


def read_graph(path: str | Path, *, paths: str = "spray") -> Fabric:
    """Read a fabric from a file of a networkx graph: GraphML, or node-link data as JSON.

    Parameters
    ----------
    path : str or Path
        A file that ends with ``.graphml`` (`networkx.write_graphml`) or ``.json``
        (`networkx.node_link_data`).
    paths : {"spray", "ecmp", "hash"}
        The policy of all planes.

    Raises
    ------
    FabricError
        If the file cannot be read or its graph is no fabric.
    """
    import networkx as nx

    path = Path(path)
    # What networkx raises for a file of another kind is all of these.
    broken = ValueError, LookupError, TypeError, AttributeError, SyntaxError, nx.NetworkXException
    try:
        if path.suffix == ".json":
            data = json.loads(path.read_text(encoding="utf-8"))
            # networkx before 3.4 called them links.
            graph = nx.node_link_graph(data, edges="edges" if "edges" in data else "links")
        else:
            graph = nx.read_graphml(path)
    except OSError as error:
        raise FabricError(f"cannot read fabric file {path}: {error.strerror}") from None
    except broken as error:
        raise FabricError(f"{path} is no graph of networkx: {error!r}") from None
    for _, _, data in graph.edges(data=True):
        # GraphML's own names of the edges say nothing about a fabric.
        data.pop("id", None)
    return from_networkx(graph, name=str(graph.graph.get("name", "")) or path.stem, paths=paths)


def _add_vertices(build: FabricBuilder, graph: "nx.Graph") -> tuple[dict[Hashable, int], list[int]]:
    """Add endpoints, then switches; return all numbers and the endpoints that forward."""
    vertices: dict[Hashable, int] = {}
    forwards = []
    nodes: dict[Hashable, int] = {}
    packages: dict[Hashable, int] = {}
    endpoints = [(v, data) for v, data in graph.nodes(data=True) if "tier" not in data]
    if not endpoints:
        raise FabricError("the graph has no endpoint: nodes with the attribute tier are switches")
    for vertex, data in endpoints:
        _check_keys(f"node {vertex!r}", data, ENDPOINT_KEYS)
        kind = data.get("kind", "die")
        if kind not in KINDS:
            hint = did_you_mean(str(kind), KINDS)
            raise FabricError(f"node {vertex!r} of the graph: kind is {kind!r}; {hint}")
        node = data.get("node", ("alone", vertex))
        package = (node, data.get("package", ("alone", vertex)))
        number = build.add_endpoints(
            [str(vertex)],
            kind,
            node=nodes.setdefault(node, len(nodes)),
            package=packages.setdefault(package, len(packages)),
            rack=_whole(f"node {vertex!r}", data, "rack", MOST_RACK, least=-1),
            memory_rate=_rate(f"node {vertex!r}", data, ("memory_rate",), np.inf),
        )
        vertices[vertex] = int(number[0])
        if data.get("forwards", False):
            forwards.append(vertices[vertex])
    for vertex, data in graph.nodes(data=True):
        if "tier" in data:
            place = f"switch {vertex!r}"
            _check_keys(place, data, SWITCH_KEYS)
            latency = _latency(place, data)
            rack = _whole(place, data, "rack", MOST_RACK, least=-1)
            added = build.add_switches(
                [str(vertex)], str(data["tier"]), latency_ps=latency, rack=rack
            )
            vertices[vertex] = int(added[0])
    return vertices, forwards


def _add_edges(
    build: FabricBuilder, graph: "nx.Graph", vertices: Mapping[Hashable, int]
) -> list[str]:
    """Add the edges, those of one plane and tier together; return the planes."""
    groups: dict[tuple[str, str], list[tuple[int, int, float, int]]] = {}
    for a, b, data in graph.edges(data=True):
        place = f"edge {a!r} - {b!r}"
        _check_keys(place, data, EDGE_KEYS)
        rate = _rate(place, data, ("capacity", "bandwidth"), None)
        row = (vertices[a], vertices[b], rate, _latency(place, data))
        names = (str(data.get("plane", "net")), str(data.get("tier", "link")))
        rows = groups.setdefault(names, [])
        rows.append(row)
        if not graph.is_directed():
            rows.append((row[1], row[0], *row[2:]))
    for (plane, tier), rows in groups.items():
        src, dst, capacity, latency = zip(*rows, strict=True)
        build.add_links(src, dst, capacity=capacity, latency_ps=latency, plane=plane, tier=tier)
    return list(dict.fromkeys(plane for plane, _ in groups))


def _check_keys(place: str, data: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for key in data:
        if key not in allowed:
            raise FabricError(
                f"{place} of the graph has the attribute {key!r}; allowed: {', '.join(allowed)}"
            )


def _rate(
    place: str, data: Mapping[str, Any], keys: tuple[str, ...], default: float | None
) -> float:
    found = [key for key in keys if key in data]
    if not found and default is not None:
        return default
    if len(found) != 1:
        raise FabricError(f"{place} of the graph needs one of {' or '.join(keys)}, in bytes/s")
    value = data[found[0]]
    try:
        rate = parse_rate(value) if isinstance(value, str) else float(value)
    except (UnitError, TypeError, ValueError) as error:
        raise FabricError(f"{place} of the graph: {found[0]} is wrong: {error}") from None
    # Only what is not limited at all, such as the memory of an endpoint, is infinite.
    if not 0 < rate < np.inf and not (rate == default == np.inf):
        raise FabricError(f"{place} of the graph: {found[0]} is {value!r}, give a rate above 0")
    return rate


def _whole(place: str, data: Mapping[str, Any], key: str, most: int, *, least: int = 0) -> int:
    """Return a whole number, by default 0; GraphML may have written it as a float."""
    value = data.get(key, 0)
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not least <= value <= most or value != int(value):
        raise FabricError(
            f"{place} of the graph: {key} is {value!r}, give a whole number from {least} to {most}"
        )
    return int(value)


def _latency(place: str, data: Mapping[str, Any]) -> int:
    if "latency" not in data:
        return _whole(place, data, "latency_ps", MOST_PS)
    value = data["latency"]
    if not isinstance(value, str):
        raise FabricError(
            f"{place} of the graph: latency is {value!r}; write latency='200ns' or "
            "latency_ps=200_000"
        )
    try:
        return parse_time(value)
    except UnitError as error:
        raise FabricError(f"{place} of the graph: latency: {error}") from None
