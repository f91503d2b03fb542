"""FlowSim by steps: equal to one call; what it reports; what it refuses."""

import numpy as np
import pytest

from tests.instances import all_to_all, random_instance
from ubnet.errors import FlowError
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim

COLUMNS = ("weight", "rate_cap", "startup_ps")
SHORT = np.arange(12, 24)  # links of flows that end soon


def rows(instance, first, last):
    """Return the arguments of `post` for flows first to last - 1 of an instance."""
    ptr = instance["route_ptr"]
    hops = slice(ptr[first], ptr[last])
    given = {name: instance[name][first:last] for name in COLUMNS if name in instance}
    given["start_ps"] = instance["start_ps"][first:last]
    given["nbytes"] = instance["nbytes"][first:last]
    given["route_ptr"] = ptr[first : last + 1] - ptr[first]
    given["route_link"] = instance["route_link"][hops]
    if "route_share" in instance:
        given["route_share"] = instance["route_share"][hops]
    if "dep" in instance:
        edges = instance["dep_ptr"]
        given["dep_ptr"] = edges[first : last + 1] - edges[first]
        given["dep"] = instance["dep"][edges[first] : edges[last]]
    return given


def without_dependencies(seed, flows, links):
    instance = random_instance(np.random.default_rng(seed), flows, links)
    instance.pop("dep", None)
    instance.pop("dep_ptr", None)
    order = np.argsort(instance["start_ps"], kind="stable")
    instance["start_ps"] = instance["start_ps"][order]
    return instance


