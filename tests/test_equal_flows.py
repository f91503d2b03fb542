"""Equal flows are computed as one, and rows of ended flows are used again: nothing changes."""

import time

import numpy as np
import pytest

from tests.instances import all_to_all, random_instance
from tests.naive import compiled, naive_flows
from tests.test_engine import assert_equal_ends
from tests.test_flowsim import rows
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim


@pytest.fixture(scope="module")
def runner():
    return compiled()


def repeated(instance, times):
    """Return an instance whose flow i comes times[i] times, and where each flow's rows begin.

    What waits for a flow waits for all of its copies; copies wait for the same flows.
    """
    n = len(times)
    old = np.repeat(np.arange(n), times)
    first = np.concatenate([[0], np.cumsum(times)])
    hops = np.diff(instance["route_ptr"])
    taken = [np.arange(instance["route_ptr"][i], instance["route_ptr"][i + 1]) for i in old]
    hop = np.concatenate([*taken, np.zeros(0, np.int64)]).astype(np.int64)
    copies = {"capacity": instance["capacity"]}
    for name in ("start_ps", "nbytes", "weight", "rate_cap", "startup_ps"):
        if name in instance:
            copies[name] = instance[name][old]
    copies["route_ptr"] = np.concatenate([[0], np.cumsum(hops[old])])
    copies["route_link"] = instance["route_link"][hop]
    if "route_share" in instance:
        copies["route_share"] = instance["route_share"][hop]
    if "dep" in instance:
        waits = []
        for i in old:
            before = instance["dep"][instance["dep_ptr"][i] : instance["dep_ptr"][i + 1]]
            waits.append([j for b in before for j in range(first[b], first[b + 1])])
        copies["dep_ptr"] = np.concatenate([[0], np.cumsum([len(w) for w in waits])])
        copies["dep"] = np.array([j for w in waits for j in w], np.int64)
    return copies, first


def expanded_ends(instance):
    """Return the ends where each flow is posted by itself, so that none is another's equal."""
    sim = FlowSim(instance["capacity"])
    for i in range(len(instance["nbytes"])):
        sim.post(**rows(instance, i, i + 1))
    sim.run()
    return sim.finish_ps, sim.counters


@pytest.mark.parametrize("seed", range(60))
def test_groups_equal_the_expanded_form_and_the_twin(runner, seed):
    rng = np.random.default_rng([21, seed])
    instance = random_instance(rng, 25, 8)
    copies, first = repeated(instance, rng.integers(1, 5, 25))
    order = rng.permutation(len(copies["nbytes"])) if "dep" not in copies else None
    if order is not None:  # equal flows need not stand together
        copies = shuffled(copies, order)
    found = simulate_flows(**copies)
    expected, part = naive_flows(**copies, runner=runner)
    assert_equal_ends(found, expected, part)
    if "dep" not in copies:
        alone, counters = expanded_ends(copies)
        assert counters["groups"] == counters["flows"]
        assert_equal_ends(found, alone, part)
    else:
        for i in range(25):
            assert len(set(found[first[i] : first[i + 1]].tolist())) == 1


def shuffled(instance, order):
    hops = [
        instance["route_link"][instance["route_ptr"][i] : instance["route_ptr"][i + 1]]
        for i in order
    ]
    moved = {"capacity": instance["capacity"]}
    for name in ("start_ps", "nbytes", "weight", "rate_cap", "startup_ps"):
        if name in instance:
            moved[name] = instance[name][order]
    moved["route_ptr"] = np.concatenate([[0], np.cumsum([len(h) for h in hops])])
    moved["route_link"] = np.concatenate(hops)
    if "route_share" in instance:
        moved["route_share"] = np.concatenate(
            [
                instance["route_share"][instance["route_ptr"][i] : instance["route_ptr"][i + 1]]
                for i in order
            ]
        )
    return moved


def test_counters_say_what_was_computed_as_one():
    sim = FlowSim([1e9, 1e9])
    sim.post([1000] * 6, np.arange(7), [0, 0, 1, 1, 1, 0], [1, 1, 1, 1, 2, 1], watch=True)
    assert sim.counters["groups"] == 3
    assert sim.advance().tolist() == [0, 1, 5]
    assert sim.advance().tolist() == [2, 3, 4]
    assert sim.counters["events"] == 12
    assert sim.finish_ps.tolist() == [
        3_000_000,
        3_000_000,
        4_000_000,
        4_000_000,
        4_000_000,
        3_000_000,
    ]
    assert sim.link_bytes().tolist() == [3000, 4000]


def test_groups_in_the_dense_regime(runner):
    instance = all_to_all("moe", "ecmp", 16)
    copies, _ = repeated(instance, np.random.default_rng(4).integers(1, 4, 240))
    sim = FlowSim(copies["capacity"])
    sim.post(**{name: copies[name] for name in copies if name != "capacity"})
    sim.run()
    assert sim.counters["groups"] == 240
    assert sim.counters["sweeps"] < sim.counters["reallocations"] / 2
    expected, part = naive_flows(**copies, runner=runner)
    assert_equal_ends(sim.finish_ps, expected, part)


@pytest.mark.parametrize("seed", range(12))
def test_a_long_program_uses_its_rows_again(runner, seed):
    rng = np.random.default_rng([22, seed])
    instance = random_instance(rng, 900, 9)
    order = np.argsort(instance["start_ps"], kind="stable")
    instance.pop("dep", None)
    instance.pop("dep_ptr", None)
    instance = shuffled(instance, order)
    instance["start_ps"] = start = np.sort(rng.integers(0, 900_000_000_000, 900))
    # Each flow waits for some that came before it, ended or not.
    waits = [rng.integers(0, i, min(i, rng.integers(0, 3))) for i in range(900)]
    instance["dep_ptr"] = np.concatenate([[0], np.cumsum([len(w) for w in waits])])
    instance["dep"] = np.concatenate(waits).astype(np.int64)
    sim = FlowSim(instance["capacity"])
    for i in range(900):
        sim.run_until(int(start[i]))
        sim.post(**rows(instance, i, i + 1))
    sim.run()
    expected, part = naive_flows(**instance, runner=runner)
    assert_equal_ends(sim.finish_ps, expected, part)
    assert sim.counters["unfinished"] == 0


def test_memory_of_a_long_program_is_an_end_for_each_flow():
    sim = FlowSim([1e9])
    for _ in range(3000):
        sim.post([1000, 10], [0, 1, 2], [0, 0], dep_ptr=[0, 0, 1], dep=[sim.size])
        sim.run()
    tables = [table for table in sim._driver.engine if table is not sim._driver.engine.ends]
    assert sum(table.nbytes for table in tables) < 150_000
    assert (np.diff(sim.finish_ps) > 0).all()


def test_many_flows_that_are_alike_but_for_their_start_up_cost_no_square():
    # All have one key; a search among all of them would take minutes.
    n = 100_000
    sim = FlowSim([1e9])
    began = time.process_time()
    sim.post([1000] * n, np.arange(n + 1), [0] * n, startup_ps=np.arange(n) * 2_000_000)
    assert time.process_time() - began < 5
    assert sim.counters["groups"] == n
    assert sim.run() == (n - 1) * 2_000_000 + 1_000_000
