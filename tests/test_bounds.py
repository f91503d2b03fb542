"""No makespan is below the busiest link's time or the longest chain's."""

import numpy as np
import pytest

from tests.instances import all_to_all, random_instance
from ubnet.bounds import lower_bounds
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
