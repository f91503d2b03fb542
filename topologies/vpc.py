"""The VPC plane: one card a node to the outside, reached through the node's CPU 0."""

from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Ints, Router, Routes
from ubnet.fabric_builder import FabricBuilder
from ubnet.route_pieces import Piece, chain_routes, join_pieces

from . import constants as c

PLANE = "vpc"


@dataclass(frozen=True, slots=True)
class CardRouter:
    """Finds the way over UB to CPU 0, its card, the network, and back down on the other side.

    Inside a node bytes turn round in CPU 0 and leave the card alone (assumed).

    Attributes
    ----------
    ub : Router
        Finds the way between an endpoint and its CPU 0.
    node, gate : ndarray of int64, shape (endpoints,)
        The node and the CPU 0 of each endpoint.
    out, back : ndarray of int64, shape (nodes, 2)
        The links from CPU 0 over the card into the network, and the way back.
    """

    ub: Router
    node: Ints
    gate: Ints
    out: Ints
    back: Ints

    def routes(self, src: Ints, dst: Ints, flow: Ints) -> Routes:
        """Return the routes of flows from `src` to `dst`."""
        idle = src == dst
        first = self.ub.routes(src, np.where(idle, src, self.gate[src]), flow)
        last = self.ub.routes(np.where(idle, dst, self.gate[dst]), dst, flow)
        far = np.flatnonzero(self.node[src] != self.node[dst])
        latency = np.zeros(len(src), dtype=np.int64)
        latency[far] = 4 * int(c.PORT_CABLE_LATENCY) + 3 * int(c.SWITCH_LATENCY)
        out, back = self.out[self.node[src[far]]], self.back[self.node[dst[far]]]
        between = join_pieces(latency, [Piece(far, out), Piece(far, back)])
        return chain_routes([first, between, last])


def add_vpc(build: FabricBuilder, ub: Router, node: Ints, gates: Ints, racks: Ints) -> CardRouter:
    """Add the VPC plane.

    Parameters
    ----------
    build : FabricBuilder
        Holds the endpoints already.
    ub : Router
        The router of the UB plane.
    node : ndarray of int64, shape (endpoints,)
        The node of each endpoint.
    gates : ndarray of int64, shape (nodes,)
        The CPU 0 of each node.
    racks : ndarray of int64, shape (nodes,)
        The rack of each node, where its card is.
    """
    nodes = len(gates)
    latency = int(c.SWITCH_LATENCY)
    names = [f"node{n:02}.vpc" for n in range(nodes)]
    cards = build.add_switches(names, "VPC card", latency_ps=latency, rack=racks)
    outside = build.add_switches(["vpc.network"], "VPC network", latency_ps=latency, rack=-1)
    network = np.repeat(outside, nodes)
    steps = (
        (gates, cards, "VPC host link", "host.up"),
        (cards, network, "VPC card", "up"),
        (network, cards, "VPC card", "down"),
        (cards, gates, "VPC host link", "host.down"),
    )
    resources = [
        build.add_links(
            src,
            dst,
            capacity=c.CARD_RATE.value,
            latency_ps=int(c.PORT_CABLE_LATENCY),
            plane=PLANE,
            tier=tier,
            bundle=np.arange(nodes),
            bundle_names=[f"{name}.{end}" for name in names],
        )
        for src, dst, tier, end in steps
    ]
    out, back = np.stack(resources[:2], axis=1), np.stack(resources[2:], axis=1)
    router = CardRouter(ub, node, gates[node], out, back)
    build.add_plane(PLANE, "card", router)
    return router
