"""Model loading: section 6's table from simulated transfers, and the ways beside it."""

import pytest

from ubnet.errors import OptionError
from ubnet.pool.limited import limited
from ubnet.pool.loading_table import FITTED, PUBLISHED, every_pair, loading_figures
from ubnet.pool.model_loading import CACHES, LoadingSetup, ModelSite


@pytest.mark.slow
@pytest.mark.parametrize("cache", CACHES)
def test_every_cell_of_the_table_is_met_within_3_percent(cloudmatrix, cache):
    ours, published = loading_figures(cloudmatrix, cache), PUBLISHED[cache]
    for name in published.__dataclass_fields__:
        expected = getattr(published, name)
        if expected is None:
            assert getattr(ours, name) is None
        else:
            assert getattr(ours, name) == pytest.approx(expected, rel=0.03), name


def test_two_figures_are_fitted_and_no_more():
    assert len(FITTED) == 2


def test_one_copy_serves_any_number_of_instances(cloudmatrix):
    cold = {}
    for instances in (1, 2, 8):
        site = ModelSite(cloudmatrix, "pool", LoadingSetup(instances=instances))
        cold[instances] = site.load(list(range(instances)), 0)
        assert site.dram_bytes == site.setup.model_bytes
    assert cold[8] == pytest.approx(cold[1], rel=0.01)


def test_without_a_pool_every_instance_takes_its_own_from_the_bucket(cloudmatrix):
    times = [
        ModelSite(cloudmatrix, "local", LoadingSetup(instances=n)).load(list(range(n)), 0)
        for n in (1, 4)
    ]
    assert times[1] == pytest.approx(4 * times[0], rel=0.02)


def test_ssd_is_as_fast_as_the_cards_of_those_who_load(cloudmatrix):
    alone = ModelSite(cloudmatrix, "none", LoadingSetup(instances=1, source="ssd")).load([0], 0)
    assert alone == pytest.approx(671e9 / (2 * 50e9) * 1e12, rel=0.01)
    # Through the pool all 48 cards help, and the draw of the instance is what is left.
    pooled = ModelSite(cloudmatrix, "pool", LoadingSetup(instances=1, source="ssd", shards=192))
    assert pooled.load([0], 0) < 0.9 * alone


def test_a_local_cache_keeps_the_last_model_alone(cloudmatrix):
    site = ModelSite(cloudmatrix, "local", LoadingSetup(instances=2, model_bytes=10**9))
    site.load([0, 1], 0)
    site.load([0], 1)
    assert [site.holds(i, m) for i in (0, 1) for m in (0, 1)] == [False, True, True, False]
    assert site.dram_bytes == 2 * 10**9


def test_a_circle_of_pairs_holds_each_once():
    for n in (1, 2, 3, 8):
        circle = every_pair(n)
        pairs = {(circle[i - 1], circle[i]) for i in range(len(circle))}
        assert len(circle) == len(pairs) == n * n


def test_a_limited_transport_passes_one_more_resource(cloudmatrix):
    sdma = cloudmatrix.transport("sdma")
    bare, more = (
        way.flows(cloudmatrix, "read", [0, 40], [20, 60], [10, 10])
        for way in (sdma, limited(sdma, 99_999))
    )
    for i in range(2):
        hops = [c.route_link[c.route_ptr[i] : c.route_ptr[i + 1]].tolist() for c in (bare, more)]
        assert hops[1] == [*hops[0], 99_999]


def test_misuse_is_named(cloudmatrix):
    with pytest.raises(OptionError, match="allowed: none, local, pool"):
        ModelSite(cloudmatrix, "nvme")
    with pytest.raises(OptionError, match="has 768 dies"):
        ModelSite(cloudmatrix, "pool", LoadingSetup(instances=25))
    with pytest.raises(OptionError, match="allowed: bucket, ssd"):
        LoadingSetup(source="tape")
    with pytest.raises(OptionError, match="give 1 or more of each"):
        LoadingSetup(shards=0)


@pytest.mark.slow
def test_the_paper_command_shows_the_table_and_what_is_predicted():
    from ubnet.fabrics import load_fabric
    from ubnet.report.paper import section

    table = list(section("loading")(load_fabric))
    assert len(table) == 14
    assert sum(figure.kind == "fitted" for figure in table) == 2
    assert all(figure.error is None or abs(figure.error) <= 0.03 for figure in table)
    predicted = {figure.what: figure.ours for figure in section("pool")(load_fabric)}
    assert 60 < predicted["hit to HBM, 128 tokens over UB"] < 120
    assert (
        predicted["320 prompts from one source"]
        > 25 * predicted["320 prompts, TP32 to DP320, mapped"]
    )
