"""Rows of flows that move bytes are used again, whatever the lengths of their routes."""

import copy
import sys

import numpy as np
import pytest

from tests.instances import all_to_all
from tests.naive import compiled, naive_flows
from tests.test_engine import assert_equal_ends
from ubnet.flow_ends import simulate_flows
from ubnet.flow_engine import driver, tables
from ubnet.flow_engine.free_rows import ROOM_A_HOP
from ubnet.flow_engine.state import PLACES
from ubnet.flowsim import FlowSim
from ubnet.jit import first_rows

LINKS, WIDTH, LENGTHS = 24, 5, np.array([0, 1, 2, 3, 5, 9, 17])


def chains(rng, n):
    """Return flows in chains of which at most WIDTH move at a time, with routes of all lengths."""
    hops = rng.choice(LENGTHS, n)
    return {
        "capacity": rng.uniform(1e9, 4e9, LINKS),
        "start_ps": 0,
        "nbytes": rng.integers(0, 100_000, n),
        "route_ptr": np.concatenate([[0], np.cumsum(hops)]),
        "route_link": np.concatenate([rng.permutation(LINKS)[:k] for k in hops]),
        "rate_cap": np.where(rng.random(n) < 0.3, 5e8, np.inf),
        "startup_ps": rng.integers(0, 1000, n),
        "dep_ptr": np.concatenate([np.zeros(WIDTH, np.int64), np.arange(n - WIDTH + 1)]),
        "dep": np.arange(n - WIDTH),
    }


def posted(flows, pieces):
    """Post flows in some pieces, one after the other; return the simulation before it runs."""
    sim = FlowSim(flows["capacity"])
    for piece in np.array_split(np.arange(len(flows["nbytes"])), pieces):
        first, end = piece[0], piece[-1] + 1
        hops = slice(*flows["route_ptr"][[first, end]])
        deps = slice(*flows["dep_ptr"][[first, end]])
        sim.post(
            flows["nbytes"][piece],
            flows["route_ptr"][first : end + 1] - flows["route_ptr"][first],
            flows["route_link"][hops],
            rate_cap=flows["rate_cap"][piece],
            startup_ps=flows["startup_ps"][piece],
            dep_ptr=flows["dep_ptr"][first : end + 1] - flows["dep_ptr"][first],
            dep=flows["dep"][deps],
        )
        if pieces > 1:
            sim.next_event()
    return sim


@pytest.mark.parametrize("pieces", [1, 7, 300])
def test_no_more_rows_are_used_than_flows_move_at_a_time(pieces):
    flows = chains(np.random.default_rng(pieces), 3000)
    sim = posted(flows, pieces)
    sim.run()
    expected, part = naive_flows(**flows, runner=compiled())
    assert_equal_ends(sim.finish_ps, expected, part)
    clock = sim._driver.engine.clock[0]
    sizes = len(np.unique([int(k - 1).bit_length() if k else 0 for k in LENGTHS]))
    assert WIDTH <= clock.flow_rows <= WIDTH * sizes
    assert clock.hop_rows <= ROOM_A_HOP * WIDTH * sum(LENGTHS + 1)
    assert (clock.to_come, clock.hops_to_come) == (0, 0)


def test_rows_that_are_free_stay_so_when_tables_grow():
    # One flow at a time, of the longest route, and posts so large that every table grows.
    sim, ends = FlowSim(np.full(40, 1e9)), []
    for n in (1, 400, 1600, 6400):
        first = sim.size
        sim.post(
            1000,
            33 * np.arange(n + 1),
            np.tile(np.arange(33), n),
            dep_ptr=np.concatenate([[0], np.arange(n)]),
            dep=first + np.arange(n - 1),
        )
        sim.run()
        assert sim._driver.engine.clock[0].flow_rows == 1
        ends.extend(sim.finish_ps[first:])
    assert ends == (1_000_000 * np.arange(1, len(ends) + 1)).tolist()


