"""Every constant of the CloudMatrix model in one table: value, unit, source.

The letters: [P] "Serving Large Language Models on Huawei CloudMatrix384", arXiv 2506.12708 v2;
[W] Huawei Atlas 900 A3 SuperPoD white paper and product page; [S] StrataCL, arXiv 2607.26444;
[X] xDeepServe, arXiv 2508.02520; [N] press articles of June 2025; [D] derived by arithmetic from
these. "assumed" marks what nobody has published; "fitted" what was chosen to meet a printed table.
All rates are bytes/s in one direction, GB = 1e9 bytes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    """A number of the model with its unit, the letter of its source, and why it is what it is."""

    value: float
    unit: str
    source: str
    why: str

    def __int__(self) -> int:
        return int(self.value)


# Shape
NODES = Constant(48, "nodes", "P", "of a full supernode; an L2 chip has one port for each")
NODES_PER_RACK = Constant(4, "nodes", "P, W", "12 compute racks")
L2_CHIPS_PER_RACK = Constant(28, "chips", "W", "14 boxes of two chips in a communication rack")
NPUS = Constant(8, "NPUs per node", "P", "Ascend 910C")
DIES = Constant(2, "dies per NPU", "P", "the rank of all software is a die")
CPUS = Constant(4, "CPUs per node", "P", "Kunpeng sockets")
SUB_PLANES = Constant(7, "sub-planes", "P", "L1 chip i of every node belongs to sub-plane i")
L2_CHIPS = Constant(16, "chips per sub-plane", "P", "kept in smaller supernodes too (assumed)")

# UB: capacities are the raw ones, engines keep the payload below them
UB_PORT_RATE = Constant(28e9, "B/s", "P", "224 Gb/s raw: a port of a die, an L1 or an L2 chip")
CPU_PORT_RATE = Constant(160e9, "B/s", "P", "about 160; one resource in every mode (assumed)")
PACKAGE_RATE = Constant(210e9, "B/s", "S", "measured between two dies; 270 nominal [P]")
PACKAGE_LATENCY = Constant(200e3, "ps", "S", "0.2 us in all between two dies of a package")
SWITCH_LATENCY = Constant(200e3, "ps", "W, D", "a switch hop; RDMA and VPC switches: assumed alike")
PORT_CABLE_LATENCY = Constant(
    100e3, "ps", "assumed", "0.2 us for the ports and cables of both ends"
)
L1_L2_CABLE_LATENCY = Constant(175e3, "ps", "assumed", "optics and serdes; fitted to P Table 1")

# Engines of a die and what a flow takes of them: P Table 1
WRITE_RATE = Constant(137e9, "B/s", "P", "Table 1: NPU to NPU inside a node")
WRITE_FAR_RATE = Constant(135e9, "B/s", "P", "Table 1: NPU to NPU between nodes")
WRITE_CPU_RATE = Constant(110e9, "B/s", "P", "Table 1: NPU to CPU inside a node")
WRITE_CPU_FAR_RATE = Constant(107e9, "B/s", "P", "Table 1: NPU to CPU between nodes")
READ_RATE = Constant(167e9, "B/s", "P", "Table 1: NPU from NPU inside a node")
READ_FAR_RATE = Constant(164e9, "B/s", "P", "Table 1: NPU from NPU between nodes")
READ_CPU_RATE = Constant(151e9, "B/s", "P", "Table 1: NPU from CPU inside a node")
READ_CPU_FAR_RATE = Constant(147e9, "B/s", "P", "Table 1: NPU from CPU between nodes")
AIV_CORES = Constant(48, "cores", "P", "vector cores of a die")
AIV_CORE_SCALE = Constant(8, "cores", "S", "k cores reach 1 - exp(-k/8): 95 % at 24")

# Start-ups, posting included
AIV_WRITE = Constant(920e3, "ps", "P", "fitted to Table 1; under 1 us by the press [N]")
AIV_READ = Constant(780e3, "ps", "P", "fitted to Table 1; holds the read's request")
AIV_WRITE_CPU = Constant(720e3, "ps", "P", "fitted to Table 1")
AIV_READ_CPU = Constant(580e3, "ps", "P", "fitted to Table 1")
SDMA_STARTUP = Constant(10e6, "ps", "N", "about 10 us by the press")
URMA_STARTUP = Constant(3e6, "ps", "assumed", "between AIV-Direct and SDMA [X, S]")
ROCE_STARTUP = Constant(5e6, "ps", "assumed", "the class of an RDMA network card")
VPC_STARTUP = Constant(50e6, "ps", "assumed", "tens of us: IP through the card")
POST = Constant(80e3, "ps", "assumed", "what posting one message costs its engine")
SPREAD = Constant(0.1, "", "assumed", "what many targets cost: share x (1 + 0.1 (1 - 1/k))")

# RDMA plane
NIC_RATE = Constant(25e9, "B/s", "P, W", "200 Gb/s per die")
ROCE_PAYLOAD = Constant(4096, "B", "D", "payload of a packet at an MTU of 4096")
ROCE_PACKET = Constant(4178, "B", "D", "the same packet on the wire")
LEAF_RADIX = Constant(128, "ports", "assumed", "200 Gb/s ports of a 25.6 Tb/s Ethernet chip")
OVERSUBSCRIPTION = Constant(1, "", "assumed", "leaf ports down to ports up")

# VPC plane
CARD_RATE = Constant(50e9, "B/s", "P", "400 Gb/s per node")
STREAM_RATE = Constant(5e9, "B/s", "assumed", "one IP stream of one CPU core: a cap per flow")

# Memory: a reduction passes it three times
HBM_RATE = Constant(1.6e12, "B/s", "P", "per die")
DRAM_RATE = Constant(307.2e9, "B/s", "assumed", "eight channels of DDR5-4800 a socket")
REDUCE_ACCESSES = Constant(3, "accesses", "D", "two operands in, one result out")

CONSTANTS = {
    name.lower(): value for name, value in globals().items() if isinstance(value, Constant)
}
