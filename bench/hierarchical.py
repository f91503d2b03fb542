"""Hierarchical all_reduce on a whole supernode against the flat ring, and against both sums.

Mesh inside the node, ring (or NHR) between, mesh inside: ``python bench/hierarchical.py``. The sums
go along the critical path of each, hop by hop, each with its own start-up and rate.
"""

import argparse

import numpy as np

from ubnet.collectives import build
from ubnet.fabrics import load_fabric
from ubnet.timing import time_schedule

DIE, NODE, RANKS = 2, 16, 768
POST, SPREAD = 0.08e-6, 0.1
NEAR, FAR, PACKAGE = (1.32e-6, 137e9), (2.07e-6, 135e9), (0.2e-6, 210e9)
"""Latency of a message with its posting, and rate, of Table 1 [P] and [S]."""
MEMORY = 1.6e12 / 3


def hop(kind: tuple[float, float], nbytes: float) -> float:
    latency, rate = kind
    return latency + nbytes / rate


def flat_ring(size: float) -> float:
    """Around the ring twice: the longest run of 767 hops, with sums in the first turn."""
    block = size / RANKS
    hops = [
        PACKAGE if r % DIE == 0 else FAR if r % NODE == NODE - 1 else NEAR for r in range(RANKS)
    ]
    times = np.array([hop(kind, block) for kind in hops])
    around = np.tile(times, 3)
    run = 2 * (RANKS - 1)
    longest = max(around[first : first + run].sum() for first in range(RANKS))
    return float(longest) + (RANKS - 1) * block / MEMORY


def mesh_inside(block: float) -> float:
    """One step to 15 mates: one over the package link, 14 by the engine."""
    targets = NODE - DIE
    held = targets * (block / NEAR[1] + POST) * (1 + SPREAD * (1 - 1 / targets))
    return NEAR[0] - POST + held


def levels(size: float, between: str) -> float:
    block = size / NODE
    servers = RANKS // NODE
    total = 2 * mesh_inside(block) + (NODE - 1) * block / MEMORY
    piece = block / servers
    if between == "ring":
        steps = [1] * (servers - 1)
    else:
        left, steps = servers - 1, []
        while left:
            steps.append((left + 1) // 2)
            left -= steps[-1]
    total += 2 * sum(hop(FAR, n * piece) for n in steps)
    return total + (servers - 1) * piece / MEMORY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1 << 20)
    size = parser.parse_args().size
    fabric, places = load_fabric("cloudmatrix384"), np.arange(RANKS)
    print("algorithm            simulated us   sum us   error   ring / it   by the sums")
    ring = None
    for name, predicted in (
        ("ring", flat_ring(size)),
        ("level0:mesh;level1:ring", levels(size, "ring")),
        ("level0:mesh;level1:nhr", levels(size, "nhr")),
    ):
        schedule = build(
            "all_reduce", RANKS, size // 4, algorithm=name, fabric=fabric, endpoints=places
        )
        took = time_schedule(schedule, fabric, places, 4, "aiv").time_ps / 1e12
        ring = ring or (took, predicted)
        factor, wanted = ring[0] / took, ring[1] / predicted
        print(
            f"{name:24s} {took * 1e6:8.2f} {predicted * 1e6:8.2f} {took / predicted - 1:+7.1%}"
            f" {factor:11.2f} {wanted:10.2f} {factor / wanted - 1:+7.1%}"
        )


if __name__ == "__main__":
    main()
