"""What lies outside of the supernode, behind the VPC cards: an SSD tier, an object store."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from ubnet.errors import NoRoute, OptionError
from ubnet.fabric import Fabric, Ints
from ubnet.transport import OPS, READ, FlowColumns, Transport

STREAMS = 10
"""Parallel streams of a service that is read in bulk (assumed): ten of 5 GB/s fill a card."""


@dataclass(frozen=True)
class Outside(Transport):
    """The way between an endpoint and a service behind the VPC network.

    Both ends of a transfer are the endpoint inside; a read brings bytes in, a write takes them
    out. The service itself has no limit but that of `resource`.

    Attributes
    ----------
    resource : int
        What the service delivers, as a resource of the `Carrier`; -1 = as much as the cards take.
    """

    resource: int = -1
    _hops: dict[tuple[str, int], tuple[Ints, int]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def flows(
        self,
        fabric: Fabric,
        op: str,
        src: ArrayLike,
        dst: ArrayLike,
        nbytes: ArrayLike,
        *,
        targets: ArrayLike = 1,
        messages: ArrayLike = 1,
        flow: ArrayLike = 0,
    ) -> FlowColumns:
        """Return the flows of transfers of one endpoint, as `Transport.flows` does."""
        if op not in OPS:
            raise OptionError(f"op is {op!r}; allowed: read, write")
        inside = np.unique(np.concatenate([np.atleast_1d(src), np.atleast_1d(dst)]))
        if len(inside) != 1:
            raise OptionError(
                f"transport {self.name} joins one endpoint to the outside: give it as source and "
                f"as destination, not {inside.tolist()}"
            )
        hops, latency_ps = self._way(fabric, op, int(inside[0]))
        size = np.atleast_1d(np.asarray(nbytes, dtype=np.int64))
        n = len(size)
        startup = self.startup_of(op, fabric.kinds[fabric.kind_of[inside[0]]]) + latency_ps
        return FlowColumns(
            nbytes=size,
            startup_ps=np.full(n, startup),
            route_ptr=np.arange(n + 1) * len(hops),
            route_link=np.tile(hops, n),
            route_share=np.full(n * len(hops), self.wire_share),
            rate_cap=np.full(n, self.rate_cap),
            latency_ps=np.full(n, latency_ps),
        )

    def _way(self, fabric: Fabric, op: str, inside: int) -> tuple[Ints, int]:
        """Return the hops between an endpoint and the network: what all routes to it share."""
        if (op, inside) not in self._hops:
            nodes, first = np.unique(fabric.node_of, return_index=True)
            others = first[nodes != fabric.node_of[inside]][:2]
            if len(others) < 2:
                raise NoRoute(f"fabric {fabric.name} has fewer than 3 nodes and so no outside")
            here = np.full(2, inside)
            src, dst = (others, here) if op == READ else (here, others)
            routes = fabric.plane(self.plane).router.routes(src, dst, np.zeros(2, np.int64))
            a, b = (routes.resource[routes.ptr[i] : routes.ptr[i + 1]] for i in (0, 1))
            hops = a[np.isin(a, b)]
            if self.resource >= 0:
                hops = np.append(hops, self.resource)
            self._hops[op, inside] = hops, int(routes.latency_ps[0])
        return self._hops[op, inside]


def outside(
    fabric: Fabric, name: str, *, streams: int = 1, resource: int = -1, plane: str = "vpc"
) -> Outside:
    """Return the way to a service behind a plane's network.

    Parameters
    ----------
    fabric : Fabric
        The first of its transports on that plane gives start-up and rate of a stream.
    name : str
        The service.
    streams : int
        Parallel streams of one transfer.
    resource : int
        As in `Outside`.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> fabric = load_fabric("cloudmatrix64")
    >>> way = outside(fabric, "ssd")
    >>> hops = way.flows(fabric, "read", 129, 129, 10**9).route_link
    >>> [fabric.resource_names[i] for i in hops]
    ['node00.vpc.down', 'node00.vpc.host.down', 'node00.cpu0.up', 'node00.cpu1.down']
    """
    found = next((t for t in fabric.transports.values() if t.plane == plane), None)
    if found is None or streams < 1:
        raise OptionError(
            f"{name} is reached over plane {plane} by 1 stream or more: fabric {fabric.name} has "
            f"the planes {', '.join(fabric.planes)}, given: {streams} streams"
        )
    given = replace(found, name=name, rate_cap=found.rate_cap * streams)
    values = {key: getattr(given, key) for key in given.__dataclass_fields__}
    return Outside(**values, resource=resource)
