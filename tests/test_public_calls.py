"""What a stranger meets: signatures that can be read, and one sentence for what cannot be."""

import inspect
import re

import numpy as np
import pytest

import ubnet
from ubnet.bounds import lower_bounds
from ubnet.errors import FlowError

GIVEN = {
    "capacity": [1e9, 2e9],
    "start_ps": [0, 0],
    "nbytes": [1000, 500],
    "route_ptr": [0, 1, 2],
    "route_link": [0, 1],
    "route_share": [1.0, 1.0],
    "weight": [1.0, 1.0],
    "rate_cap": [1e9, 1e9],
    "dep_ptr": [0, 0, 1],
    "dep": [0],
    "startup_ps": [0, 0],
    "gate": [False],
}


def stepped(capacity, **columns):
    """Return the ends of flows that run by steps."""
    sim = ubnet.FlowSim(capacity)
    sim.post(**columns)
    sim.run()
    return sim.finish_ps


def gained(capacity, **columns):
    return ubnet.tier_gains(capacity, ["port", "spine"], **columns)


CALLS = [ubnet.simulate_flows, stepped, ubnet.report_links, gained, lower_bounds]


def signatures():
    """Every public name of ubnet that is called, and the methods of those that are classes."""
    for name in sorted({*ubnet.__all__} - {"UbnetError"}):
        thing = getattr(ubnet, name)
        yield name, thing
        if inspect.isclass(thing):
            for method, function in inspect.getmembers(thing, inspect.isfunction):
                if not method.startswith("_"):
                    yield f"{name}.{method}", function


def test_signatures_can_be_read():
    for name, function in signatures():
        signature = inspect.signature(function)
        for parameter in signature.parameters.values():
            assert len(str(parameter)) < 110, (name, str(parameter))
        assert len(str(signature.return_annotation)) < 100, name


@pytest.mark.parametrize("call", CALLS)
def test_what_is_given_here_is_right(call):
    call(**GIVEN)


@pytest.mark.parametrize("column", GIVEN)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", ["x", [[1], [2, 3]], [None, None], [1j, 2j], [["a"], ["b"]]])
def test_what_is_no_number_is_refused_by_name_in_a_sentence(call, column, value):
    with pytest.raises(FlowError) as refused:
        call(**GIVEN | {column: value})
    text = str(refused.value)
    assert text.startswith(f"{column} ")
    assert "\n" not in text
    assert len(text) < 150


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"capacity": [1e9, 0.0]}, "capacity must be a row of finite bytes/s > 0"),
        ({"start_ps": -1}, "flow 0 starts at -1 ps, before now"),
        ({"nbytes": [1000, -1]}, "flow 1 has -1 bytes"),
        ({"route_link": [0, 2]}, "flow 1 crosses link 2; links here are 0 to 1"),
        ({"route_ptr": [0, 2, 2], "route_link": [1, 1]}, "flow 0 crosses link 1 twice"),
        ({"route_share": [0.0, 1.0]}, "flow 0 has share 0.0 of link 0"),
        ({"weight": [1.0, np.nan]}, "flow 1 has weight nan"),
        ({"rate_cap": 0}, "flow 0 has rate cap 0.0"),
        ({"startup_ps": [0, -1]}, "flow 1 has a start-up of -1 ps"),
        ({"dep": [1 << 40]}, "flow 1 waits for flow 1099511627776; it can wait for flows 0 to 1"),
        ({"dep_ptr": [0, 1, 2], "dep": [1, 0], "gate": True}, "waits for itself through its"),
        ({"nbytes": 1 << 63}, "nbytes holds 9223372036854775808; integers here are at most"),
        ({"dep": np.array([2**64 - 1], np.uint64)}, "dep holds 18446744073709551615; integers"),
        ({"dep_ptr": None}, "dep has 1 entries but dep_ptr is not given"),
    ],
)
def test_flows_that_no_run_can_take_are_refused(call, wrong, said):
    with pytest.raises(FlowError, match=re.escape(said)):
        call(**GIVEN | wrong)


@pytest.mark.parametrize("tolerance", ["x", None, -1, 1, np.nan, [1e-3]])
def test_a_tolerance_is_a_fraction(tolerance):
    with pytest.raises(FlowError, match="is not a fraction from 0"):
        ubnet.simulate_flows(**GIVEN, tolerance=tolerance)


@pytest.mark.parametrize("call", [ubnet.report_links, ubnet.tier_gains])
def test_an_unknown_column_or_a_missing_one_is_told_by_the_function_that_was_called(call):
    tiers = {} if call is ubnet.report_links else {"tier_of": ["port", "spine"]}
    name = call.__name__
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'size'"):
        call(**GIVEN, **tiers, size=1)
    lacking = {column: value for column, value in GIVEN.items() if column != "nbytes"}
    with pytest.raises(TypeError, match=rf"^{name}\(\) missing a required argument: 'nbytes'"):
        call(**lacking, **tiers)


def test_the_limits_that_are_told_are_those_that_hold():
    text = ubnet.simulate_flows.__doc__
    assert "2**60" in text
    assert "between 1e-100 and 1e100" in text
    for column, least, beyond in (
        ("start_ps", 1 << 60, (1 << 60) + 1),
        ("startup_ps", 0, (1 << 60) + 1),
        ("weight", 1.1e-100, 0.9e-100),
        ("weight", 0.9e100, 1.1e100),
    ):
        flow = {"capacity": [1e9], "nbytes": [0], "route_ptr": [0, 1], "route_link": [0]}
        flow |= {"start_ps": 0}
        assert len(ubnet.simulate_flows(**flow | {column: least})) == 1
        with pytest.raises(FlowError):
            ubnet.simulate_flows(**flow | {column: beyond})
