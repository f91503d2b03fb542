"""Gates: what is waited for holds back a flow's bytes alone, while its start-up goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.instances import random_instance
from tests.naive import compiled, naive_flows
from tests.test_engine import assert_equal_ends
from tests.test_equal_flows import repeated
from tests.test_flowsim import rows
from ubnet.bounds import lower_bounds
from ubnet.errors import FlowError
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim


@pytest.fixture(scope="module")
def runner():
    return compiled()


def gated_instance(seed):
    """Return a random instance of flows that wait, some of it at gates."""
    for attempt in range(100):
        rng = np.random.default_rng([51, *seed, attempt])
        instance = random_instance(rng)
        if len(instance.get("dep", ())) and "startup_ps" in instance:
            return instance | {"gate": rng.random(len(instance["dep"])) < 0.6}
    raise AssertionError("no instance with dependencies and start-ups")


def one_flow_at_a_time(instance):
    """Return the ends of flows that are posted one by one, as what they wait for has ended."""
    ptr, dep = instance["dep_ptr"], instance["dep"]
    expected = simulate_flows(**instance)
    sim = FlowSim(instance["capacity"])
    number = np.full(len(expected), -1)
    waiting = list(range(len(expected)))
    while waiting:
        able = [i for i in waiting if (number[dep[ptr[i] : ptr[i + 1]]] >= 0).all()]
        for i in able:
            columns = rows(instance, i, i + 1)
            columns["dep"] = number[columns["dep"]]
            number[i] = sim.post(**columns, gate=instance["gate"][ptr[i] : ptr[i + 1]])
        waiting = [i for i in waiting if i not in able]
    sim.run()
    return sim.finish_ps[number], expected


@pytest.mark.parametrize("block", range(4))
def test_random_gates_equal_the_twin(runner, block):
    for seed in range(50):
        instance = gated_instance([block, seed])
        expected, part = naive_flows(**instance, runner=runner)
        found = simulate_flows(**instance)
        assert_equal_ends(found, expected, part)
        assert found.max() >= lower_bounds(**instance).ps - len(found) / 2


@pytest.mark.parametrize("block", range(4))
def test_a_gate_is_a_start_up_of_its_own_that_is_waited_for(block):
    """The form that needs no gates: the start-up is a flow without bytes."""
    for seed in range(25):
        given = gated_instance([52, block, seed])
        ptr, dep, gate, n = given["dep_ptr"], given["dep"], given["gate"], len(given["nbytes"])
        data = [dep[ptr[i] : ptr[i + 1]][~gate[ptr[i] : ptr[i + 1]]] for i in range(n)]
        held = [[n + i, *dep[ptr[i] : ptr[i + 1]][gate[ptr[i] : ptr[i + 1]]]] for i in range(n)]
        both = given | {
            "start_ps": np.concatenate([np.zeros(n, np.int64), given["start_ps"]]),
            "nbytes": np.concatenate([given["nbytes"], np.zeros(n, np.int64)]),
            "route_ptr": np.concatenate([given["route_ptr"], np.full(n, len(given["route_link"]))]),
            "startup_ps": np.concatenate([np.zeros(n, np.int64), given["startup_ps"]]),
            "dep_ptr": np.concatenate([[0], np.cumsum([len(row) for row in held + data])]),
            "dep": np.concatenate([*held, *data]).astype(np.int64),
        }
        for name in ("weight", "rate_cap"):
            if name in given:
                both[name] = np.concatenate([given[name], np.ones(n)])
        del both["gate"]
        assert simulate_flows(**both)[:n].tolist() == simulate_flows(**given).tolist()


@pytest.mark.parametrize("seed", range(30))
def test_posting_one_by_one_equals_one_call(seed):
    found, expected = one_flow_at_a_time(gated_instance([53, seed]))
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(30))
def test_equal_flows_behind_gates_equal_the_twin(runner, seed):
    given = gated_instance([54, seed])
    rng = np.random.default_rng([55, seed])
    times = rng.integers(1, 5, len(given["nbytes"]))
    copies, _ = repeated(given, times)
    ptr, edges = given["dep_ptr"], given["gate"]
    gates = [
        np.repeat(edges[ptr[i] : ptr[i + 1]], times[given["dep"][ptr[i] : ptr[i + 1]]])
        for i in np.repeat(np.arange(len(times)), times)
    ]
    # Among the copies of a flow are some that wait in another way.
    copies["gate"] = np.concatenate(gates) ^ (rng.random(len(copies["dep"])) < 0.1)
    expected, part = naive_flows(**copies, runner=runner)
    assert_equal_ends(simulate_flows(**copies), expected, part)


STARTUP = {"startup_ps": [0, 300_000], "dep_ptr": [0, 0, 1], "dep": [0]}


def test_the_start_up_goes_on_behind_a_gate():
    # 1,000 and 100 bytes at 1 GB/s end 1 us and 100 ns after they enter the network.
    ends = [
        simulate_flows([1e9], 0, [1000, 100], [0, 1, 2], [0, 0], gate=gate, **STARTUP).tolist()
        for gate in (False, True, [True])
    ]
    assert ends == [[1_000_000, 1_400_000], [1_000_000, 1_100_000], [1_000_000, 1_100_000]]


def test_a_start_up_longer_than_the_wait_is_waited_for():
    ends = simulate_flows([1e9], 7, [100, 0], [0, 1, 2], [0, 0], gate=True, **STARTUP)
    assert ends.tolist() == [100_007, 300_007]


def test_a_gate_that_has_ended_long_ago_holds_nothing_back():
    sim = FlowSim([1e9])
    sim.post([1000], [0, 1], [0])
    sim.run_until(5_000_000)
    sim.post([100], [0, 1], [0], dep_ptr=[0, 1], dep=[0], gate=[True], startup_ps=[10])
    assert sim.run() == 5_100_010


def test_gates_outlive_the_rows_of_flows_that_have_ended():
    sim = FlowSim([1e9])
    last = sim.post([1 << 20], [0, 1], [0])
    held = {"dep_ptr": [0, 1], "dep": [last], "gate": True, "startup_ps": 900_000_000}
    gated = sim.post([1000], [0, 1], [0], **held)
    for _ in range(40):  # short ones come and go, and their rows are cleared out
        sim.post(np.full(100, 10), np.arange(101), np.zeros(100, np.int64))
        sim.run_until(sim.now_ps + 2_000_000)
    assert len(sim._driver.engine.flows) < 1000
    sim.run()
    ends = sim.finish_ps
    assert ends[gated] == ends[last] + 1_000_000


def test_gates_of_another_length_are_refused():
    with pytest.raises(FlowError, match=r"gate has shape \(2,\); give one number or 1 in a row"):
        simulate_flows([1e9], 0, [1, 1], [0, 1, 2], [0, 0], gate=[True, False], **STARTUP)


SCRIPT = """
import json, sys
from tests.test_gates import gated_instance
from ubnet.flow_ends import simulate_flows
ends = [simulate_flows(**gated_instance([56, seed])).tolist() for seed in range(20)]
json.dump(ends, sys.stdout)
"""


def test_the_jit_changes_nothing():
    here = [simulate_flows(**gated_instance([56, seed])).tolist() for seed in range(20)]
    root = Path(__file__).parent.parent
    bare = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=bare, cwd=root, capture_output=True, text=True
    )
    assert json.loads(run.stdout) == here, run.stderr
