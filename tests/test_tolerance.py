"""What a tolerance does: ends wait for the last of an instant; off by default; little is lost."""

import numpy as np
import pytest

from tests.instances import all_to_all, poisson, random_instance
from ubnet.errors import FlowError
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim


def test_ends_within_the_tolerance_wait_for_the_last_of_them():
    # Alone on their links: ends at 1000, 1001, 1010 ns; 2e-3 of 1000 is 2.
    sim = FlowSim([1e9] * 3, tolerance=2e-3)
    sim.post([1000, 1001, 1010], [0, 1, 2, 3], [0, 1, 2], watch=True)
    assert sim.next_event() == 0
    assert sim.advance().tolist() == [0, 1]
    assert sim.now_ps == 1_001_000
    sim.run()
    assert sim.finish_ps.tolist() == [1_001_000, 1_001_000, 1_010_000]
    assert sim.held_back == (1, 1_000)


def test_what_starts_meanwhile_starts_at_its_own_time():
    sim = FlowSim([1e9] * 3, tolerance=1e-2)
    sim.post([1000, 1005], [0, 1, 2], [0, 1])
    sim.post([100], [0, 1], [2], start_ps=1_002_000)
    sim.run()
    assert sim.finish_ps.tolist() == [1_000_000, 1_005_000, 1_102_000]


@pytest.mark.parametrize("start_ps", [None, 1_030_000])
def test_time_does_not_go_back_to_an_end_that_waits(start_ps):
    sim = FlowSim([1e9, 1e9], 0.1)
    sim.post([1000, 1050], [0, 1, 2], [0, 1])
    sim.run_until(1_020_000)
    assert sim.finish_ps.tolist() == [-1, -1]
    sim.post([1000], [0, 1], [0], start_ps=start_ps)
    assert sim.next_event() >= 1_020_000
    sim.run()
    assert sim.finish_ps[:2].min() >= 1_020_000


@pytest.mark.parametrize("regime", [24, 3])
def test_time_never_goes_back_whatever_the_stops(regime):
    instance = (
        all_to_all("moe", "ecmp", regime)
        if regime > 9
        else random_instance(np.random.default_rng(8), 60, 6)
    )
    instance.pop("dep", None), instance.pop("dep_ptr", None)
    sim = FlowSim(instance.pop("capacity"), 0.05)
    sim.post(**instance)
    now, step = 0, 37_000_000
    while sim.next_event() is not None:
        now += step
        before = sim.finish_ps < 0
        sim.run_until(now)
        ended = before & (sim.finish_ps >= 0)
        assert (sim.finish_ps[ended] >= now - step).all()
        sim.post([1000], [0, 1], [0]) if now < 20 * step else None
        assert sim.next_event() is None or sim.next_event() >= now


@pytest.mark.parametrize("seed", range(30))
def test_no_end_comes_before_the_exact_first_and_off_is_exact(seed):
    instance = random_instance(np.random.default_rng([31, seed]), 40, 8)
    exact = simulate_flows(**instance)
    assert simulate_flows(**instance, tolerance=0.0).tolist() == exact.tolist()
    loose = simulate_flows(**instance, tolerance=1e-2)
    assert (loose >= 0).all()
    assert loose.max() <= exact.max() * 1.1


@pytest.mark.parametrize("hosts", [48, 96])
def test_the_makespan_of_an_all_to_all_stays_within_three_thousandths(hosts):
    instance = all_to_all("moe", "ecmp", hosts)
    exact = simulate_flows(**instance)
    sim = FlowSim(instance.pop("capacity"), tolerance=1e-3)
    sim.post(**instance)
    assert sim.run() == pytest.approx(exact.max(), rel=3e-3)
    flows, longest_ps = sim.held_back
    assert 0 < flows < len(exact)
    assert 0 < longest_ps <= 1e-3 * exact.max() * 1.01
    assert sim.finish_ps.mean() == pytest.approx(exact.mean(), rel=3e-3)
    assert sim.counters["reallocations"] < 0.6 * len(exact)


def test_arrivals_keep_their_times_in_the_dense_regime():
    instance = poisson(3000, 0.95, 64)
    exact = simulate_flows(**instance)
    loose = simulate_flows(**instance, tolerance=1e-3)
    assert loose.max() == pytest.approx(exact.max(), rel=3e-3)


@pytest.mark.parametrize("tolerance", [-1e-3, 0.2, np.nan])
def test_a_tolerance_is_a_small_fraction(tolerance):
    with pytest.raises(FlowError, match="is not a fraction from 0"):
        FlowSim([1e9], tolerance=tolerance)
