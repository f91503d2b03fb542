"""CloudMatrix384: 48 nodes of 16 dies and 4 CPUs on the planes UB, RDMA and VPC."""

from typing import Any

import numpy as np

from ubnet.fabric import Fabric, Ints
from ubnet.fabric_builder import FabricBuilder

from . import constants as c
from .rdma import add_rdma
from .transports import (
    NIC_ENGINES,
    UB_ENGINES,
    cloudmatrix_transports,
    roce_wire_share,
    whole_number,
)
from .ub_clos import add_ub
from .vpc import add_vpc


def cloudmatrix384(
    nodes: int = int(c.NODES),
    *,
    paths: str = "spray",
    aiv_cores: int = int(c.AIV_CORES),
    rdma_paths: str = "hash",
    rdma_leaf_radix: int = int(c.LEAF_RADIX),
    rdma_oversubscription: float = c.OVERSUBSCRIPTION.value,
    vpc_stream_rate: float = c.STREAM_RATE.value,
) -> Fabric:
    """Build a CloudMatrix supernode; the full one has 48 nodes.

    All dies come first, node by node and NPU by NPU, so that die ``r`` is endpoint ``r``; then all
    CPUs, node by node. Smaller supernodes keep all L2 chips with ports left empty (assumed).

    Parameters
    ----------
    nodes : int
        Nodes of 8 NPUs, 1 to 48.
    paths : {"spray", "ecmp", "hash"}
        How a flow uses the parallel paths of UB.
    aiv_cores : int
        Vector cores that AIV-Direct may occupy on each die, 1 to 48.
    rdma_paths : {"hash", "spray"}
        How a flow uses the parallel paths of the RDMA plane.
    rdma_leaf_radix : int
        Ports of an RDMA switch, 200 Gb/s each (assumed: 128).
    rdma_oversubscription : float
        Ports of an RDMA leaf down to its ports up (assumed: 1).
    vpc_stream_rate : float
        The largest rate of one VPC flow in bytes/s (assumed: 5e9).

    Returns
    -------
    Fabric

    Raises
    ------
    OptionError
        If an argument is outside of what is allowed.

    Examples
    --------
    >>> cloudmatrix384()
    <Fabric cloudmatrix384: 768 die, 192 cpu, 28224 links>
    >>> cloudmatrix384(8).endpoint("node03.npu5.die1").index
    59
    """
    options = dict(locals())
    nodes = whole_number("nodes", nodes, int(c.NODES), "a supernode has")
    transports = cloudmatrix_transports(aiv_cores, vpc_stream_rate)
    build = FabricBuilder(f"cloudmatrix{nodes * int(c.NPUS)}", options)
    racks = np.arange(nodes) // int(c.NODES_PER_RACK)
    names, dies, cpus = _add_endpoints(build, nodes, racks)
    ub = add_ub(build, dies, cpus, names, racks, paths)
    add_rdma(
        build,
        dies.ravel(),
        names,
        np.repeat(racks, dies.shape[1]),
        paths=rdma_paths,
        leaf_radix=rdma_leaf_radix,
        oversubscription=rdma_oversubscription,
    )
    add_vpc(build, ub, ub.node, cpus[:, 0], racks)
    _add_engines(build, dies.ravel())
    for transport in transports:
        build.add_transport(transport)
    return build.build()


def _add_endpoints(build: FabricBuilder, nodes: int, racks: Ints) -> tuple[list[str], Ints, Ints]:
    """Add dies, then CPUs; return all names, dies (nodes, 16) and CPUs (nodes, 4)."""
    npus, dies, cpus = int(c.NPUS), int(c.DIES), int(c.CPUS)
    die_names = [
        f"node{n:02}.npu{p}.die{d}" for n in range(nodes) for p in range(npus) for d in range(dies)
    ]
    cpu_names = [f"node{n:02}.cpu{s}" for n in range(nodes) for s in range(cpus)]
    kinds = (
        ("die", die_names, c.HBM_RATE, np.arange(len(die_names)) // dies),
        ("cpu", cpu_names, c.DRAM_RATE, nodes * npus + np.arange(len(cpu_names))),
    )
    numbers = []
    for kind, names, memory, package in kinds:
        node = np.repeat(np.arange(nodes), len(names) // nodes)
        added = build.add_endpoints(
            names,
            kind,
            node=node,
            package=package,
            rack=racks[node],
            memory_rate=memory.value / c.REDUCE_ACCESSES.value,
        )
        numbers.append(added.reshape(nodes, -1))
    return die_names + cpu_names, numbers[0], numbers[1]


def _add_engines(build: FabricBuilder, dies: Ints) -> None:
    """Give every die its engines; those of the network card are its own, apart from UB's."""
    nic = c.NIC_RATE.value / roce_wire_share()
    rates: dict[str, Any] = {"write": c.WRITE_RATE.value, "read": c.READ_RATE.value}
    for op, kind in UB_ENGINES.items():
        build.add_engines(kind, dies, capacity=rates[op], tier=f"{op} engine")
    for op, kind in NIC_ENGINES.items():
        build.add_engines(kind, dies, capacity=nic, tier=f"RDMA {op} engine")
