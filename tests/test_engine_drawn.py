"""Thousands of small instances as Hypothesis draws them: the engine, its twin, linear programs."""

import numpy as np
import pytest
from hypothesis import given, note, settings

from tests.drawn_instances import LINKS, Instance, crowds, instances, moments
from tests.lp import lp_rates
from tests.naive import compiled, naive_flows
from tests.test_engine import assert_equal_ends
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim


@pytest.fixture(scope="module")
def runner():
    return compiled()


def test_an_instance_shows_the_call_that_repeats_it():
    drawn = [(1, 1000, 0, 1.0, np.inf, 0, 1.0, 0), (3, 7, 5, 3.0, 1e8, 0, 0.5, 1)]
    for backwards, copies in ((False, 1), (True, 1), (True, 3)):
        instance = Instance([1e9] * LINKS, drawn, backwards, copies, growth=10)
        space = {"simulate_flows": simulate_flows, "inf": np.inf}
        found = eval(repr(instance), space)
        assert found.tolist() == simulate_flows(**instance.arguments).tolist()
        assert len(found) == 2 * copies
        assert (found[:copies].min() > found[copies:].max()) == backwards  # one waits for the other


@settings(max_examples=2500)
@given(instances())
def test_small_instances_equal_the_twin(runner, instance):
    note(instance)
    expected, part = naive_flows(**instance.arguments, runner=runner)
    assert_equal_ends(simulate_flows(**instance.arguments), expected, part)


@settings(max_examples=250)
@given(crowds())
def test_crowds_equal_the_twin(runner, instance):
    note(instance)
    expected, part = naive_flows(**instance.arguments, runner=runner)
    assert_equal_ends(simulate_flows(**instance.arguments), expected, part)


@settings(max_examples=150)
@given(moments())
def test_rates_of_a_moment_are_those_of_the_linear_programs(instance):
    note(instance)
    given = instance.arguments
    n, hops = len(given["nbytes"]), len(given["route_link"])
    sim = FlowSim(given["capacity"])
    sim.post(**{name: column for name, column in given.items() if name != "capacity"})
    sim.run_until(0)
    active = sim.active()
    rates = np.zeros(n)
    rates[active.flow] = active.rate
    expected = lp_rates(
        given["capacity"],
        given["route_ptr"],
        given["route_link"],
        given.get("route_share", np.ones(hops)),
        given.get("weight", np.ones(n)),
        given.get("rate_cap", np.full(n, np.inf)),
    )
    np.testing.assert_allclose(rates, expected, rtol=1e-5)
