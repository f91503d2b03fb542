"""The link report: bytes, utilisation, and what held the flows back."""

import numpy as np
import pytest

from tests.instances import all_to_all, random_instance
from ubnet.flow_ends import simulate_flows
from ubnet.link_report import report_links


@pytest.mark.parametrize("seed", range(25))
def test_sums_are_those_of_the_flows(seed):
    instance = random_instance(np.random.default_rng([51, seed]), 30, 8)
    report = report_links(**instance)
    hops = np.diff(instance["route_ptr"])
    share = instance.get("route_share", np.ones(hops.sum()))
    use = np.bincount(
        instance["route_link"], np.repeat(instance["nbytes"], hops) * share, minlength=8
    )
    assert report.makespan_ps == simulate_flows(**instance).max()
    np.testing.assert_allclose(report.carried, use, rtol=1e-9, atol=1e-3)
    assert (report.peak <= 1 + 1e-9).all()
    assert (report.mean <= report.peak + 1e-9).all()
    assert report.held.sum() <= 1 + 1e-9
    assert (report.peak[report.held > 1e-9] >= 1 - 1e-9).all()
    assert report.efficiency <= 1 + 1e-6


def test_equal_flows_and_caps_by_hand():
    # Three equal flows and one with a cap of 100 MB/s: 900 MB/s are held back by the link.
    report = report_links(
        [1e9], start_ps=0, nbytes=[300, 300, 300, 100], route_ptr=[0, 1, 2, 3, 4],
        route_link=[0] * 4, rate_cap=[np.inf] * 3 + [1e8],
    )  # fmt: skip
    assert report.makespan_ps == 1_000_000
    assert report.held.tolist() == pytest.approx([0.9])
    assert report.mean.tolist() == pytest.approx([1.0])


def test_tiers_in_the_dense_regime():
    instance = all_to_all("moe", "ecmp", 24)
    report = report_links(**instance)
    tier = ["host"] * 48 + ["leaf"] * 48
    table = report.tiers(tier)
    assert list(table) == ["host", "leaf"]
    assert table["host"]["held"] + table["leaf"]["held"] == pytest.approx(1)
    assert table["host"]["bytes"] == pytest.approx(2 * instance["nbytes"].sum())
    assert table["host"]["peak"] == pytest.approx(1)


def test_nothing_to_report():
    report = report_links([1e9], start_ps=0, nbytes=[], route_ptr=[0], route_link=[])
    assert report.efficiency == 1.0
    assert report.mean.tolist() == report.held.tolist() == [0.0]
