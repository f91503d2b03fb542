"""A copy of a simulation goes on by itself: what is tried in it leaves the other as it was."""

import copy
import pickle

import numpy as np
import pytest

from tests.instances import all_to_all, poisson
from ubnet.flow_engine.state import PLACES
from ubnet.flowsim import FlowSim

WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda sim: pickle.loads(pickle.dumps(sim)),
}
RUNS = {"dense": all_to_all("moe", "ecmp", 24), "sparse": poisson(300, 0.5)}


def posted(flows):
    sim = FlowSim(flows["capacity"])
    sim.post(**{name: column for name, column in flows.items() if name != "capacity"})
    return sim


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("regime", RUNS)
def test_a_copy_goes_on_as_the_other_does(regime, way):
    sim, whole = posted(RUNS[regime]), posted(RUNS[regime])
    whole.run()
    sim.run_until(int(np.median(whole.finish_ps)))
    assert sim._clock[PLACES["dense"]] == (regime == "dense")
    other = WAYS[way](sim)
    before, counters = sim.finish_ps.tolist(), sim.counters
    assert (other.now_ps, other.finish_ps.tolist(), other.counters) == (
        sim.now_ps,
        before,
        counters,
    )
    other.post([10**6] * 600, np.arange(601), [0] * 600)  # tables that must grow
    other.run()
    assert (sim.finish_ps.tolist(), sim.counters) == (before, counters)
    sim.run()
    assert sim.finish_ps.tolist() == whole.finish_ps.tolist()
    assert other.finish_ps.max() > sim.finish_ps.max()


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_outlives_the_other(way):
    sim = posted(RUNS["sparse"])
    other = WAYS[way](sim)
    sim.run()
    wanted = sim.finish_ps.tolist()
    del sim
    other.run()
    assert other.finish_ps.tolist() == wanted
