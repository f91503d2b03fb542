"""The flow engine against its slow twin, against linear programs, and against itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.instances import all_to_all, clos, poisson, random_instance
from tests.lp import lp_rates
from tests.naive import compiled, naive_flows
from ubnet.flow_ends import simulate_flows
from ubnet.flow_engine import state, tables
from ubnet.flowsim import FlowSim


@pytest.fixture(scope="module")
def runner():
    return compiled()


def assert_equal_ends(found, expected, part):
    """Equal picoseconds; 1 apart only where the exact end lies within 1e-3 ps of a half."""
    apart = np.abs(found - expected)
    wrong = (apart > 1) | ((apart == 1) & (np.abs(part - 0.5) > 1e-3))
    assert not wrong.any(), (np.flatnonzero(wrong), found[wrong], expected[wrong], part[wrong])


@pytest.mark.parametrize("block", range(10))
def test_random_instances_equal_the_twin(runner, block):
    for seed in range(100):
        instance = random_instance(np.random.default_rng([block, seed]))
        expected, part = naive_flows(**instance, runner=runner)
        assert_equal_ends(simulate_flows(**instance), expected, part)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 120), st.integers(1, 60))
def test_larger_instances_equal_the_twin(runner, seed, flows, links):
    instance = random_instance(np.random.default_rng(seed), flows, links)
    expected, part = naive_flows(**instance, runner=runner)
    assert_equal_ends(simulate_flows(**instance), expected, part)


@pytest.mark.parametrize("seed", range(10))
def test_sparse_traffic_on_a_clos_equals_the_twin(runner, seed):
    # Few flows on many links, as they come: nearly all re-allocations sweep a part of them.
    rng = np.random.default_rng([17, seed])
    n, hosts = int(rng.integers(200, 900)), int(rng.choice([32, 64]))
    src = rng.integers(0, hosts, n)
    dst = (src + rng.integers(1, hosts, n)) % hosts
    capacity, ptr, link = clos(src, dst, hosts, rng.integers(0, 8, n))
    instance = {
        "capacity": capacity * rng.choice([1.0, 0.7, 1.3], len(capacity)) if seed % 2 else capacity,
        "start_ps": rng.integers(0, int(rng.choice([10**9, 5 * 10**9])), n),
        "nbytes": rng.lognormal(13, 2, n).astype(np.int64) + 1,
        "route_ptr": ptr,
        "route_link": link,
    }
    if seed % 3 == 0:
        instance["weight"] = rng.choice([0.25, 1.0, 3.0, 7.7], n)
    if seed % 4 == 0:
        instance["rate_cap"] = np.where(rng.random(n) < 0.5, np.inf, rng.uniform(1e8, 4e10, n))
    if seed % 5 == 0:
        instance["route_share"] = rng.choice([0.125, 1 / 7, 1.0, 137 / 135], len(link))
    expected, part = naive_flows(**instance, runner=runner)
    sim = FlowSim(instance.pop("capacity"))
    sim.post(**instance)
    sim.run()
    assert_equal_ends(sim.finish_ps, expected, part)
    assert sim.counters["sweeps"] > 0.5 * sim.counters["reallocations"]


@pytest.mark.parametrize(("kind", "hosts"), [("moe", 16), ("moe", 24), ("uni", 32), ("moe", 40)])
def test_all_to_alls_equal_the_twin(runner, kind, hosts):
    instance = all_to_all(kind, "ecmp", hosts)
    expected, part = naive_flows(**instance, runner=runner)
    assert_equal_ends(simulate_flows(**instance), expected, part)


@pytest.mark.parametrize("seed", range(12))
def test_crowds_with_arrivals_and_odd_flows_equal_the_twin(runner, seed):
    # Enough flows on few links for the dense regime, which others join, fit for it or not.
    rng = np.random.default_rng([11, seed])
    instance = random_instance(rng, 300, 12)
    for name in ("route_share", "weight", "rate_cap"):
        instance.pop(name, None)
    instance["start_ps"] = np.where(rng.random(300) < 0.7, 0, instance["start_ps"])
    if seed % 2:
        instance["weight"] = np.where(rng.random(300) < 0.02, 3.0, 1.0)
        instance["start_ps"][instance["weight"] > 1] = 900_000_000
    expected, part = naive_flows(**instance, runner=runner)
    assert_equal_ends(simulate_flows(**instance), expected, part)


def test_flows_that_start_together_do_not_overflow_the_rows(runner):
    # A crowd leads to the dense regime; beside it one link with 31,360 shares, of the 32,000 that a
    # row may have, on which 30 more flows of 64 shares start at once.
    instance = all_to_all("moe", "ecmp", 24)
    last = int(simulate_flows(**instance).max())
    links, crowd, flows, late = len(instance["capacity"]), len(instance["nbytes"]), 490, 30
    hops = instance["route_ptr"][-1]
    size = 2_000 + np.random.default_rng(6).permutation(flows + late)
    instance = {
        "capacity": np.append(instance["capacity"], 64 * size.sum() / last * 1e12),
        "start_ps": np.repeat([0, last // 5], [crowd + flows, late]),
        "nbytes": np.concatenate([instance["nbytes"], size]),
        "route_ptr": np.append(instance["route_ptr"], hops + 1 + np.arange(flows + late)),
        "route_link": np.append(instance["route_link"], np.full(flows + late, links)),
        "route_share": np.append(np.ones(hops), np.full(flows + late, 64.0)),
    }
    expected, part = naive_flows(**instance, runner=runner)
    assert_equal_ends(simulate_flows(**instance), expected, part)


def test_the_plain_twin_and_the_compiled_one_agree(runner):
    for seed in range(20):
        instance = random_instance(np.random.default_rng([77, seed]))
        plain, _ = naive_flows(**instance)
        fast, _ = naive_flows(**instance, runner=runner)
        assert plain.tolist() == fast.tolist()


@pytest.mark.slow
def test_rates_are_those_of_the_linear_programs():
    for seed in range(100):
        rng = np.random.default_rng([5, seed])
        flows, links = int(rng.integers(1, 12)), int(rng.integers(1, 8))
        hops = rng.integers(1, min(links, 4) + 1, flows)
        link = np.concatenate([rng.permutation(links)[:k] for k in hops])
        ptr = np.concatenate([[0], np.cumsum(hops)])
        share = rng.choice([0.25, 1 / 7, 1.0, 2.0], len(link))
        weight = rng.choice([0.5, 1.0, 3.0], flows)
        cap = np.where(rng.random(flows) < 0.6, np.inf, rng.uniform(1e7, 1e9, flows))
        capacity = rng.uniform(1e8, 1e9, links)
        sim = FlowSim(capacity)
        sim.post([10**9] * flows, ptr, link, share, weight=weight, rate_cap=cap)
        sim.run_until(0)
        rates = lp_rates(capacity, ptr, link, share, weight, cap)
        use = np.bincount(link, share * np.repeat(rates, hops), minlength=links)
        np.testing.assert_allclose(sim.link_rate(), use, rtol=1e-6, atol=1)
        alone = [first_end(capacity, ptr, link, share, weight, cap, i) for i in range(flows)]
        np.testing.assert_allclose(alone, 1000 / rates * 1e12, rtol=1e-5)


def first_end(capacity, ptr, link, share, weight, cap, flow):
    """Return when a flow of 1,000 bytes ends among giants, that is 1,000 bytes over its rate."""
    size = np.full(len(ptr) - 1, 10**11)
    size[flow] = 1000
    return simulate_flows(capacity, 0, size, ptr, link, share, weight, cap)[flow]


def test_two_runs_are_equal_to_the_picosecond():
    instance = random_instance(np.random.default_rng(3), 200, 40)
    assert simulate_flows(**instance).tolist() == simulate_flows(**instance).tolist()


SEEDS = range(12)


def runs_of_seeds():
    """Run random instances, and an all-to-all that the dense regime takes.

    It ends with two flows whose shares are more than 32 bits can count.
    """
    instances = [random_instance(np.random.default_rng([9, seed]), 25, 9) for seed in SEEDS]
    dense = all_to_all("moe", "ecmp", 16)
    hops = dense["route_ptr"][-1]
    dense["start_ps"] = np.append(dense["start_ps"], [90_000_000] * 2)
    dense["nbytes"] = np.append(dense["nbytes"], [1, 2])
    dense["route_ptr"] = np.append(dense["route_ptr"], hops + np.array([1, 2]))
    dense["route_link"] = np.append(dense["route_link"], [0, 0])
    dense["route_share"] = np.append(np.ones(hops), [3e9, 3e9])
    return [run(**instance) for instance in [*instances, dense, given_up()]]


def given_up():
    """Return a crowd that leaves the dense regime for one flow, and then gives up many sweeps."""
    rng = np.random.default_rng([32, 6])
    n, links = 160, 12
    hops = rng.integers(3, 7, n)
    link = np.concatenate([rng.permutation(links)[:k] for k in hops])
    return {
        "capacity": rng.uniform(1e8, 5e9, links).round(),
        "nbytes": np.append(rng.integers(1, 2_000_000, n), 10_000),
        "route_ptr": np.append(np.cumsum([0, *hops]), len(link) + 1),
        "route_link": np.append(link, 0),
        "start_ps": np.repeat([0, 1_320_000_000], [n, 1]),
        "weight": np.repeat([1.0, 3.0], [n, 1]),
    }


def run(capacity, **columns):
    """Return the ends of flows, and how much work it was."""
    sim = FlowSim(capacity)
    sim.post(**columns)
    sim.run()
    return [sim.finish_ps.tolist(), sim.counters]


def test_jit_off_gives_the_same_picoseconds_by_the_same_work():
    root = Path(__file__).parent.parent
    code = "import json, tests.test_engine as t; print(json.dumps(t.runs_of_seeds()))"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(root)}
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout) == runs_of_seeds()


@pytest.mark.parametrize("instance", [poisson(2000, 0.6, 64), all_to_all("moe", "ecmp", 24)])
def test_sweeps_are_counted_from_the_first_again_before_their_numbers_are_too_long(instance):
    capacity = instance["capacity"]
    columns = {name: column for name, column in instance.items() if name != "capacity"}
    sim = FlowSim(capacity)
    sim.post(**columns)
    for name in ("sweep", "epoch", "sums"):
        sim._clock[state.PLACES[name]] = state.MOST_NUMBERED - 40
    sim.run()
    assert sim._clock[state.PLACES["sweep"]] < sim.counters["reallocations"]
    assert sim.finish_ps.tolist() == simulate_flows(**instance).tolist()


def test_no_column_is_called_as_numpy_calls_what_each_row_has():
    engine = tables.fresh_engine(np.ones(3), 0.0)
    dense = tables.dense_tables(3, 4, 4)
    rows = [table.dtype for table in (*engine, *dense)]
    columns = [name for kind in rows for name in kind.names or ()]
    assert len(columns) > 90
    # `row.size` would be 1 with the JIT off, whatever the column held.
    assert [name for name in columns if hasattr(np.record, name)] == []


def test_rows_span_no_more_cache_lines_than_they_must():
    rows, line = state.ENGINE_ROWS, tables.CACHE_LINE
    assert (rows.flows.itemsize, rows.links.itemsize) == (2 * line, 3 * line)
    assert rows.links.fields["free"][1] == line  # a flow alone on its links reads but the first
    assert rows.posted.itemsize == 48
    engine = tables.fresh_engine(np.ones(3), 0.0)
    grown = [tables.longer(table, 3 * len(table)) for table in engine]
    assert [table.ctypes.data % line for table in (*engine, *grown)] == [0] * 2 * len(engine)
    assert [table.dtype for table in grown] == list(rows)


def test_hand_calculated_cases():
    # Weights 1 and 3 on a link of 1 GB/s: 250 and 750 MB/s.
    assert (
        simulate_flows([1e9], 0, [1000, 3000], [0, 1, 2], [0, 0], weight=[1, 3]).tolist()
        == [4_000_000] * 2
    )
    # A share of 1/7 of a link of 1 GB/s lets 7 GB/s through.
    assert simulate_flows([1e9], 0, [7000], [0, 1], [0], [1 / 7]).tolist() == [1_000_000]
    # A cap of 100 MB/s leaves 900 to the other.
    assert (
        simulate_flows([1e9], 0, [100, 900], [0, 1, 2], [0, 0], rate_cap=[1e8, np.inf]).tolist()
        == [1_000_000] * 2
    )
    # No route: no time, or the cap's.
    assert simulate_flows(
        [1e9], 5, [1000, 1000], [0, 0, 0], [], rate_cap=[np.inf, 1e9], startup_ps=7
    ).tolist() == [12, 1_000_012]
    # Zero bytes: ready plus start-up, and dependants follow in the same instant.
    assert simulate_flows(
        [1e9], 0, [0, 0, 1000], [0, 1, 2, 3], [0, 0, 0], dep_ptr=[0, 0, 1, 2], dep=[0, 1],
        startup_ps=[10, 0, 5],
    ).tolist() == [10, 10, 1_000_015]  # fmt: skip


def test_odd_sizes_at_400_gigabytes_end_on_a_half_and_round_up():
    sizes = np.arange(1, 100, 2)  # 2.5 ps a byte
    ptr = np.arange(len(sizes) + 1)
    ends = simulate_flows(np.full(len(sizes), 400e9), 0, sizes, ptr, np.arange(len(sizes)))
    assert ends.tolist() == [(5 * size + 1) // 2 for size in sizes.tolist()]


def test_no_flows_at_all():
    assert simulate_flows([1e9], 0, [], [0], []).tolist() == []
    assert simulate_flows([], 0, [], [0], []).tolist() == []
