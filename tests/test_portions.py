"""A schedule that enters the engine in portions takes the same picoseconds as all at once."""

import numpy as np
import pytest

from ubnet.collectives import OPERATIONS, build
from ubnet.fabrics import load_fabric
from ubnet.flowsim import FlowSim
from ubnet.memory import capacity_with_memory
from ubnet.portions import Portions
from ubnet.schedule import REDUCE
from ubnet.schedule_builder import ScheduleBuilder
from ubnet.schedule_flows import schedule_flows

FABRIC = load_fabric("cloudmatrix384")


def flows_of(schedule, itemsize=4, op="write"):
    places = np.arange(schedule.ranks) * 3
    return schedule_flows(schedule, FABRIC, places, itemsize, FABRIC.transport("aiv"), op)


def at_once(flows):
    engine = FlowSim(capacity_with_memory(FABRIC))
    engine.post(**flows.post_arguments())
    engine.run()
    return engine.finish_ps


def in_portions(flows, least):
    portions = Portions.of(flows, least)
    return portions, portions.run(flows, FlowSim(capacity_with_memory(FABRIC)))


CASES = [
    (op, algorithm)
    for op in ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all", "scan")
    for algorithm in OPERATIONS[op].algorithms
]


@pytest.mark.parametrize(("op", "algorithm"), CASES)
@pytest.mark.parametrize("least", [1, 7, 40])
def test_portions_of_any_size_equal_all_at_once(op, algorithm, least):
    for ranks, count in ((8, 1000), (16, 3)):
        flows = flows_of(build(op, ranks, count * ranks, algorithm=algorithm))
        whole = at_once(flows)
        portions, ends = in_portions(flows, least)
        assert ends.tolist() == whole[: len(ends)].tolist()
        assert np.sort(portions.order).tolist() == list(range(flows.operations + flows.passes))


def test_a_ring_enters_in_as_many_portions_as_were_asked_for():
    flows = flows_of(build("all_reduce", 16, 4096, algorithm="double_ring"))
    portions = Portions.of(flows, 100)
    assert len(portions) == pytest.approx(flows.operations / 100, abs=3)
    engine = FlowSim(capacity_with_memory(FABRIC))
    portions.run(flows, engine)
    assert engine.size == flows.operations + flows.passes
    assert len(engine._driver.engine.flows) < engine.size  # rows were used again


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_equal_all_at_once(seed):
    flows = flows_of(random_schedule(np.random.default_rng([61, seed])))
    whole = at_once(flows)
    for least in (1, 5, 30):
        portions, ends = in_portions(flows, least)
        assert ends.tolist() == whole[: len(ends)].tolist(), least
        begun = np.repeat(np.arange(len(portions)), np.diff(portions.begin))
        portion = np.empty(len(begun), np.int64)
        portion[portions.order] = begun
        for flow in range(len(portion)):
            waits = slice(flows.dep_ptr[flow], flows.dep_ptr[flow + 1])
            assert (portion[flows.dep[waits]] <= portion[flow]).all()
            # What begins at once must be there at once.
            assert portion[flow] == 0 or not flows.gate[waits].all()


def random_schedule(rng):
    """Return a schedule whose operations wait for some of the steps before theirs, or for none."""
    ranks, n = int(rng.integers(2, 7)), int(rng.integers(1, 150))
    in_order = bool(rng.integers(2))
    builder = ScheduleBuilder("random", ranks, [64, 64, 64], in_order=in_order)
    idle = rng.random() * 0.2
    for i in range(n):
        src, dst = rng.integers(0, ranks, 2)
        before = i // 3 * 3
        waits = before and rng.random() > idle
        after = np.unique(rng.integers(max(0, before - 40), before, 2)) if waits else None
        kind = REDUCE if src != dst and rng.random() < 0.3 else 0
        step = i // 3 if kind or in_order else int(rng.integers(0, n))
        builder.add(step, src, dst, 0, 0, int(rng.integers(0, 60)), kind=kind, after=after)
    return builder.build()


def test_nothing_to_do_has_no_ends():
    flows = flows_of(ScheduleBuilder("nothing", 3, [0, 0, 0]).build())
    portions, ends = in_portions(flows, 1)
    assert (len(portions), len(ends)) == (1, 0)


def test_what_is_watched_no_more_is_not_reported():
    sim = FlowSim([1e9])
    sim.post([1000, 3000], [0, 1, 2], [0, 0], watch=True)
    assert sim.advance().tolist() == [0]
    sim.unwatch()
    sim.post([1000], [0, 1], [0], watch=True)
    assert sim.advance().tolist() == [2]
    assert sim.advance().tolist() == []
    assert (sim.finish_ps >= 0).all()
