"""The engine on the known workloads, beside the naive refill of tests/naive.py compiled by Numba.

``pytest bench --benchmark-enable`` times them; the work counters, which are the same on every
machine, are compared in any case.
"""

import numpy as np
import pytest

from tests.instances import all_to_all, poisson
from tests.naive import compiled, naive_flows
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim

WORKLOADS = {
    "a2a_uni_dmodk_384": lambda: all_to_all("uni", "dmodk", 384),
    "a2a_uni_ecmp_192": lambda: all_to_all("uni", "ecmp", 192),
    "a2a_uni_ecmp_384": lambda: all_to_all("uni", "ecmp", 384),
    "a2a_moe_ecmp_48": lambda: all_to_all("moe", "ecmp", 48),
    "a2a_moe_ecmp_96": lambda: all_to_all("moe", "ecmp", 96),
    "poisson_10000_load50_384": lambda: poisson(10_000, 0.5),
    "poisson_10000_load90_384": lambda: poisson(10_000, 0.9),
}
SLOW_WORKLOADS = {
    "a2a_moe_ecmp_192": lambda: all_to_all("moe", "ecmp", 192),
    "poisson_100000_load50_384": lambda: poisson(100_000, 0.5),
    "poisson_100000_load90_384": lambda: poisson(100_000, 0.9),
}
YARDSTICK = ("a2a_moe_ecmp_48", "a2a_moe_ecmp_96", "poisson_10000_load50_384")
EVENTS = {
    "a2a_uni_dmodk_384": 1,
    "a2a_uni_ecmp_192": 490,
    "a2a_uni_ecmp_384": 1_069,
    "a2a_moe_ecmp_48": 2_256,
    "a2a_moe_ecmp_96": 9_119,
}


@pytest.fixture(scope="module", autouse=True)
def _compile():
    """Compile all kernels before anything is timed."""
    simulate_flows(**all_to_all("moe", "ecmp", 16))


@pytest.mark.parametrize("name", WORKLOADS)
def test_engine(benchmark, name):
    workload = WORKLOADS[name]()
    benchmark(simulate_flows, **workload)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_WORKLOADS)
def test_engine_on_large_workloads(benchmark, name):
    workload = SLOW_WORKLOADS[name]()
    benchmark.pedantic(simulate_flows, kwargs=workload, rounds=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", YARDSTICK)
def test_yardstick(benchmark, name):
    workload, runner = WORKLOADS[name](), compiled()
    naive_flows(**all_to_all("uni", "ecmp", 16), runner=runner)
    benchmark.pedantic(naive_flows, kwargs=workload | {"runner": runner}, rounds=1)


@pytest.mark.parametrize("name", EVENTS)
def test_one_reallocation_an_instant(name):
    workload = WORKLOADS[name]()
    sim = FlowSim(workload.pop("capacity"))
    sim.post(**workload)
    sim.run()
    counters = sim.counters
    assert counters["events"] == 2 * len(workload["nbytes"])
    # The start, and the ends; the last leaves nothing to allocate. One picosecond may split.
    assert abs(counters["reallocations"] - 1 - len(np.unique(sim.finish_ps))) <= 1
    assert abs(len(np.unique(sim.finish_ps)) - EVENTS[name]) <= 2
