"""What a fabric is once it stands: endpoints, switches, links and planes, frozen into arrays.

A *resource* is what the flow engine shares out: a link, a bundle of parallel links that every flow
uses in equal shares, or an engine of an endpoint. Routes and flows speak of resources; links keep
their own names for the reader and for export.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import FabricError, NoRoute, did_you_mean

if TYPE_CHECKING:
    from ubnet.transport import Transport

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SELF, PACKAGE, NODE, FAR = 0, 1, 2, 3
"""How far two endpoints are apart: the same one, one package, one node, different nodes."""

KINDS = ("die", "cpu", "nic")
"""What an endpoint can be; ranks sit on dies and CPUs."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A die, a CPU socket or a NIC: where bytes start and end.

    Attributes
    ----------
    index : int
        Its number in the fabric.
    name : str
        A name people can read, such as ``node03.npu5.die1``.
    kind : str
        ``die``, ``cpu`` or ``nic``.
    node, package, rack : int
        Where it sits; endpoints of one package share an NPU.
    """

    index: int
    name: str
    kind: str
    node: int
    package: int
    rack: int


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes of many flows, as columns.

    Attributes
    ----------
    ptr : ndarray of int64, shape (flows + 1,)
        Flow ``i`` uses the entries ``ptr[i]`` to ``ptr[i + 1]``.
    resource : ndarray of int64
        The resource of each entry.
    share : ndarray of float64
        The share of the flow that the entry carries.
    latency_ps : ndarray of int64, shape (flows,)
        Switches and cables on the way, in picoseconds.
    """

    ptr: Ints
    resource: Ints
    share: Floats
    latency_ps: Ints


class Router(Protocol):
    """How a plane finds its way; topologies bring their own."""

    def routes(self, src: Ints, dst: Ints, flow: Ints) -> Routes:
        """Return the routes of flows from `src` to `dst` (endpoint numbers, one a flow).

        `flow` numbers the flows of a pair, for policies that hash.
        """
        ...


@dataclass(frozen=True, slots=True)
class Plane:
    """A set of links with a routing policy: ub, rdma or vpc.

    Attributes
    ----------
    name : str
        The plane's name.
    paths : str
        The policy in force: ``spray``, ``ecmp`` or ``hash``.
    router : Router
        What finds the routes under that policy.
    """

    name: str
    paths: str
    router: Router = field(repr=False)


