"""The RDMA plane: a network card for each die on a two-tier fat tree of ordinary switches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ubnet.errors import NoRoute, OptionError, did_you_mean
from ubnet.fabric import Ints, Routes
from ubnet.fabric_builder import FabricBuilder
from ubnet.path_hash import path_hash, pick
from ubnet.route_pieces import Piece, join_pieces

from . import constants as c

PATHS = ("hash", "spray")
PLANE = "rdma"


@dataclass(frozen=True, slots=True)
class LeafSpineRouter:
    """Finds the way over leaf and spine switches.

    ``hash`` (ECMP by source, destination and flow number) takes one uplink of the leaf and one of
    the parallel links down from that spine; ``spray`` uses all in equal shares.

    Attributes
    ----------
    paths : str
        The policy.
    names : tuple of str
        The name of every endpoint, for errors.
    leaf : ndarray of int64, shape (endpoints,)
        The leaf of each endpoint, -1 = not on this plane.
    up, down : ndarray of int64, shape (endpoints,)
        The resource of each card's port.
    cross_up, cross_down : ndarray of int64, shape (leaves, 1 or uplinks)
        The resources between leaf and spines; link ``i`` of any leaf meets spine ``i % spines``.
    spines : int
        Number of spine switches.
    """

    paths: str
    names: tuple[str, ...]
    leaf: Ints
    up: Ints
    down: Ints
    cross_up: Ints
    cross_down: Ints
    spines: int

    def routes(self, src: Ints, dst: Ints, flow: Ints) -> Routes:
        """Return the routes of flows from `src` to `dst`; CPUs have none."""
        self._refuse_strangers(src, dst)
        moving = np.flatnonzero(src != dst)
        far = np.flatnonzero(self.leaf[src] != self.leaf[dst])
        latency = np.full(len(src), 2 * int(c.PORT_CABLE_LATENCY) + int(c.SWITCH_LATENCY))
        latency[far] += 2 * int(c.SWITCH_LATENCY) + 2 * int(c.L1_L2_CABLE_LATENCY)
        latency[src == dst] = 0
        out, back = self._cross(src[far], dst[far], flow[far])
        return join_pieces(
            latency,
            [
                Piece(moving, self.up[src[moving], None]),
                Piece(far, self.cross_up[self.leaf[src[far]], out][:, None]),
                Piece(far, self.cross_down[self.leaf[dst[far]], back][:, None]),
                Piece(moving, self.down[dst[moving], None]),
            ],
        )

    def _cross(self, src: Ints, dst: Ints, flow: Ints) -> tuple[Ints, Ints]:
        """Return each flow's link up from its leaf and link down to the other."""
        if self.paths == "spray" or not self.spines:
            return np.zeros(len(src), dtype=np.int64), np.zeros(len(src), dtype=np.int64)
        uplinks = self.cross_up.shape[1]
        out = pick(path_hash(src, dst, flow), uplinks)
        parallel = pick(path_hash(src, dst, flow, 1), uplinks // self.spines)
        return out, parallel * self.spines + out % self.spines

    def _refuse_strangers(self, src: Ints, dst: Ints) -> None:
        for ends in (src, dst):
            outside = np.flatnonzero(self.leaf[ends] < 0)
            if len(outside):
                raise NoRoute(
                    f"{self.names[int(ends[outside[0]])]} is not on plane rdma: its network cards "
                    "belong to dies only; use plane ub (transports aiv, sdma, urma) or vpc"
                )


def add_rdma(
    build: FabricBuilder,
    dies: Ints,
    names: Sequence[str],
    racks: Ints,
    *,
    paths: str,
    leaf_radix: int,
    oversubscription: float,
) -> LeafSpineRouter:
    """Add the RDMA plane of some dies.

    Parameters
    ----------
    build : FabricBuilder
        Holds the endpoints already.
    dies : ndarray of int64, shape (dies,)
        Endpoint numbers, in the order in which leaves are filled.
    names : sequence of str
        The name of every endpoint.
    racks : ndarray of int64, shape (dies,)
        The rack of every die; a leaf stands in that of its first die.
    paths : {"hash", "spray"}
        The policy.
    leaf_radix : int
        Ports of a leaf or spine switch, each as fast as a die's card.
    oversubscription : float
        Ports of a leaf down to its ports up.

    Raises
    ------
    OptionError
        If the policy is unknown or two tiers of such switches cannot join so many dies.
    """
    if paths not in PATHS:
        raise OptionError(f"rdma_paths is {paths!r}; {did_you_mean(paths, PATHS)}")
    below, uplinks, spines = _tree(len(dies), leaf_radix, oversubscription)
    leaf = np.arange(len(dies)) // below
    leaves = int(leaf[-1]) + 1
    stand = racks[::below]
    latency = int(c.SWITCH_LATENCY)
    titles = [f"rdma.leaf{i:02}" for i in range(leaves)]
    low = build.add_switches(titles, "RDMA leaf", latency_ps=latency, rack=stand)
    tops = [f"rdma.spine{i:02}" for i in range(spines)]
    high = build.add_switches(tops, "RDMA spine", latency_ps=latency, rack=int(racks[-1]) + 1)
    up, down, leaf_of = (np.full(len(names), -1, dtype=np.int64) for _ in range(3))
    leaf_of[dies] = leaf
    up[dies] = _add_cards(build, dies, low[leaf], names, "up")
    down[dies] = _add_cards(build, dies, low[leaf], names, "down")
    cross = [
        _add_cross(build, low, high, uplinks, titles, way, split=paths == "hash")
        for way in ("up", "down")
    ]
    router = LeafSpineRouter(paths, tuple(names), leaf_of, up, down, cross[0], cross[1], spines)
    build.add_plane(PLANE, paths, router)
    return router


def _tree(dies: int, radix: int, oversubscription: float) -> tuple[int, int, int]:
    """Return the ports down and up of a leaf and the number of spines (0 = one leaf suffices)."""
    if not isinstance(radix, int) or radix < 2:
        raise OptionError(f"rdma_leaf_radix is {radix!r}: give 2 ports or more, such as 128")
    if not isinstance(oversubscription, int | float) or not oversubscription > 0:
        raise OptionError(
            f"rdma_oversubscription is {oversubscription!r}: give ports down to ports up, such as 2"
        )
    below = min(max(int(radix * oversubscription / (1 + oversubscription)), 1), radix - 1)
    uplinks = min(max(round(below / oversubscription), 1), radix - below)
    leaves = -(-dies // below)
    if leaves == 1:
        return below, uplinks, 0
    # Each leaf meets every spine over the same number of links, so the spines divide the uplinks.
    fits = [s for s in range(1, uplinks + 1) if uplinks % s == 0 and leaves * uplinks <= radix * s]
    if not fits:
        raise OptionError(
            f"rdma_leaf_radix {radix} is too small: two tiers of such switches join "
            f"{radix * below} dies, not {dies}; give a larger radix, such as 128"
        )
    return below, uplinks, fits[0]


def _add_cards(
    build: FabricBuilder, dies: Ints, leaf: Ints, names: Sequence[str], way: str
) -> Ints:
    return build.add_links(
        *((dies, leaf) if way == "up" else (leaf, dies)),
        capacity=c.NIC_RATE.value,
        latency_ps=int(c.PORT_CABLE_LATENCY),
        plane=PLANE,
        tier="RDMA port",
        bundle=np.arange(len(dies)),
        bundle_names=[f"{names[d]}.nic.{way}" for d in dies.tolist()],
    )


def _add_cross(
    build: FabricBuilder,
    low: Ints,
    high: Ints,
    uplinks: int,
    titles: Sequence[str],
    way: str,
    *,
    split: bool,
) -> Ints:
    """Join leaves and spines one way; return the resources, (leaves, 1 or uplinks)."""
    leaves = len(low)
    if not len(high):
        return np.full((leaves, 1), -1, dtype=np.int64)
    bottom = np.repeat(low, uplinks)
    top = np.tile(high[np.arange(uplinks) % len(high)], leaves)
    bundle = np.arange(len(bottom)) if split else np.repeat(np.arange(leaves), uplinks)
    labels = [f"{t}.{way}{i:02}" if split else f"{t}.{way}" for t in titles for i in range(uplinks)]
    resource = build.add_links(
        *((bottom, top) if way == "up" else (top, bottom)),
        capacity=c.NIC_RATE.value,
        latency_ps=int(c.L1_L2_CABLE_LATENCY),
        plane=PLANE,
        tier=f"RDMA leaf {way}link",
        bundle=bundle,
        bundle_names=labels if split else labels[::uplinks],
    )
    return resource.reshape(leaves, uplinks)[:, : uplinks if split else 1]