@pytest.mark.parametrize("seed", range(40))
def test_posting_as_time_goes_on_equals_one_call(seed):
    instance = without_dependencies([1, seed], 40, 9)
    start = instance["start_ps"]
    sim = FlowSim(instance["capacity"])
    posted = 0
    while True:
        event = sim.next_event()
        coming = int(start[posted]) if posted < 40 else None
        if event is None and coming is None:
            break
        if coming is not None and (event is None or coming <= event):
            sim.run_until(coming)
            assert sim.now_ps == coming
            sim.post(**rows(instance, posted, posted + 1))
            posted += 1
        else:
            sim.run_until(event)
    assert sim.finish_ps.tolist() == simulate_flows(**instance).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_any_stops_on_the_way_change_nothing(seed):
    instance = random_instance(np.random.default_rng([2, seed]), 40, 9)
    whole = simulate_flows(**instance)
    sim = FlowSim(instance.pop("capacity"))
    sim.post(**instance, watch=True)
    for stop in range(0, int(whole.max()), max(1, int(whole.max()) // 17)):
        sim.next_event()
        sim.run_until(stop)
        done = sim.finish_ps
        assert (done[whole <= stop] == whole[whole <= stop]).all()
        assert (done[whole > stop] == -1).all()
    assert sim.run() == whole.max()
    assert sim.finish_ps.tolist() == whole.tolist()
    assert sim.next_event() is None


@pytest.mark.parametrize("seed", range(20))
def test_advance_reports_every_watched_end_once_in_order(seed):
    rng = np.random.default_rng([3, seed])
    instance = random_instance(rng, 40, 9)
    whole = simulate_flows(**instance)
    watch = rng.random(40) < 0.5
    sim = FlowSim(instance.pop("capacity"))
    sim.post(**instance, watch=watch)
    found = []
    while len(ids := sim.advance()):
        assert (whole[ids] == sim.now_ps).all()
        assert (np.diff(ids) > 0).all()
        found += [(sim.now_ps, int(i)) for i in ids]
    expected = sorted((int(whole[i]), int(i)) for i in np.flatnonzero(watch))
    assert found == expected
    assert sim.now_ps == whole.max()
    assert sim.finish_ps.tolist() == whole.tolist()


def test_stops_in_the_dense_regime_change_nothing_and_show_what_has_moved():
    instance = all_to_all("moe", "ecmp", 24)
    whole = simulate_flows(**instance)
    use = np.bincount(instance["route_link"], np.repeat(instance["nbytes"], hops_of(instance)))
    capacity = instance.pop("capacity")
    sim = FlowSim(capacity)
    sim.post(**instance)
    carried = np.zeros(len(capacity))
    for stop in range(0, int(whole.max()), int(whole.max()) // 23):
        sim.run_until(stop)
        before, carried = carried, sim.link_bytes()
        assert (carried >= before - 1e-3).all()
        assert (sim.link_rate() <= capacity * (1 + 1e-9)).all()
    sim.run()
    assert sim.finish_ps.tolist() == whole.tolist()
    np.testing.assert_allclose(sim.link_bytes()[: len(use)], use)


def over_two(rng, links, flows):
    """Return the routes of flows over two of some links each."""
    pairs = np.sort(rng.permuted(np.tile(links, (flows, 1)), axis=1)[:, :2], axis=1)
    return 2 * np.arange(flows + 1), pairs.ravel()


@pytest.mark.parametrize("seed", range(8))
def test_looking_on_in_the_dense_regime_changes_nothing_later(seed):
    # Some links stand idle when the regime ends; what comes there later finds nothing left over.
    rng = np.random.default_rng([23, seed])
    capacity, crowd, few, late = rng.uniform(1e9, 2e9, 24), 400, 200, 120
    parts = [over_two(rng, links, n) for links, n in ((np.arange(12), crowd), (SHORT, few))]
    size = np.concatenate([rng.integers(10**6, 2 * 10**6, crowd), rng.integers(10**4, 10**5, few)])
    link = np.concatenate([part[1] for part in parts])
    ends = np.sort(simulate_flows(capacity, 0, size, 2 * np.arange(crowd + few + 1), link))
    instance = {
        "start_ps": np.concatenate(
            [np.zeros(crowd + few, np.int64), rng.integers(ends[-60], ends[-1], late)]
        ),
        "nbytes": np.concatenate([size, rng.integers(10**5, 10**6, late)]),
        "route_ptr": 2 * np.arange(crowd + few + late + 1),
        "route_link": np.concatenate([link, over_two(rng, SHORT, late)[1]]),
    }
    sim = FlowSim(capacity)
    sim.post(**instance, watch=True)
    while sim.counters["unfinished"]:
        sim.advance()
        sim.active()
    assert sim.counters["sweeps"] < 0.9 * sim.counters["reallocations"]
    assert sim.finish_ps.tolist() == simulate_flows(capacity, **instance).tolist()


def hops_of(instance):
    return np.diff(instance["route_ptr"])


def test_bytes_carried_are_the_integral_of_the_rates():
    instance = all_to_all("moe", "ecmp", 16)
    sim = FlowSim(instance.pop("capacity"))
    sim.post(**instance)
    total = 0.0
    while (event := sim.next_event()) is not None:
        total += sim.link_rate() * (event - sim.now_ps) / 1e12
        sim.run_until(event)
        np.testing.assert_allclose(sim.link_bytes(), total, rtol=1e-6, atol=1e-2)


def test_advance_stops_at_its_limit_and_takes_posts_at_the_instant_it_found():
    sim = FlowSim([1e9])
    sim.post([1000], [0, 1], [0], watch=True)
    assert sim.advance(999_999).tolist() == []
    assert sim.now_ps == 999_999
    assert sim.advance(1_000_000).tolist() == [0]
    assert sim.post([1000], [0, 1], [0], watch=True) == 1
    assert sim.advance().tolist() == [1]
    assert sim.now_ps == 2_000_000
    assert sim.advance().tolist() == []
    assert sim.now_ps == 2_000_000
    assert sim.advance(5_000_000).tolist() == []
    assert sim.now_ps == 5_000_000


def test_a_chain_posted_in_rounds_equals_one_call():
    # Each flow waits for the one before it; the last of a round is watched.
    n, sizes = 60, np.arange(1, 61) * 111
    ptr = np.arange(n + 1)
    deps = np.concatenate([[0], np.arange(n)])
    whole = simulate_flows([3e9], 0, sizes, ptr, [0] * n, dep_ptr=deps, dep=np.arange(n - 1))
    sim = FlowSim([3e9])
    for first in range(0, n, 20):
        last_id = [] if first == 0 else [first - 1]
        edges = np.concatenate([[0], np.cumsum([len(last_id)] + [1] * 19)])
        dep = last_id + list(range(first, first + 19))
        watch = np.arange(20) == 19
        posted = sim.post(
            sizes[first : first + 20], np.arange(21), [0] * 20, dep_ptr=edges, dep=dep, watch=watch
        )
        assert posted == first
        assert sim.advance().tolist() == [first + 19]
    assert sim.finish_ps.tolist() == whole.tolist()


def test_dependencies_may_point_forward_and_to_ended_flows():
    sim = FlowSim([1e9])
    sim.post([1000], [0, 1], [0])
    sim.run()
    sim.post([1000, 1000], [0, 1, 2], [0, 0], dep_ptr=[0, 2, 2], dep=[2, 0])
    sim.run()
    assert sim.finish_ps.tolist() == [1_000_000, 3_000_000, 2_000_000]


def test_a_join_of_hundreds():
    n = 700
    ptr = np.arange(n + 2)
    dep_ptr = np.concatenate([np.zeros(n + 1, np.int64), [n]])
    ends = simulate_flows(
        np.full(n + 1, 1e9), 0, np.arange(1, n + 2), ptr, ptr[:-1], dep_ptr=dep_ptr, dep=ptr[:n]
    )
    assert ends[-1] == n * 1000 + (n + 1) * 1000


def test_link_loads():
    sim = FlowSim([1e9, 4e9, 1e9])
    sim.post([1000, 3000], [0, 2, 3], [0, 1, 1], [1.0, 0.5, 2.0])
    assert sim.link_rate().tolist() == [0, 0, 0]  # nothing has started yet
    sim.run_until(500_000)
    np.testing.assert_allclose(sim.link_rate(), [1e9, 4e9, 0])
    np.testing.assert_allclose(sim.link_bytes(), [500, 2000, 0])
    sim.run()
    assert sim.link_bytes().tolist() == [1000, 6500, 0]
    assert sim.link_rate().tolist() == [0, 0, 0]


def test_counters_and_repr():
    sim = FlowSim([1e9])
    assert sim.post([], [0], []) == 0
    sim.post([1000, 1000], [0, 1, 2], [0, 0])
    assert "2 flows, 2 unfinished" in repr(sim)
    sim.run()
    counters = sim.counters
    assert counters["flows"] == 2
    assert counters["unfinished"] == 0
    assert counters["events"] == 4
    assert counters["reallocations"] <= 2


GOOD = {"nbytes": [1, 1], "route_ptr": [0, 1, 2], "route_link": [0, 1]}
MISUSE = {
    "negative size": ({"nbytes": [1, -1]}, "flow 1 has -1 bytes"),
    "float size": ({"nbytes": [1.0, 2.0]}, "nbytes holds float64"),
    "size beyond int64": (
        {"nbytes": np.array([1, 2**63], np.uint64)},
        "nbytes holds 9223372036854775808",
    ),
    "watch by name": ({"watch": ["a", "b"]}, "watch holds text; it takes truth values"),
    "watch ragged": ({"watch": [[1], [1, 0]]}, "watch has rows of different lengths"),
    "gate as a part": (
        {"dep_ptr": [0, 0, 1], "dep": [0], "gate": [0.5]},
        "gate holds float64 values; it takes truth values",
    ),
    "size of another length": ({"nbytes": [1, 2, 3]}, r"nbytes has shape \(3,\)"),
    "unknown link": ({"route_link": [0, 2]}, "flow 1 crosses link 2; links here are 0 to 1"),
    "negative link": ({"route_link": [0, -1]}, "flow 1 crosses link -1"),
    "a link twice": ({"route_ptr": [0, 0, 2], "route_link": [1, 1]}, "crosses link 1 twice"),
    "share 0": ({"route_share": [1, 0]}, "flow 1 has share 0.0"),
    "share nan": ({"route_share": [np.nan, 1]}, "flow 0 has share nan"),
    "weight 0": ({"weight": [1, 0]}, "flow 1 has weight 0.0"),
    "weight nan": ({"weight": np.nan}, "flow 0 has weight nan"),
    "cap 0": ({"rate_cap": [1, 0]}, "flow 1 has rate cap 0.0"),
    "cap nan": ({"rate_cap": [np.nan, 1]}, "flow 0 has rate cap nan"),
    "start-up": ({"startup_ps": [-1, 1]}, "flow 0 has a start-up of -1 ps"),
    "past": ({"start_ps": [10, 9]}, "flow 1 starts at 9 ps, before now"),
    "ragged": ({"route_ptr": [0, 2, 1]}, "route_ptr runs from 0 to 1"),
    "falling": ({"route_ptr": [0, 3, 2]}, "route_ptr runs from 0 to 2"),
    "pointers that are no integers": ({"route_ptr": [0.0, 1.0, 2.0]}, "route_ptr is not a row"),
    "dep_ptr of another length": ({"dep_ptr": [0, 1], "dep": [0]}, "dep_ptr has 2 entries for 2"),
    "itself": ({"dep_ptr": [0, 0, 1], "dep": [1]}, "flow 1 waits for flow 1"),
    "nobody": ({"dep_ptr": [0, 0, 1], "dep": [2]}, "flow 1 waits for flow 2"),
    "circle": ({"dep_ptr": [0, 1, 2], "dep": [1, 0]}, "flow [01] waits for itself"),
    "dependencies that are no integers": ({"dep_ptr": [0, 0, 1], "dep": [0.5]}, "dep holds float"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_is_refused_in_a_sentence_and_changes_nothing(case):
    change, message = MISUSE[case]
    sim = FlowSim([1e9, 1e9])
    sim.run_until(10)
    with pytest.raises(FlowError, match=message):
        sim.post(**(GOOD | change))
    assert sim.size == 0
    assert sim.next_event() is None
    assert sim.post(**GOOD) == 0
    sim.run()
    assert sim.finish_ps.tolist() == [1010, 1010]


def test_a_circle_behind_a_tail_is_named_by_a_flow_on_it():
    # 0 waits for 1, 1 for 2, 2 for 3, 3 for 2: only 2 and 3 are on the circle.
    with pytest.raises(FlowError, match=r"flow [23] waits for itself"):
        simulate_flows([1e9], 0, [1] * 4, [0] * 5, [], dep_ptr=[0, 1, 2, 3, 4], dep=[1, 2, 3, 2])


def test_time_does_not_go_back():
    sim = FlowSim([1e9])
    sim.run_until(10)
    with pytest.raises(FlowError, match="9 ps is before now"):
        sim.run_until(9)
    with pytest.raises(FlowError, match="9 ps is before now"):
        sim.advance(9)


@pytest.mark.parametrize("capacity", [[0.0], [-1.0], [np.nan], [np.inf], [[1.0]]])
def test_capacities_must_be_rates(capacity):
    with pytest.raises(FlowError, match="capacity must be a row of finite"):
        FlowSim(capacity)


def test_many_posts_grow_the_arrays():
    sim = FlowSim([1e9])
    for k in range(300):
        assert sim.post([1000], [0, 1], [0]) == k
    assert sim.run() == 300 * 1_000_000
    assert (sim.finish_ps == 300_000_000).all()


@pytest.mark.parametrize(
    ("flow", "sentence"),
    [
        ({"nbytes": [2**62]}, "flow 0 would end after"),
        ({"nbytes": [10, 2**62]}, "flow 1 would end after"),
        ({"nbytes": [10_000], "rate_cap": 1e-6}, "flow 0 would end after"),
        ({"nbytes": [1], "start_ps": 2**63 - 1}, "takes starts up to"),
        ({"nbytes": [0], "start_ps": 2**62 + 5, "startup_ps": 2**62}, "takes starts up to"),
        ({"nbytes": [1], "start_ps": 5, "startup_ps": 2**63 - 1}, "the longest is"),
        ({"nbytes": [1000], "weight": 1e-320}, "weights lie between"),
        ({"nbytes": [1000], "weight": 1e200}, "weights lie between"),
    ],
)
def test_what_the_clock_cannot_hold_is_refused(flow, sentence):
    """Never a wrong time: not 0, not -1, not a negative one."""
    route = {"route_ptr": range(len(flow["nbytes"]) + 1), "route_link": [0] * len(flow["nbytes"])}
    with pytest.raises(FlowError, match=sentence):
        simulate_flows([1e6], flow.pop("start_ps", 0), **{**route, **flow})


def test_a_stepped_engine_says_so_too():
    for ask in (FlowSim.run, FlowSim.next_event, FlowSim.advance):
        engine = FlowSim([1e6])
        engine.post([2**62], [0, 1], [0], watch=True)
        assert engine.next_event() == 0  # it starts
        engine.run_until(0)
        with pytest.raises(FlowError, match="would end after"):
            ask(engine)
    engine = FlowSim([1e6])
    engine.post([2**62], [0, 1], [0])
    engine.run_until(10**12)
    assert engine.finish_ps.tolist() == [-1]
    for time in (2**62, -1):
        with pytest.raises(FlowError, match=r"no time here|before now"):
            engine.run_until(time)
