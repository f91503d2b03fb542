"""Alike flows stand once: as kinds of a schedule's flows, and in what the engine is given."""

from dataclasses import replace

import numpy as np
import pytest

from tests.instances import random_instance
from tests.test_portions import FABRIC, flows_of
from ubnet.bounds import lower_bounds
from ubnet.collectives import build
from ubnet.errors import FlowError
from ubnet.flow_ends import simulate_flows
from ubnet.flow_kinds import FlowKinds, find_kinds
from ubnet.flowsim import FlowSim
from ubnet.link_report import report_links
from ubnet.memory import capacity_with_memory
from ubnet.tier_gain import tier_gains

BY_KIND = ("start_ps", "nbytes", "weight", "rate_cap", "startup_ps")


def test_flows_that_are_alike_stand_once():
    flows = flows_of(build("all_reduce", 16, 1600, algorithm="ring"))
    assert len(flows.kinds.columns.nbytes) < 50 < len(flows)
    whole = flows.kinds.rows(slice(None))
    some = np.array([40, 2, 300])
    rows = flows.kinds.rows(some)
    assert rows.nbytes.tolist() == whole.nbytes[some].tolist()
    for k, flow in enumerate(some):
        here, there = (
            slice(c.route_ptr[i], c.route_ptr[i + 1]) for c, i in ((rows, k), (whole, flow))
        )
        assert rows.route_link[here].tolist() == whole.route_link[there].tolist()
        assert rows.route_share[here].tolist() == whole.route_share[there].tolist()


@pytest.mark.parametrize(
    ("n", "values"), [(0, 1), (1, 1), (50, 3), (6000, 9), (70_000, 5), (70_000, 200)]
)
def test_kinds_are_numbered_by_their_first_rows(n, values):
    columns = np.random.default_rng(n).integers(0, values, (4, n))
    kind, first = find_kinds(*columns)
    assert (columns[:, first][:, kind] == columns).all()
    if values < 200:
        assert len(np.unique(np.dot(np.array([1, 1000, 10**6, 10**9]), columns))) == len(first)
        assert (np.diff(first) > 0).all()
    else:  # hardly any two are alike: not looked for
        assert len(first) == n


def test_bytes_are_added_up_flow_by_flow():
    flows = flows_of(build("all_to_all", 8, 8000, algorithm="mesh"))
    c = flows.kinds.rows(slice(None))
    each = np.repeat(c.nbytes, np.diff(c.route_ptr)) * c.route_share
    resources = len(capacity_with_memory(FABRIC))
    expected = np.bincount(c.route_link, each, resources)
    assert flows.kinds.resource_bytes(resources).tolist() == expected.tolist()
    assert not FlowKinds.among(3, []).resource_bytes(4).any()


def test_parts_keep_their_weights():
    alike = flows_of(build("all_to_all", 3, 300, algorithm="mesh")).kinds
    rows = len(alike.columns.nbytes)
    weighted = replace(alike, weight=np.arange(2.0, rows + 2))
    n = len(alike)
    odd, even = np.arange(1, 2 * n, 2), np.arange(0, 2 * n, 2)
    joined = FlowKinds.among(2 * n + 1, [(odd, alike), (even, weighted)])
    weight = joined.post_arguments(slice(None))["weight"][joined.kind]
    assert weight[odd].tolist() == [1.0] * n
    assert weight[even].tolist() == (alike.kind + 2.0).tolist()
    assert weight[2 * n] == 1.0
    assert FlowKinds.among(n, [(np.arange(n), alike)]).weight is None


def by_kinds(rng):
    """Return the columns of an instance, the kind of each of some flows, and the same spelt out."""
    given = random_instance(rng)
    given.pop("dep", None), given.pop("dep_ptr", None)
    kind = rng.integers(0, len(given["nbytes"]), int(rng.integers(1, 60)))
    whole = {name: given[name][kind] if name in BY_KIND else given[name] for name in given}
    hops = [np.arange(*given["route_ptr"][k : k + 2]) for k in kind]
    whole["route_ptr"] = np.concatenate([[0], np.cumsum([len(row) for row in hops])])
    for name in ("route_link", "route_share"):
        if name in given:
            whole[name] = given[name][np.concatenate(hops)]
    return given, kind, whole


