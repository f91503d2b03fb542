"""The gain of a faster tier: the derivative against small real changes, and against 1 %."""

import numpy as np
import pytest

from tests.instances import all_to_all, random_dependencies, random_instance
from ubnet.errors import FlowError
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim
from ubnet.level_rise import rate_rise
from ubnet.tier_gain import AGREED, tier_gains

TIERS = ["near"] * 5 + ["far"] * 5
TINY = 1e-5


def large_instance(seed):
    """Return random flows of so many bytes that a small gain is many picoseconds."""
    rng = np.random.default_rng([61, seed])
    return random_instance(rng, 40, 10) | {"nbytes": rng.integers(0, 2_000_000_000, 40)}


def fall(instance, tier, step):
    """Return by how much of itself a makespan really falls, over the step."""
    links = np.array(TIERS) == tier
    capacity = np.where(links, np.asarray(instance["capacity"]) * (1 + step), instance["capacity"])
    before = int(simulate_flows(**instance).max())
    return (before - int(simulate_flows(**instance | {"capacity": capacity}).max())) / before / step


@pytest.mark.parametrize("seed", range(30))
def test_the_derivative_is_that_of_a_tiny_change(seed):
    instance = large_instance(seed)
    for tier, gain in tier_gains(tier_of=TIERS, **instance).items():
        assert gain.percent == pytest.approx(fall(instance, tier, TINY), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_gates_and_start_ups_move_what_comes_last(seed):
    rng = np.random.default_rng([62, seed])
    instance = large_instance(seed) | random_dependencies(rng, 40)
    instance |= {
        "gate": rng.random(len(instance["dep"])) < 0.6,
        "startup_ps": rng.integers(0, 5 * 10**12, 40),
    }
    for tier, gain in tier_gains(tier_of=TIERS, **instance).items():
        assert gain.percent == pytest.approx(fall(instance, tier, TINY), rel=1e-3, abs=1e-5)


def test_flows_of_no_bytes_pass_on_how_far_an_end_moves():
    # The last of a chain of empty flows lets a flow of another tier start.
    gains = tier_gains(
        [1e9, 1e9], ["near", "far"], start_ps=0, nbytes=[10**6, 0, 0, 0, 10**6],
        route_ptr=[0, 1, 2, 3, 4, 5], route_link=[0, 0, 0, 0, 1],
        dep_ptr=[0, 0, 1, 2, 3, 4], dep=[0, 1, 2, 3],
    )  # fmt: skip
    assert [gain.percent for gain in gains.values()] == [pytest.approx(0.5)] * 2


def test_it_agrees_with_a_run_or_says_that_the_bottleneck_changes():
    agreed = shifted = 0
    for seed in range(30):
        instance = large_instance(seed)
        for tier, gain in tier_gains(tier_of=TIERS, **instance).items():
            assert gain.rerun_percent == pytest.approx(fall(instance, tier, 0.01))
            off = abs(gain.percent - gain.rerun_percent)
            assert gain.shifts == (off > AGREED * abs(gain.rerun_percent) + 1e-9)
            shifted += gain.shifts
            agreed += not gain.shifts
    assert agreed > 10 * shifted > 0


def test_equal_links_on_one_route_gain_nothing_alone():
    columns = {"start_ps": 0, "nbytes": [10**9], "route_ptr": [0, 2], "route_link": [0, 1]}
    gains = tier_gains([1e9, 1e9], ["port", "spine"], **columns)
    assert [gain.percent for gain in gains.values()] == [0.0, 0.0]
    assert tier_gains([1e9, 1e9], ["port", "port"], **columns)["port"].percent == pytest.approx(1)


def test_a_faster_tier_can_cost_time():
    # What ends sooner here lets others start sooner, and these meet the flow that ends last.
    losses = [gain.percent for seed in range(30) for gain in
              tier_gains(tier_of=TIERS, **large_instance(seed)).values()]  # fmt: skip
    assert min(losses) < -1e-3


def test_start_ups_and_caps_do_not_get_faster():
    gains = tier_gains(
        [1e9], ["port"], start_ps=0, nbytes=[10**6, 10**6], route_ptr=[0, 1, 2], route_link=[0, 0],
        rate_cap=[np.inf, 2e8], startup_ps=[0, 10**9], dep_ptr=[0, 0, 1], dep=[0],
    )["port"]  # fmt: skip
    # 1 ms on the port, 1 ms of start-up, 5 ms under the cap: one of seven parts gets faster.
    assert gains.percent == pytest.approx(1 / 7)
    assert not gains.shifts


def test_equal_flows_in_the_dense_regime():
    instance = all_to_all("uni", "ecmp", 24)
    tiers = ["host"] * 48 + ["leaf"] * 48
    gains = tier_gains(tier_of=tiers, **instance)
    assert gains["host"].percent + gains["leaf"].percent == pytest.approx(1, rel=1e-6)
    assert not any(gain.shifts for gain in gains.values())


def test_rises_are_those_of_a_small_change():
    for seed in range(20):
        instance = large_instance(seed)
        capacity = np.asarray(instance.pop("capacity"), dtype=float)
        more = capacity[:, None] * (np.array(TIERS)[:, None] == ["near", "far"])
        sims = [FlowSim(capacity + step * more[:, k]) for k in range(2) for step in (0, 1e-6)]
        for sim in sims:
            sim.post(**instance)
            sim.run_until(10**9)
        flows = [sim.active() for sim in sims]
        rise = rate_rise(flows[0], capacity, more)
        for k in range(2):
            base, moved = flows[2 * k], flows[2 * k + 1]
            both = np.isin(base.flow, moved.flow), np.isin(moved.flow, base.flow)
            if both[0].all() and both[1].all():
                found = (moved.rate - base.rate) / 1e-6
                np.testing.assert_allclose(rise[:, k], found, rtol=1e-3, atol=1e-3 * capacity.max())


def test_nothing_to_gain():
    nothing = tier_gains([1e9], ["port"], start_ps=0, nbytes=[], route_ptr=[0], route_link=[])
    assert (nothing["port"].percent, nothing["port"].shifts) == (0.0, False)
    with pytest.raises(FlowError, match="names 1 tiers for 2 links"):
        tier_gains([1e9, 1e9], ["port"], start_ps=0, nbytes=[], route_ptr=[0], route_link=[])
