"""What holds each flow back: a full link on which nobody has a higher level, or its own cap."""

import numpy as np
import pytest

from ubnet.flowsim import FlowSim


def assert_each_is_held_back(sim, capacity, cap):
    active, load = sim.active(), sim.link_rate()
    assert (load <= capacity * (1 + 1e-9)).all()
    level = active.rate / active.weight
    flow = np.repeat(np.arange(len(active.flow)), np.diff(active.hop_ptr))
    highest = np.zeros(len(capacity))
    np.maximum.at(highest, active.link, level[flow])
    by = active.stopped_by
    own = by < 0
    np.testing.assert_allclose(active.rate[own], cap[active.flow[own]], rtol=1e-9)
    assert (load[by] >= capacity[by] * (1 - 1e-9))[~own].all()
    assert (level >= highest[by] * (1 - 1e-9))[~own].all()
    crossed = np.bincount(flow, active.link == by[flow], len(by)).astype(bool)
    assert (crossed | own).all()
    rate = np.bincount(np.where(own, len(capacity), by), active.rate, len(capacity) + 1)
    np.testing.assert_allclose(sim.held_rate(), rate)


@pytest.mark.parametrize("block", range(10))
def test_at_each_event_links_that_hold_flows_back_are_full(block):
    # Few capacities and starts: links that are full at one level, of which a flow keeps one.
    for seed in range(30):
        rng = np.random.default_rng([23, block, seed])
        links, n = int(rng.integers(3, 60)), int(rng.integers(5, 120))
        capacity = rng.choice([1e9, 2e9, 3e9], links)
        hops = rng.integers(1, min(4, links) + 1, n)
        route = np.concatenate([rng.permutation(links)[:k] for k in hops])
        cap = np.full(n, np.inf)
        if seed % 3 == 0:
            cap[rng.random(n) < 0.3] = rng.choice([5e8, 1e9, 2e9])
        sim = FlowSim(capacity)
        sim.post(
            rng.integers(1, 20, n) * 10**6,
            np.append(0, np.cumsum(hops)),
            route,
            start_ps=rng.integers(0, 20, n) * int(rng.choice([5 * 10**7, 10**9, 5 * 10**9])),
            rate_cap=cap,
            weight=rng.choice([0.5, 1.0, 2.0], n) if seed % 4 == 0 else None,
        )
        for _ in range(20):
            if (at_ps := sim.next_event()) is None:
                break
            sim.run_until(at_ps)
            assert_each_is_held_back(sim, capacity, cap)


@pytest.mark.parametrize("route", [[0, 1], [1, 0]])
def test_a_flow_that_is_left_alone_is_held_back_by_what_is_full_now(route):
    # Two share link 0 and get 1 GB/s each, all that link 1 carries for the first of them; when the
    # second has ended, link 0 is half empty. The others see to it that a part is allocated anew.
    others = 20
    sim = FlowSim([2e9, 1e9, *[1e9] * others])
    ptr = np.append(0, np.arange(2, 4 + others))
    sim.post([10**7, 10**6, *[10**9] * others], ptr, [*route, 0, *range(2, 2 + others)])
    sim.run_until(2 * 10**9)
    assert sim.counters["sweeps"] > 0
    assert sim.active().stopped_by[0] == 1
    assert sim.held_rate()[:2].tolist() == [0.0, 1e9]