@pytest.mark.parametrize("seed", range(60))
def test_kinds_given_to_the_engine_equal_all_spelt_out(seed):
    rng = np.random.default_rng([71, seed])
    given, kind, whole = by_kinds(rng)
    waits = {}
    if seed % 2:  # each flow waits for some before it
        rows = [rng.integers(0, i, min(i, int(rng.integers(0, 3)))) for i in range(len(kind))]
        waits["dep_ptr"] = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        waits["dep"] = np.concatenate(rows).astype(np.int64)
        waits["gate"] = rng.random(len(waits["dep"])) < 0.5
    sim = FlowSim(given.pop("capacity"))
    assert sim.post(**given, **waits, kind=kind) == 0
    assert sim.size == len(kind)
    sim.run()
    assert sim.finish_ps.tolist() == simulate_flows(**whole, **waits).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_what_takes_flows_takes_them_by_kinds(seed):
    given, kind, whole = by_kinds(np.random.default_rng([4, seed]))
    assert simulate_flows(**given, kind=kind).tolist() == simulate_flows(**whole).tolist()
    assert lower_bounds(**given, kind=kind) == lower_bounds(**whole)
    by_kind, spelt_out = report_links(**given, kind=kind), report_links(**whole)
    assert by_kind.makespan_ps == spelt_out.makespan_ps
    assert by_kind.carried.tolist() == spelt_out.carried.tolist()
    tiers = ["near"] + ["far"] * (len(given["capacity"]) - 1)
    assert tier_gains(tier_of=tiers, **given, kind=kind) == tier_gains(tier_of=tiers, **whole)


def test_a_post_of_kinds_comes_behind_others():
    sim = FlowSim([1e9, 2e9])
    sim.post([1000], [0, 1], [0])
    assert (
        sim.post([1000, 4000], [0, 1, 2], [0, 1], kind=[1, 0, 1], watch=[True, False, False]) == 1
    )
    assert sim.advance().tolist() == [1]
    assert sim.now_ps == sim.run() == 4_000_000
    assert sim.finish_ps.tolist() == [2_000_000, 4_000_000, 2_000_000, 4_000_000]


def test_what_is_wrong_with_a_kind_is_said_of_its_first_flow():
    sim = FlowSim([1e9])
    with pytest.raises(FlowError, match="flow 2 has -1 bytes"):
        sim.post([5, -1], [0, 1, 2], [0, 0], kind=[0, 0, 1, 1])
    with pytest.raises(FlowError, match="kind 2 is not among the 2 rows of the columns"):
        sim.post([5, 6], [0, 1, 2], [0, 0], kind=[0, 2])
    with pytest.raises(FlowError, match=r"flow 1 waits for flow 7; .* flows 0 to 2"):
        sim.post([5], [0, 1], [0], kind=[0, 0, 0], dep_ptr=[0, 0, 1, 1], dep=[7])
    with pytest.raises(FlowError, match="kind is empty, but the columns have 2 rows"):
        sim.post([5, 6], [0, 1, 2], [0, 0], kind=[])
    with pytest.raises(FlowError, match="kind holds float64"):
        sim.post([5], [0, 1], [0], kind=[0.0])
    assert sim.size == 0


def test_what_is_wrong_with_a_row_that_no_flow_has_is_said_of_the_row():
    sim = FlowSim([1e9])
    sim.post([5], [0, 1], [0])
    with pytest.raises(FlowError, match=r"^row 1 of the columns has -1 bytes; sizes are"):
        sim.post([5, -1], [0, 1, 2], [0, 0], kind=[0, 0])
    with pytest.raises(FlowError, match=r"^row 0 of the columns crosses link 3; links here are 0"):
        sim.post([5, 5], [0, 1, 2], [3, 0], kind=[1, 1])
    assert sim.size == 1


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_kinds_are_in_one_row(dtype):
    sim = FlowSim([1e9])
    for shape in ((1, 2), (2, 1), ()):
        with pytest.raises(FlowError, match=r"kind has shape \(.*\); give numbers in a row"):
            sim.post([5, 6], [0, 1, 2], [0, 0], kind=np.zeros(shape, dtype))
    for name in ("dep", "route_link"):
        given = {"route_link": [0], "dep": [], "dep_ptr": [0, 0]} | {name: 0}
        with pytest.raises(FlowError, match=rf"{name} has shape \(\); give numbers in a row"):
            sim.post([5], [0, 1], **given)
    assert sim.size == 0
