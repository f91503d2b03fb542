"""A cluster of H800 nodes to compare with: NVLink inside a node, a network card for each GPU.

The letters of sources are those of `constants`; "H" is reference 8 of the CloudMatrix facts: 8 GPUs
a node, NVLink about 160 GB/s a direction as measured, one 400 Gb/s card a GPU, rail-optimised fat
tree. A node counts as one package: its GPUs have links of their own among them.
"""

from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Fabric, Ints, Routes
from ubnet.fabric_builder import FabricBuilder
from ubnet.route_pieces import Piece, join_pieces
from ubnet.transport import READ, WRITE, Transport

from .constants import Constant
from .transports import whole_number

GPUS = Constant(8, "GPUs per node", "H", "the ranks; GPU i of every node is on rail i")
NVLINK_RATE = Constant(160e9, "B/s", "H", "measured, per direction")
CARD_RATE = Constant(50e9, "B/s", "H", "400 Gb/s per GPU")
CARD_PAYLOAD_RATE = Constant(
    47e9, "B/s", "fitted", "to DeepEP's rows of P Table 7: what a kernel draws from its card"
)
SWITCH_LATENCY = Constant(200e3, "ps", "assumed", "a switch hop, as on CloudMatrix")
CABLE_LATENCY = Constant(100e3, "ps", "assumed", "a cable with its ends")
CARD_STARTUP = Constant(2e6, "ps", "assumed", "a write that the GPU itself gives to its card")
NVLINK_STARTUP = Constant(1e6, "ps", "assumed", "a store to a neighbour's memory, and its flag")
POST = Constant(20e3, "ps", "assumed", "the card takes 50 million messages a second")
SPREAD = Constant(0.1, "", "assumed", "what many targets cost, as on CloudMatrix")
LEAF_DOWN = Constant(32, "ports", "assumed", "half of a 64-port switch of 400 Gb/s")
HBM_RATE = Constant(3.35e12, "B/s", "assumed", "five stacks of HBM3, the maker's data sheet")
REDUCE_ACCESSES = Constant(3, "accesses", "D", "two operands in, one result out")
MOST_NODES = 256

CARDS, NVLINK = "rdma", "nvlink"
ENGINES = {WRITE: "nic_write", READ: "nic_read"}


@dataclass(frozen=True, slots=True)
class RailRouter:
    """Finds the way: over NVLink inside a node where it may, else from card to card.

    Cards of one rail meet in its leaf switch, others over the spines, on all of them at once.

    Attributes
    ----------
    inside : bool
        Use NVLink inside a node; False: the cards even there.
    node, leaf : ndarray of int64, shape (gpus,)
        Node of every GPU, and the leaf switch of its card.
    nvlink, card, spine : ndarray of int64, shape (gpus or leaves, 2)
        Resources on the way up and down: the GPU's NVLink, its card, its leaf's links to spines.
    """

    inside: bool
    node: Ints
    leaf: Ints
    nvlink: Ints
    card: Ints
    spine: Ints

    def routes(self, src: Ints, dst: Ints, flow: Ints) -> Routes:
        """Return the routes of flows from `src` to `dst`."""
        moving = src != dst
        near = moving & (self.node[src] == self.node[dst]) & self.inside
        far = moving & ~near
        crossing = far & (self.leaf[src] != self.leaf[dst])
        hop = int(SWITCH_LATENCY) + 2 * int(CABLE_LATENCY)
        latency = np.where(moving, hop, 0)
        latency[crossing] += 2 * (int(SWITCH_LATENCY) + int(CABLE_LATENCY))
        near, far, crossing = (np.flatnonzero(m) for m in (near, far, crossing))
        return join_pieces(
            latency,
            [
                Piece(near, self.nvlink[src[near], 0][:, None]),
                Piece(near, self.nvlink[dst[near], 1][:, None]),
                Piece(far, self.card[src[far], 0][:, None]),
                Piece(crossing, self.spine[self.leaf[src[crossing]], 0][:, None]),
                Piece(crossing, self.spine[self.leaf[dst[crossing]], 1][:, None]),
                Piece(far, self.card[dst[far], 1][:, None]),
            ],
        )