@dataclass(frozen=True, slots=True)
class Links:
    """The directed links of a fabric, as columns.

    Attributes
    ----------
    src, dst : ndarray of int64
        Vertex numbers; endpoints come first, switches after them.
    capacity : ndarray of float64
        Bytes per second.
    latency_ps : ndarray of int64
        Latency of the cable, in picoseconds.
    plane, tier : ndarray of int64
        Indices into ``Fabric.plane_names`` and ``Fabric.tier_names``.
    resource : ndarray of int64
        The resource that the link belongs to.
    """

    src: Ints
    dst: Ints
    capacity: Floats
    latency_ps: Ints
    plane: Ints
    tier: Ints
    resource: Ints

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch chip: its name, tier (``L1``, ``L2`` ...), rack and latency in picoseconds."""

    name: str
    tier: str
    rack: int
    latency_ps: int


@dataclass(frozen=True, eq=False)
class Fabric:
    """A whole fabric, frozen; made by `ubnet.fabric_builder.FabricBuilder`.

    Attributes
    ----------
    name : str
        What the command line calls it.
    endpoints : tuple of Endpoint
        Every endpoint, in the order of their numbers.
    switches : tuple of Switch
        Every switch; switch ``i`` is vertex ``len(endpoints) + i``.
    links : Links
        The directed links.
    planes : dict of str to Plane
        The planes, the default one first.
    transports : dict of str to Transport
        How bytes can be moved, by name; the default one first.
    engines : dict of str to ndarray of int64, shape (endpoints,)
        For each kind of engine (``write``, ``read`` ...) the resource of every endpoint, -1 = none.
    capacity : ndarray of float64, shape (resources,)
        What each resource carries, in bytes/s.
    resource_names, resource_tiers : tuple of str
        The name and tier of every resource.
    memory_rate : ndarray of float64, shape (endpoints,)
        Bytes/s at which an endpoint reduces what arrives (operand bytes), inf = costs no time.
    options : dict
        The options it was built with, for the first line of a table.
    kinds : tuple of str
        The kinds of endpoints there are.
    kind_of, node_of, package_of : ndarray of int64, shape (endpoints,)
        Kind (an index into `kinds`), node and package of every endpoint.
    """

    name: str
    endpoints: tuple[Endpoint, ...]
    switches: tuple[Switch, ...]
    links: Links
    plane_names: tuple[str, ...]
    tier_names: tuple[str, ...]
    planes: Mapping[str, Plane]
    transports: Mapping[str, "Transport"]
    engines: Mapping[str, Ints]
    capacity: Floats
    resource_names: tuple[str, ...]
    resource_tiers: tuple[str, ...]
    memory_rate: Floats
    options: Mapping[str, Any]
    kinds: tuple[str, ...] = field(init=False)
    kind_of: Ints = field(init=False)
    node_of: Ints = field(init=False)
    package_of: Ints = field(init=False)
    _index: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        kinds = tuple(dict.fromkeys(e.kind for e in self.endpoints))
        place = {
            "kinds": kinds,
            "kind_of": np.array([kinds.index(e.kind) for e in self.endpoints], dtype=np.int64),
            "node_of": np.array([e.node for e in self.endpoints], dtype=np.int64),
            "package_of": np.array([e.package for e in self.endpoints], dtype=np.int64),
            "_index": {e.name: e.index for e in self.endpoints},
        }
        for name, value in place.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        kinds: dict[str, int] = {}
        for endpoint in self.endpoints:
            kinds[endpoint.kind] = kinds.get(endpoint.kind, 0) + 1
        parts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return f"<Fabric {self.name}: {parts}, {len(self.links)} links>"

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint called `name`.

        Raises
        ------
        FabricError
            If there is none; the message names the nearest ones.
        """
        index = self._index.get(name)
        if index is None:
            hint = did_you_mean(name, self._index)
            raise FabricError(f"fabric {self.name} has no endpoint {name!r}; {hint}")
        return self.endpoints[index]

    def check_endpoints(self, *columns: Ints) -> None:
        """Raise `FabricError` where a column holds what is no number of an endpoint."""
        count = len(self.endpoints)
        for column in columns:
            if len(column) and (column.min() < 0 or column.max() >= count):
                wrong = int(column[(column < 0) | (column >= count)][0])
                raise FabricError(
                    f"fabric {self.name} has no endpoint number {wrong}: give 0 to {count - 1}"
                )

    def of_kind(self, kind: str) -> Ints:
        """Return the numbers of all endpoints of a kind, in order."""
        found = [e.index for e in self.endpoints if e.kind == kind]
        return np.array(found, dtype=np.int64)

    def distance(self, src: Ints, dst: Ints) -> NDArray[np.int8]:
        """Return SELF, PACKAGE, NODE or FAR for each pair of endpoint numbers."""
        far = np.full(np.broadcast(src, dst).shape, FAR, dtype=np.int8)
        far[self.node_of[src] == self.node_of[dst]] = NODE
        far[self.package_of[src] == self.package_of[dst]] = PACKAGE
        far[src == dst] = SELF
        return far

    def vertex_name(self, vertex: int) -> str:
        """Return the name of an endpoint or, behind them, of a switch."""
        endpoints = len(self.endpoints)
        inside = vertex < endpoints
        return self.endpoints[vertex].name if inside else self.switches[vertex - endpoints].name

    def plane(self, name: str) -> Plane:
        """Return the plane called `name`, or raise `NoRoute` naming the planes there are."""
        if name not in self.planes:
            hint = did_you_mean(name, self.planes)
            raise NoRoute(f"fabric {self.name} has no plane {name!r}; {hint}")
        return self.planes[name]

    def automatic_transports(self, plane: str) -> list["Transport"]:
        """Return the transports of a plane among which ``auto`` chooses, the first one first.

        Raises
        ------
        NoRoute
            If the plane does not exist, or has none.
        """
        self.plane(plane)
        found = [t for t in self.transports.values() if t.plane == plane and t.automatic]
        if not found:
            planes = ", ".join(dict.fromkeys(t.plane for t in self.transports.values()))
            raise NoRoute(
                f"fabric {self.name} has no transport on plane {plane!r}; it has some on: {planes}"
            )
        return found

    def transport(self, name: str) -> "Transport":
        """Return the transport called `name`, or raise `NoRoute` naming those there are."""
        if name not in self.transports:
            hint = did_you_mean(name, self.transports)
            raise NoRoute(f"fabric {self.name} has no transport {name!r}; {hint}")
        return self.transports[name]