def test_many_that_come_and_go_on_one_link_keep_its_list_of_own_flows():
    # Sweeps keep the flows that a link holds back in a list; rows of ended ones are taken anew by
    # flows on other links while those lists are in use.
    rng = np.random.default_rng(3)
    for _ in range(20):
        n, links = 400, 6
        hops = rng.integers(1, 4, n)
        flows = {
            "capacity": rng.uniform(1e9, 2e9, links),
            "start_ps": np.sort(rng.integers(0, 20_000_000_000, n)),
            "nbytes": rng.integers(1, 40_000, n) * rng.choice([1, 1, 1, 30], n),
            "route_ptr": np.concatenate([[0], np.cumsum(hops)]),
            "route_link": np.concatenate([rng.permutation(links)[:k] for k in hops]),
            "weight": rng.choice([1.0, 2.0], n),
        }
        expected, part = naive_flows(**flows, runner=compiled())
        assert_equal_ends(simulate_flows(**flows), expected, part)


def test_kinds_that_no_flow_has_are_given_free():
    # Flows that stay, each posted with the columns of many.
    sim, rows = FlowSim(np.full(3, 1e9)), 500
    for k in range(150):
        sim.post(np.full(rows, 10**9) + k, np.arange(rows + 1), np.arange(rows) % 3, kind=[k])
    engine = sim._driver.engine
    assert max(len(engine.kinds), len(engine.routes)) <= 4 * rows
    expected = simulate_flows(
        np.full(3, 1e9), 0, 10**9 + np.arange(150), np.arange(151), np.arange(150) % 3
    )
    sim.run()
    assert sim.finish_ps.tolist() == expected.tolist()


@pytest.mark.parametrize("failing", range(13))
def test_a_post_that_finds_no_memory_changes_nothing(monkeypatch, failing):
    # In the dense regime, where posts lengthen one table more.
    flows, made, calls = all_to_all("moe", "ecmp", 24), tables.longer, []

    def longer(*given):
        calls.append(given)
        if len(calls) == failing + 1:
            raise MemoryError
        return made(*given)

    whole = simulate_flows(**flows)
    sim = FlowSim(flows.pop("capacity"))
    sim.post(**flows)
    sim.run_until(int(whole.max()) // 4)
    engine = sim._driver.engine
    assert engine.clock[0].dense == 1
    monkeypatch.setattr(tables, "longer", longer)
    links, rows = np.zeros(3000, np.int64), 3000
    with pytest.raises(MemoryError):
        sim.post(1000, np.arange(rows + 1), links, dep_ptr=np.arange(rows + 1), dep=links)
    assert sim._driver.engine is engine
    assert engine.clock[0].level_room == len(engine.levels)
    sim.run()
    assert sim.finish_ps.tolist() == whole.tolist()


def interrupted(call, nth):
    """Call a function; say whether an interrupt before the nth line of the driver's ended it."""
    tracer, lines = sys.gettrace(), []

    def trace(frame, event, _):
        if frame.f_code.co_filename != driver.__file__:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == nth + 1:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracer)
    return False


@pytest.mark.parametrize("regime", ["sparse", "dense"])
def test_an_interrupt_leaves_no_kernel_with_tables_that_are_gone(regime):
    flows, t_ps = chains(np.random.default_rng(1), 200), 10**6
    if regime == "dense":
        flows, t_ps = all_to_all("moe", "ecmp", 24), 10**8
    begun = FlowSim(flows.pop("capacity"))
    begun.post(**flows)
    begun.run_until(t_ps)
    assert begun._driver.clock[PLACES["dense"]] == (regime == "dense")
    more, held = (np.full(3000, 10), np.arange(3001), np.zeros(3000, np.int64)), []
    whole = copy.deepcopy(begun)
    whole.post(*more)
    whole.run()
    for nth in range(1000):
        sim = copy.deepcopy(begun)
        held.append((sim._driver.engine, sim._driver._dense))  # where a stale address would lead
        stopped = interrupted(lambda: sim.post(*more), nth)  # noqa: B023
        if sim.size == begun.size:
            sim.post(*more)
        sim.run()
        assert sim.finish_ps.tolist() == whole.finish_ps.tolist()
        if not stopped:
            break
    assert 20 < nth < 1000


def test_a_row_before_the_first_is_an_error_where_nothing_is_compiled():
    table = np.zeros(3, [("column", "i8")]).view(np.recarray)
    assert first_rows._look_up(table, 2).column == 0
    with pytest.raises(IndexError, match="row -1 of a table"):
        first_rows._look_up(table, -1)