def h800(nodes: int = 32) -> Fabric:
    """Build a cluster of H800 nodes.

    Transport ``ibgda`` uses the cards even inside a node, as DeepEP's first low-latency kernels
    did; ``nvlink`` uses NVLink inside a node and the cards between.

    Parameters
    ----------
    nodes : int
        Nodes of 8 GPUs, 1 to 256.

    Raises
    ------
    OptionError
        If there are too many nodes, or none.

    Examples
    --------
    >>> h800()
    <Fabric h800: 256 die, 1040 links>
    """
    nodes = whole_number("nodes", nodes, MOST_NODES, "a cluster of H800 nodes has")
    build = FabricBuilder("h800", {"nodes": nodes})
    gpus = int(GPUS)
    node = np.repeat(np.arange(nodes), gpus)
    names = [f"node{n:02}.gpu{g}" for n in range(nodes) for g in range(gpus)]
    memory = HBM_RATE.value / REDUCE_ACCESSES.value
    gpu = build.add_endpoints(names, "die", node=node, package=node, rack=node, memory_rate=memory)
    per_rail = -(-nodes // int(LEAF_DOWN))
    leaf = gpu % gpus * per_rail + node // int(LEAF_DOWN)
    nvlink = _add_nvlink(build, gpu, names, node)
    card, spine = _add_cards(build, gpu, names, leaf)
    # All links belong to the first plane; the other one is a rule that leaves some of them out.
    build.add_plane(NVLINK, "spray", RailRouter(True, node, leaf, nvlink, card, spine))
    build.add_plane(CARDS, "spray", RailRouter(False, node, leaf, nvlink, card, spine))
    for op, kind in ENGINES.items():
        build.add_engines(kind, gpu, capacity=CARD_PAYLOAD_RATE.value, tier=f"card {op} engine")
    for transport in _transports():
        build.add_transport(transport)
    return build.build()


def _add_nvlink(build: FabricBuilder, gpu: Ints, names: list[str], node: Ints) -> Ints:
    """Join the GPUs of each node by a switch; return their resources up and down."""
    titles = [f"node{n:02}.nvswitch" for n in range(int(node[-1]) + 1)]
    switch = build.add_switches(
        titles, "NVSwitch", latency_ps=int(SWITCH_LATENCY), rack=np.arange(len(titles))
    )
    return _both_ways(build, gpu, switch[node], names, NVLINK_RATE, "NVLink port", "nvlink")


def _add_cards(build: FabricBuilder, gpu: Ints, names: list[str], leaf: Ints) -> tuple[Ints, Ints]:
    """Join every card to its rail's leaf and the leaves to spines; return the resources of both."""
    leaves = int(leaf.max()) + 1
    latency = int(SWITCH_LATENCY)
    titles = [f"leaf{i:02}" for i in range(leaves)]
    low = build.add_switches(titles, "rail leaf", latency_ps=latency)
    top = build.add_switches(["spines"], "spine", latency_ps=latency)
    card = _both_ways(build, gpu, low[leaf], names, CARD_RATE, "card port", "nic")
    down = np.bincount(leaf)
    up = [
        build.add_links(
            *((low, np.repeat(top, leaves)) if way == "up" else (np.repeat(top, leaves), low)),
            capacity=down * CARD_RATE.value,
            latency_ps=int(CABLE_LATENCY),
            plane=NVLINK,
            tier=f"leaf {way}link",
            bundle=np.arange(leaves),
            bundle_names=[f"{title}.{way}" for title in titles],
        )
        for way in ("up", "down")
    ]
    return card, np.stack(up, axis=1)


def _both_ways(
    build: FabricBuilder,
    gpu: Ints,
    switch: Ints,
    names: list[str],
    rate: Constant,
    tier: str,
    label: str,
) -> Ints:
    resources = [
        build.add_links(
            *((gpu, switch) if way == "up" else (switch, gpu)),
            capacity=rate.value,
            latency_ps=int(CABLE_LATENCY),
            plane=NVLINK,
            tier=tier,
            bundle=np.arange(len(gpu)),
            bundle_names=[f"{name}.{label}.{way}" for name in names],
        )
        for way in ("up", "down")
    ]
    return np.stack(resources, axis=1)


def _transports() -> tuple[Transport, ...]:
    card = {(WRITE, "*"): int(CARD_STARTUP), (READ, "*"): int(CARD_STARTUP)}
    sources = {
        "startup_ps": f"{CARD_STARTUP.source}: {CARD_STARTUP.why}",
        "package_startup_ps": f"{NVLINK_STARTUP.source}: {NVLINK_STARTUP.why}",
        "post_ps": f"{POST.source}: {POST.why}",
        "spread": f"{SPREAD.source}: {SPREAD.why}",
    }
    return tuple(
        Transport(
            name=name,
            plane=plane,
            startup_ps=card,
            package_startup_ps=package,
            engine=ENGINES,
            post_ps=int(POST),
            spread=SPREAD.value,
            sources=sources,
        )
        for name, plane, package in (
            ("ibgda", CARDS, None),
            ("nvlink", NVLINK, int(NVLINK_STARTUP)),
        )
    )
