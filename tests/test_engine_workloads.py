"""The engine on known workloads: makespan and mean completion, and regular traffic at scale."""

import numpy as np
import pytest

from tests.instances import all_to_all, poisson
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim

# Name: inputs, makespan in ms, mean completion in us; peers agree on them to 1e-7.
KNOWN = {
    "a2a_uni_dmodk_384": (lambda: all_to_all("uni", "dmodk", 384), 8.032092160, 8032.092160),
    "a2a_uni_ecmp_192": (lambda: all_to_all("uni", "ecmp", 192), 4.529848320, 4016.082228),
    "a2a_moe_ecmp_48": (lambda: all_to_all("moe", "ecmp", 48), 1.620049580, 494.203947),
    "a2a_moe_ecmp_96": (lambda: all_to_all("moe", "ecmp", 96), 2.793322960, 981.580597),
    "poisson_10000_load50_384": (lambda: poisson(10_000, 0.5), 4.129656819, 59.874336),
    "poisson_10000_load90_384": (lambda: poisson(10_000, 0.9), 3.961883315, 86.956733),
}

# Events, re-allocations and flows touched, the same on every machine: a change of these figures
# is a change of the engine's work, to be made on purpose.
WORK = {
    "a2a_uni_dmodk_384": (294_144, 2, 147_072),
    "a2a_moe_ecmp_48": (4_512, 2_257, 171_288),
    "a2a_moe_ecmp_96": (18_240, 9_120, 1_461_177),
    "poisson_10000_load90_384": (20_000, 20_000, 502_826),
}


@pytest.mark.parametrize("name", WORK)
def test_work_is_what_it_was(name):
    workload = KNOWN[name][0]()
    sim = FlowSim(workload.pop("capacity"))
    sim.post(**workload)
    sim.run()
    counters = sim.counters
    found = tuple(counters[key] for key in ("events", "reallocations", "touched"))
    assert found == WORK[name]


@pytest.mark.parametrize("name", KNOWN)
def test_known_makespan_and_mean(name):
    make, makespan_ms, mean_us = KNOWN[name]
    workload = make()
    ends = simulate_flows(**workload)
    assert ends.max() / 1e9 == pytest.approx(makespan_ms, abs=2.5e-9)
    assert (ends - workload["start_ps"]).mean() / 1e6 == pytest.approx(mean_us, abs=2.5e-6)


def dies(nodes, dies_a_node=16):
    """Return capacities of in, out, engine of each die and of each node's uplink, both ways."""
    n = nodes * dies_a_node
    return np.concatenate([np.full(2 * n, 196e9), np.full(n, 137e9), np.full(2 * nodes, 3136e9)])


def die_routes(src, dst, nodes, dies_a_node=16):
    n = nodes * dies_a_node
    uplink = 3 * n + src // dies_a_node
    downlink = 3 * n + nodes + dst // dies_a_node
    return np.stack([src, n + dst, 2 * n + src, uplink, downlink], 1).ravel()


def test_uniform_all_to_all_on_768_endpoints_is_one_event():
    nodes, n = 48, 768
    src, dst = (index.ravel() for index in np.indices((n, n)))
    src, dst = src[src != dst], dst[src != dst]
    ptr = 5 * np.arange(len(src) + 1)
    ends = simulate_flows(dies(nodes), 0, 65536, ptr, die_routes(src, dst, nodes))
    # An engine's 137 GB/s carry the 767 messages of its die.
    assert (ends == round(767 * 65536 / 137e9 * 1e12)).all()


def test_a_ring_of_768_waits_in_the_kernel():
    nodes, n, steps = 48, 768, 100
    rank = np.tile(np.arange(n), steps)
    following = (rank + 1) % n
    ptr = 5 * np.arange(len(rank) + 1)
    waits = np.arange(n * (steps - 1))
    before = waits // n * n + (waits % n - 1) % n
    dep = np.stack([waits, before], 1).ravel()
    dep_ptr = np.concatenate([np.zeros(n, np.int64), 2 * np.arange(len(waits) + 1)])
    ends = simulate_flows(
        dies(nodes),
        0,
        1 << 20,
        ptr,
        die_routes(rank, following, nodes),
        dep_ptr=dep_ptr,
        dep=dep,
        startup_ps=1000,
    )
    step_ps = 1000 + round((1 << 20) / 137e9 * 1e12)
    assert (ends.reshape(steps, n) == step_ps * np.arange(1, steps + 1)[:, None]).all()
