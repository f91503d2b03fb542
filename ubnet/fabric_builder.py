"""How a fabric is put together: vertices, links, engines and planes, added block by block."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import FabricError
from ubnet.fabric import Endpoint, Fabric, Floats, Ints, Links, Plane, Router, Switch

if TYPE_CHECKING:
    from ubnet.transport import Transport


class FabricBuilder:
    """Collects the parts of a fabric; `build` freezes them.

    Endpoints must all be added before the first switch, since vertices are numbered in order.

    Parameters
    ----------
    name : str
        The fabric's name.
    options : mapping, optional
        The options it is built with, kept for display.
    """

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.options = dict(options or {})
        self._endpoints: list[Endpoint] = []
        self._switches: list[Switch] = []
        self._links: list[tuple[NDArray[Any], ...]] = []
        self._planes: dict[str, Plane] = {}
        self._plane_names: list[str] = []
        self._tier_names: list[str] = []
        self._transports: dict[str, Transport] = {}
        self._engines: dict[str, dict[int, int]] = {}
        self._capacity: list[Floats] = []
        self._resource_names: list[str] = []
        self._resource_tiers: list[str] = []
        self._memory_rate: dict[int, float] = {}

    def add_endpoints(
        self,
        names: Sequence[str],
        kind: str,
        *,
        node: ArrayLike,
        package: ArrayLike,
        rack: ArrayLike = 0,
        memory_rate: float = np.inf,
    ) -> Ints:
        """Add endpoints and return their numbers.

        `memory_rate` is the rate in bytes/s at which each reduces what arrives.
        """
        if self._switches:
            raise FabricError("endpoints must be added before switches")
        columns = [np.broadcast_to(np.asarray(c), len(names)) for c in (node, package, rack)]
        first = len(self._endpoints)
        for i, (name, n, p, r) in enumerate(zip(names, *columns, strict=True)):
            self._endpoints.append(Endpoint(first + i, name, kind, int(n), int(p), int(r)))
            self._memory_rate[first + i] = memory_rate
        return np.arange(first, first + len(names))

    def add_switches(
        self, names: Sequence[str], tier: str, *, latency_ps: int, rack: ArrayLike = 0
    ) -> Ints:
        """Add switches of one tier and return their vertex numbers."""
        first = len(self._endpoints) + len(self._switches)
        racks = np.broadcast_to(np.asarray(rack), len(names))
        self._switches += [
            Switch(n, tier, int(r), latency_ps) for n, r in zip(names, racks, strict=True)
        ]
        return np.arange(first, first + len(names))

    def add_links(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        *,
        capacity: ArrayLike,
        latency_ps: ArrayLike,
        plane: str,
        tier: str,
        bundle: ArrayLike | None = None,
        bundle_names: Sequence[str] = (),
    ) -> Ints:
        """Add directed links of one tier and return the resource of each.

        Parameters
        ----------
        src, dst : array_like of int, shape (links,)
            Vertex numbers.
        capacity : array_like of float
            Bytes per second, of one link.
        latency_ps : array_like of int
            Latency of one link in picoseconds.
        plane, tier : str
            The plane and the tier the links belong to.
        bundle : array_like of int, optional
            Bundle number of each link, from 0 within this call. Links of one bundle are one
            resource with their summed capacity: right where every flow uses them in equal shares.
        bundle_names : sequence of str
            A name for each bundle.

        Returns
        -------
        ndarray of int64, shape (links,)
            The resource that stands for each link.
        """
        src, dst = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
        count = len(src)
        rate = np.broadcast_to(np.asarray(capacity, dtype=np.float64), count)
        latency = np.broadcast_to(np.asarray(latency_ps, dtype=np.int64), count)
        if bundle is None:
            resource = self._add_resources(self.link_names(src, dst), tier, rate)
        else:
            member = np.asarray(bundle, dtype=np.int64)
            total = np.zeros(len(bundle_names))
            np.add.at(total, member, rate)
            resource = self._add_resources(bundle_names, tier, total)[member]
        plane_code = np.full(count, _code(self._plane_names, plane))
        tier_code = np.full(count, _code(self._tier_names, tier))
        self._links.append((src, dst, rate, latency, plane_code, tier_code, resource))
        return resource

    def add_engines(self, kind: str, endpoints: Ints, *, capacity: float, tier: str) -> Ints:
        """Give endpoints an engine of a kind (``write``, ``read`` ...); return its resources."""
        known = self.vertex_names()
        names = [f"{known[e]}.{kind}" for e in endpoints.tolist()]
        resource = self._add_resources(names, tier, np.full(len(names), capacity))
        held = self._engines.setdefault(kind, {})
        held.update(zip(endpoints.tolist(), resource.tolist(), strict=True))
        return resource

    @property
    def endpoint_count(self) -> int:
        """How many endpoints there are so far."""
        return len(self._endpoints)

    def endpoints_of(self, kind: str) -> Ints:
        """Return the numbers of all endpoints of a kind."""
        found = [e.index for e in self._endpoints if e.kind == kind]
        return np.array(found, dtype=np.int64)

    def vertex_names(self) -> list[str]:
        """Return the names of all vertices, endpoints first."""
        return [e.name for e in self._endpoints] + [s.name for s in self._switches]

    def vertex_latency_ps(self) -> Ints:
        """Return what it costs to pass each vertex; an endpoint costs nothing."""
        latency = np.zeros(len(self._endpoints) + len(self._switches), dtype=np.int64)
        latency[len(self._endpoints) :] = [s.latency_ps for s in self._switches]
        return latency

    def link_names(self, src: Ints, dst: Ints) -> list[str]:
        """Return a name for each directed link, such as ``a->b``."""
        known = self.vertex_names()
        return [f"{known[a]}->{known[b]}" for a, b in zip(src.tolist(), dst.tolist(), strict=True)]

    def links_of(self, plane: str) -> Links:
        """Return the links that a plane has got so far."""
        columns = self._link_columns()
        code = _code(self._plane_names, plane)
        mine = columns[4] == code
        return Links(*(column[mine] for column in columns))

    def add_plane(self, name: str, paths: str, router: Router) -> None:
        """Add a plane; the first one added is the default."""
        self._planes[name] = Plane(name, paths, router)

    def add_transport(self, transport: "Transport") -> None:
        """Add a transport; the first one added is the default."""
        self._transports[transport.name] = transport

    def build(self) -> Fabric:
        """Freeze what was added into a `Fabric`."""
        names = self.vertex_names()
        if len(set(names)) != len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise FabricError(f"fabric {self.name} has two endpoints or switches called {twice!r}")
        engines = {kind: np.full(len(self._endpoints), -1) for kind in self._engines}
        for kind, held in self._engines.items():
            engines[kind][list(held)] = list(held.values())
        return Fabric(
            name=self.name,
            endpoints=tuple(self._endpoints),
            switches=tuple(self._switches),
            links=Links(*self._link_columns()),
            plane_names=tuple(self._plane_names),
            tier_names=tuple(self._tier_names),
            planes=self._planes,
            transports=self._transports,
            engines=engines,
            capacity=np.concatenate(self._capacity or [np.zeros(0)]),
            resource_names=tuple(self._resource_names),
            resource_tiers=tuple(self._resource_tiers),
            memory_rate=np.array([self._memory_rate[i] for i in range(len(self._endpoints))]),
            options=self.options,
        )

    def _link_columns(self) -> list[NDArray[Any]]:
        if self._links:
            return [np.concatenate(column) for column in zip(*self._links, strict=True)]
        kinds = (np.int64, np.int64, np.float64, np.int64, np.int64, np.int64, np.int64)
        return [np.zeros(0, dtype=kind) for kind in kinds]

    def _add_resources(self, names: Sequence[str], tier: str, capacity: Floats) -> Ints:
        first = len(self._resource_names)
        self._resource_names += names
        self._resource_tiers += [tier] * len(names)
        self._capacity.append(np.asarray(capacity, dtype=np.float64))
        return np.arange(first, first + len(names))


def _code(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)
