"""A copy of a simulation goes on by itself: what is tried in it leaves the other as it was."""

import copy
import pickle

import numpy as np
import pytest

from tests.instances import all_to_all, poisson
from ubnet.errors import FlowError
from ubnet.flow_engine.state import PLACES
from ubnet.flowsim import FlowSim


def pickled(sim):
    """Return a simulation as a pickle, and what it holds beside it, which may be read alone."""
    beside = []
    pickle_ = pickle.dumps(sim, protocol=5, buffer_callback=beside.append)
    return pickle_, [bytes(buffer.raw()) for buffer in beside]


WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda sim: pickle.loads(pickle.dumps(sim)),
    "beside": lambda sim: pickle.loads(pickled(sim)[0], buffers=pickled(sim)[1]),
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


@pytest.mark.parametrize("regime", RUNS)
def test_what_may_be_read_alone_is_not_written_to(regime):
    sim = posted(RUNS[regime])
    sim.run_until(10**8)
    pickle_, beside = pickled(sim)
    before = [bytearray(buffer) for buffer in beside]
    ends = []
    for _ in range(2):
        other = pickle.loads(pickle_, buffers=beside)
        other.post([10**6] * 600, np.arange(601), [0] * 600)
        other.run()
        ends.append(other.finish_ps.tolist())
    assert len(beside) > 0
    assert beside == before
    assert ends[0] == ends[1]


@pytest.mark.parametrize("other", ["engine", "dense"])
def test_tables_of_another_version_are_refused(other):
    driver = posted(RUNS["dense"])._driver
    engine, dense = driver.__getstate__()
    if other == "engine":
        engine = engine._replace(flows=np.zeros(len(engine.flows), [("level", "f8")]))
    else:
        dense = dense._replace(rising=np.zeros(3, np.int64))
    with pytest.raises(FlowError, match="another version of ubnet"):
        driver.__setstate__((engine, dense))
