"""The UB plane: dies and CPUs on seven L1 chips a node, seven sub-planes of L2 chips above them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ubnet.errors import OptionError, did_you_mean
from ubnet.fabric import Ints, Routes
from ubnet.fabric_builder import FabricBuilder
from ubnet.path_hash import path_hash, pick
from ubnet.route_pieces import Piece, join_pieces

from . import constants as c

PATHS = ("spray", "ecmp", "hash")
PLANE = "ub"

_PLANES, _CHIPS = int(c.SUB_PLANES), int(c.L2_CHIPS)


@dataclass(frozen=True, slots=True)
class ClosRouter:
    """Finds the way over UB under one of three policies.

    ``spray``: a flow uses all sub-planes and L2 chips in equal shares; ``ecmp``: all sub-planes,
    in each one L2 chip by hash; ``hash``: one sub-plane and one L2 chip by hash.

    Attributes
    ----------
    paths : str
        The policy.
    node, package : ndarray of int64, shape (endpoints,)
        Where each endpoint sits; a CPU is a package of its own.
    up, down : ndarray of int64, shape (endpoints, 1 or 7)
        The resource of each endpoint's ports, all in one or one a sub-plane.
    cross_up, cross_down : ndarray of int64, shape (nodes, 1 or 112)
        The resource of each node's L1-L2 links, all in one or one an L2 chip.
    mate : ndarray of int64, shape (endpoints,)
        The link from a die to the other die of its package.
    """

    paths: str
    node: Ints
    package: Ints
    up: Ints
    down: Ints
    cross_up: Ints
    cross_down: Ints
    mate: Ints

    def routes(self, src: Ints, dst: Ints, flow: Ints) -> Routes:
        """Return the routes of flows from `src` to `dst`."""
        same_node = self.node[src] == self.node[dst]
        same_package = self.package[src] == self.package[dst]
        inside = np.flatnonzero(same_package & (src != dst))
        ported = np.flatnonzero(~same_package)
        far = np.flatnonzero(~same_node)
        latency = np.where(same_node, near_latency_ps(), far_latency_ps())
        latency[same_package] = int(c.PACKAGE_LATENCY)
        latency[src == dst] = 0
        port = self._port(src[ported], dst[ported], flow[ported])
        cross, share = self._cross(src[far], dst[far], flow[far])
        return join_pieces(
            latency,
            [
                Piece(inside, self.mate[src[inside], None]),
                Piece(ported, self.up[src[ported], port][:, None]),
                Piece(far, self.cross_up[self.node[src[far]][:, None], cross], share),
                Piece(far, self.cross_down[self.node[dst[far]][:, None], cross], share),
                Piece(ported, self.down[dst[ported], port][:, None]),
            ],
        )

    def _port(self, src: Ints, dst: Ints, flow: Ints) -> Ints:
        """Return which of its ports (all of them as one, or a sub-plane) each flow uses."""
        if self.paths == "hash":
            return pick(path_hash(src, dst, flow), _PLANES)
        return np.zeros(len(src), dtype=np.int64)

    def _cross(self, src: Ints, dst: Ints, flow: Ints) -> tuple[Ints, float]:
        """Return the L1-L2 links of each flow between nodes, and its share on each."""
        if self.paths == "spray":
            return np.zeros((len(src), 1), dtype=np.int64), 1.0
        if self.paths == "hash":
            sub_plane = self._port(src, dst, flow)[:, None]
        else:
            sub_plane = np.arange(_PLANES)[None, :]
        columns = (src[:, None], dst[:, None], flow[:, None])
        chip = pick(path_hash(*columns, 1 + sub_plane), _CHIPS)
        return sub_plane * _CHIPS + chip, 1 / chip.shape[1]


def near_latency_ps() -> int:
    """Return the latency inside a node: two ports with their cables and one L1 chip."""
    return 2 * int(c.PORT_CABLE_LATENCY) + int(c.SWITCH_LATENCY)


def far_latency_ps() -> int:
    """Return the latency between nodes: two more chips, L2 and L1, and two more cables."""
    return near_latency_ps() + 2 * int(c.SWITCH_LATENCY) + 2 * int(c.L1_L2_CABLE_LATENCY)


def add_ub(
    build: FabricBuilder, dies: Ints, cpus: Ints, names: Sequence[str], racks: Ints, paths: str
) -> ClosRouter:
    """Add the UB plane: chips, links, the package links and the router.

    Parameters
    ----------
    build : FabricBuilder
        Holds the endpoints already.
    dies, cpus : ndarray of int64, shape (nodes, dies a node) and (nodes, CPUs a node)
        Endpoint numbers; together all endpoints of the fabric.
    names : sequence of str
        The name of every endpoint.
    racks : ndarray of int64, shape (nodes,)
        The rack of every node; L2 chips fill the racks after the last.
    paths : {"spray", "ecmp", "hash"}
        The policy.

    Raises
    ------
    OptionError
        If there is no such policy.
    """
    if paths not in PATHS:
        raise OptionError(f"paths is {paths!r} on plane ub; {did_you_mean(paths, PATHS)}")
    nodes = len(dies)
    node, package = _places(dies, cpus)
    l1, l2 = _add_chips(build, nodes, racks)
    ports = _add_ports(build, dies, cpus, names, l1, split=paths == "hash")
    cross = _add_cross(build, l1, l2, split=paths != "spray")
    mate = _add_package_links(build, dies, names)
    router = ClosRouter(paths, node, package, *ports, *cross, mate)
    build.add_plane(PLANE, paths, router)
    return router


def _places(dies: Ints, cpus: Ints) -> tuple[Ints, Ints]:
    """Return node and package of every endpoint."""
    nodes, per_node = dies.shape
    node = np.empty(dies.size + cpus.size, dtype=np.int64)
    package = np.empty_like(node)
    node[dies], node[cpus] = np.arange(nodes)[:, None], np.arange(nodes)[:, None]
    npus = nodes * per_node // int(c.DIES)
    package[dies.ravel()] = np.arange(dies.size) // int(c.DIES)
    package[cpus.ravel()] = npus + np.arange(cpus.size)
    return node, package


def _add_chips(build: FabricBuilder, nodes: int, racks: Ints) -> tuple[Ints, Ints]:
    """Add L1 and L2 chips; return their vertices, (nodes, planes) and (planes, chips)."""
    names = [f"node{n:02}.l1.{p}" for n in range(nodes) for p in range(_PLANES)]
    rack = np.repeat(racks, _PLANES)
    latency = int(c.SWITCH_LATENCY)
    l1 = build.add_switches(names, "L1", latency_ps=latency, rack=rack).reshape(nodes, _PLANES)
    names = [f"plane{p}.l2.{chip:02}" for p in range(_PLANES) for chip in range(_CHIPS)]
    # Boxes hold neighbours of the running number, so that their two chips differ in sub-plane.
    running = (np.arange(_CHIPS)[None, :] * _PLANES + np.arange(_PLANES)[:, None]).ravel()
    rack = racks[-1] + 1 + running // int(c.L2_CHIPS_PER_RACK)
    l2 = build.add_switches(names, "L2", latency_ps=latency, rack=rack).reshape(_PLANES, _CHIPS)
    return l1, l2


def _add_ports(
    build: FabricBuilder, dies: Ints, cpus: Ints, names: Sequence[str], l1: Ints, *, split: bool
) -> tuple[Ints, Ints]:
    """Join every endpoint with the L1 chips of its node; return its resources up and down."""
    tables = []
    for way in ("up", "down"):
        table = np.empty((len(names), _PLANES), dtype=np.int64)
        table[dies.ravel()] = _add_ports_of(
            build, dies, names, l1, way, "die port", c.UB_PORT_RATE.value, split=split
        )
        # How a socket spreads its 160 GB/s over the chips is not published: one resource always.
        rate = c.CPU_PORT_RATE.value / _PLANES
        table[cpus.ravel()] = _add_ports_of(
            build, cpus, names, l1, way, "cpu port", rate, split=False
        )
        tables.append(table if split else table[:, :1])
    return tables[0], tables[1]


def _add_ports_of(
    build: FabricBuilder,
    members: Ints,
    names: Sequence[str],
    l1: Ints,
    way: str,
    tier: str,
    rate: float,
    *,
    split: bool,
) -> Ints:
    """Add the ports of all dies or of all CPUs one way; return resources, (members, planes)."""
    flat = members.ravel().tolist()
    ends = np.repeat(members.ravel(), _PLANES)
    chips = np.repeat(l1, members.shape[1], axis=0).ravel()
    ports = range(_PLANES)
    resource = build.add_links(
        *((ends, chips) if way == "up" else (chips, ends)),
        capacity=rate,
        latency_ps=int(c.PORT_CABLE_LATENCY),
        plane=PLANE,
        tier=tier,
        bundle=np.arange(len(ends)) if split else np.repeat(np.arange(len(flat)), _PLANES),
        bundle_names=[f"{names[e]}.{way}{p}" for e in flat for p in ports]
        if split
        else [f"{names[e]}.{way}" for e in flat],
    )
    return resource.reshape(len(flat), _PLANES)


def _add_cross(build: FabricBuilder, l1: Ints, l2: Ints, *, split: bool) -> tuple[Ints, Ints]:
    """Join each L1 chip with the L2 chips of its sub-plane; return resources up and down."""
    nodes, per_node = len(l1), l2.size
    low = np.repeat(l1.ravel(), _CHIPS)
    high = np.tile(l2.ravel(), nodes)
    count = nodes * per_node
    bundle = np.arange(count) if split else np.repeat(np.arange(nodes), per_node)
    tables = []
    for way in ("up", "down"):
        if split:
            labels = [
                f"node{n:02}.l1.{p}.{way}{chip:02}"
                for n in range(nodes)
                for p in range(_PLANES)
                for chip in range(_CHIPS)
            ]
        else:
            labels = [f"node{n:02}.{way}link" for n in range(nodes)]
        resource = build.add_links(
            *((low, high) if way == "up" else (high, low)),
            capacity=c.UB_PORT_RATE.value,
            latency_ps=int(c.L1_L2_CABLE_LATENCY),
            plane=PLANE,
            tier=f"node {way}link",
            bundle=bundle,
            bundle_names=labels,
        )
        tables.append(resource.reshape(nodes, per_node)[:, : per_node if split else 1])
    return tables[0], tables[1]


def _add_package_links(build: FabricBuilder, dies: Ints, names: Sequence[str]) -> Ints:
    """Join the two dies of each package; return the link that leaves each endpoint (-1 = none)."""
    first = dies.reshape(-1, int(c.DIES))
    src, dst = first.ravel(), first[:, ::-1].ravel()
    mate = np.full(len(names), -1, dtype=np.int64)
    mate[src] = build.add_links(
        src,
        dst,
        capacity=c.PACKAGE_RATE.value,
        latency_ps=int(c.PACKAGE_LATENCY),
        plane=PLANE,
        tier="package link",
        bundle=np.arange(len(src)),
        bundle_names=[f"{names[a]}.mate" for a in src.tolist()],
    )
    return mate
