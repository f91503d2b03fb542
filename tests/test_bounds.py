"""No makespan is below the busiest link's time or the longest chain's."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.instances import all_to_all, random_instance
from ubnet.bounds import lower_bounds
from ubnet.errors import FlowError
from ubnet.flow_ends import simulate_flows


@pytest.mark.parametrize("block", range(5))
def test_every_makespan_is_at_least_its_bounds(block):
    tight = 0
    for seed in range(100):
        instance = random_instance(np.random.default_rng([41, block, seed]))
        bounds = lower_bounds(**instance)
        makespan = simulate_flows(**instance).max()
        # Each flow of a chain may be rounded down by half a picosecond.
        assert makespan >= bounds.ps - len(instance["nbytes"])
        tight += makespan <= bounds.ps * 1.001 + 10
    assert tight > 10  # the bounds are worth something


def test_a_chain_of_flows_that_wait_is_met_exactly():
    # 1,000 bytes at 1 GB/s three times, each with 7 ps of start-up, from 5 ps on.
    bounds = lower_bounds(
        [1e9, 2e9],
        5,
        [1000, 1000, 1000],
        [0, 1, 2, 3],
        [0, 1, 0],
        [1.0, 2.0, 1.0],
        dep_ptr=[0, 1, 1, 2],
        dep=[1, 0],
        startup_ps=7,
    )
    assert bounds.chain_ps == 5 + 3 * 1_000_007
    assert bounds.ps == bounds.chain_ps


def test_conflict_free_all_to_all_meets_the_busiest_link():
    instance = all_to_all("uni", "dmodk", 64)
    bounds = lower_bounds(**instance)
    assert simulate_flows(**instance).max() == pytest.approx(bounds.busiest_ps, abs=1)
    assert bounds.link == 0


def test_nothing_to_move():
    assert lower_bounds([1e9], 0, [], [0], []) == (0, -1, 0)
    assert lower_bounds([1e9], 0, [0], [0, 1], [0], startup_ps=9) == (0, -1, 9)


CHAIN = {"dep_ptr": [0, *range(12)], "dep": range(11)}
ENDLESS = {
    "bytes": {"nbytes": [1, 2**62]},
    "cap": {"rate_cap": [1.0, 1e-300]},
    "share": {"route_share": [1.0, 1e308]},
    "chain": {"nbytes": [1] * 12, "startup_ps": 2**60, **CHAIN},
}


@pytest.mark.parametrize("bound", [lower_bounds, simulate_flows])
@pytest.mark.parametrize("case", ENDLESS)
def test_what_no_clock_sees_end_has_no_bounds_either(case, bound):
    flows = {"nbytes": [1000, 1000], **ENDLESS[case]}
    n = len(flows["nbytes"])
    with pytest.raises(FlowError, match=r"flow \d would end after"):
        bound([1e6], 0, route_ptr=range(n + 1), route_link=[0] * n, **flows)


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="is what is run")
def test_nor_does_it_warn_of_what_no_clock_sees_with_the_jit_off():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    command += ["-k", "no_clock_sees_end"]
    bare, root = os.environ | {"NUMBA_DISABLE_JIT": "1"}, Path(__file__).parents[1]
    done = subprocess.run(command, env=bare, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_shares_and_caps_at_the_ends_of_floats_are_bounds_without_a_warning():
    for share, nbytes in ((1e-320, 1000), (1e308, 0)):
        route = ([0, 1], [0], [share])
        assert lower_bounds([1e-9 if nbytes == 0 else 1e9], 0, nbytes, *route).chain_ps == 0
    assert lower_bounds([1e9], 0, 1000, [0, 1], [0], rate_cap=np.inf).chain_ps == 10**6
