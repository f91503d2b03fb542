"""Many requests through prefill, transfer and decode; the mapping of sources; decode beside KV."""

from time import perf_counter

import numpy as np
import pytest

from ubnet import transfer_time
from ubnet.errors import OptionError
from ubnet.kv import LLAMA_3_1_70B, find_model
from ubnet.kv.beside_decode import dispatch_beside_kv
from ubnet.kv.burst import burst
from ubnet.kv.deployment import Deployment
from ubnet.kv.requests import Requests, poisson_requests
from ubnet.kv.serving import serve


@pytest.fixture(scope="module")
def site(cloudmatrix):
    return Deployment(cloudmatrix)


def at_once(count, tokens=4096, answer=1):
    return Requests(*(np.full(count, value) for value in (0, tokens, answer)))


def drawn(count, per_second=60.0, seed=1, **lengths):
    return poisson_requests(count, per_second, np.random.default_rng(seed), **lengths)


def test_one_request_takes_prefill_and_the_time_of_its_transfer(site, cloudmatrix):
    report = serve(site, at_once(1))
    nbytes = site.model.prompt_bytes(4096)
    src, dst = (int(n) for n in report.sent[0, 1:3])
    assert report.sent[0, 3] == nbytes
    # A layer's pages are one message: 61 messages, of which the first is in the start-up.
    alone = transfer_time(src, dst, nbytes, transport="roce", fabric=cloudmatrix)
    assert report.transfer_us[0] == pytest.approx(alone / 1e6 + 60 * 0.08, abs=0.01)
    assert report.total_us[0] == pytest.approx(
        4096 / (3344 * 32) * 1e6 + report.transfer_us[0], abs=0.01
    )
    assert report.queue_us[0] == 0


def test_prefill_groups_serve_in_order_of_arrival_without_a_gap(site):
    requests = drawn(300, 90.0)
    report = serve(site, requests)
    for group in range(site.prefill_groups):
        free = 0
        for i in np.flatnonzero(report.group == group):
            start = max(free, requests.arrival_ps[i])
            free = start + site.prefill_ps(int(requests.prompt[i]))
            assert (report.prefill_start_ps[i], report.prefill_end_ps[i]) == (start, free)
    assert len(set(report.group.tolist())) == 3
    assert (report.queue_us > 0).any()
    assert (report.sent[:, 3] == 70_272 * requests.prompt[report.sent[:, 0]]).all()
    assert len(report.sent) == 300


def test_every_request_gets_its_bytes_from_the_rank_that_the_mapping_says(site):
    report = serve(site, drawn(400))
    for request, src, dst, _ in report.sent.tolist():
        place = report.place[request]
        assert src == site.prefill[report.group[request], place // 10]
        assert dst == site.decode[place, 0]


def test_a_full_decode_instance_makes_requests_wait_for_a_place(cloudmatrix):
    few = Deployment(
        cloudmatrix, prefill_groups=1, prefill_tp=2, decode_dp=2, slots=1, token_ps=10**12
    )
    report = serve(few, at_once(4, tokens=10, answer=3))
    assert sorted(report.place.tolist()) == [0, 0, 1, 1]
    for late, early in ((2, 0), (3, 1)):
        assert report.placed_ps[late] == report.arrived_ps[early] + 3 * 10**12
        assert report.queue_us[late] > 2e6
    assert (report.transfer_us < 100).all()


def test_streaming_by_layers_hides_all_but_the_last_layer(site):
    requests = drawn(100, 5.0)
    whole, layers = (serve(site, requests, streaming=s) for s in ("prompt", "layers"))
    assert (layers.sent == whole.sent).all() or layers.sent[:, 3].sum() == whole.sent[:, 3].sum()
    assert layers.transfer_us.mean() < whole.transfer_us.mean() / 20
    one = serve(site, at_once(1), streaming="layers")
    # A layer takes 0.19 ms to send and 0.63 ms to compute: only the last one is waited for.
    rate = 25e9 * 4096 / 4178
    assert one.transfer_us[0] == pytest.approx(70_272 / 61 * 4096 / rate * 1e6 + 5.4, abs=1)


def test_layers_wait_for_a_place_and_for_each_other(cloudmatrix):
    few = Deployment(cloudmatrix, prefill_groups=1, prefill_tp=1, decode_dp=1, slots=1)
    report = serve(few, at_once(3, tokens=200, answer=1), streaming="layers")
    assert (np.diff(report.arrived_ps) > 50 * 10**9).all()
    assert (report.placed_ps[1:] == report.arrived_ps[:-1] + few.token_ps).all()


@pytest.mark.parametrize(("prefill_tp", "decode_tp"), [(8, 8), (8, 2), (4, 8), (16, 4)])
def test_gqa_models_send_every_head_once_to_each_rank_that_holds_it(
    cloudmatrix, prefill_tp, decode_tp
):
    grouped = Deployment(
        cloudmatrix, model=LLAMA_3_1_70B, prefill_groups=2, prefill_tp=prefill_tp, decode_dp=4,
        decode_tp=decode_tp,
    )  # fmt: skip
    report = serve(grouped, drawn(20, mean_prompt=100))
    per_request = np.bincount(report.sent[:, 0], report.sent[:, 3])
    assert (per_request == report.requests.prompt * 327_680).all()
    assert (np.bincount(report.sent[:, 0]) >= decode_tp).all()


def test_a_generic_model_is_named_by_its_shape(cloudmatrix):
    model = find_model("generic:10x4x64x1")
    assert (model.layers, model.heads, model.bytes_per_token) == (10, 4, 10 * 4 * 128)
    grouped = Deployment(
        cloudmatrix, model, prefill_groups=1, prefill_tp=4, decode_dp=2, decode_tp=2
    )
    report = serve(grouped, drawn(10))
    assert report.sent[:, 3].sum() == report.requests.prompt.sum() * 5120
    with pytest.raises(OptionError, match="no KV model 'generic:10x4'"):
        find_model("generic:10x4")


def test_the_mapping_loads_every_source_alike_and_without_it_one_carries_all(site, cloudmatrix):
    spread, first = site, Deployment(cloudmatrix, mapping="first")
    sources = [np.array([s.routes(dp).prefill[0] for dp in range(320)]) for s in (spread, first)]
    assert (np.bincount(sources[0], minlength=32) == 10).all()
    assert (sources[1] == 0).all()
    times = [burst(s).time_ps for s in (spread, first)]
    prompt_ps = 287_834_112 / (25e9 * 4096 / 4178) * 1e12
    assert times[1] == pytest.approx(320 * prompt_ps, rel=0.001)
    # Ten prompts of a source; two of the hashed paths share a leaf's uplink for a while.
    assert 10 * prompt_ps < times[0] < 1.15 * 10 * prompt_ps
    assert times[1] / times[0] > 25


def test_the_hot_spot_report_names_the_busiest_source(site, cloudmatrix):
    requests = drawn(500)
    hot = serve(Deployment(cloudmatrix, mapping="first"), requests).source_loads()
    even = serve(site, requests).source_loads()
    assert [load.transfers for load in hot[3:]] == [0] * 93
    assert {load.name for load in hot[:3]} == {f"node{n:02}.npu0.die0" for n in (0, 2, 4)}
    assert sum(load.nbytes for load in hot) == sum(load.nbytes for load in even)
    assert hot[0].nbytes > 8 * even[0].nbytes
    assert hot[0].busy == pytest.approx(
        hot[0].nbytes / (25e9 * 4096 / 4178) / (serve_end(site, requests, "first")), rel=1e-6
    )


def serve_end(site, requests, mapping):
    report = serve(Deployment(site.fabric, mapping=mapping), requests)
    return report.arrived_ps.max() / 1e12


@pytest.mark.parametrize("transport", ["sdma", "vpc"])
def test_requests_travel_over_the_other_planes(site, transport):
    roce, other = (serve(site, at_once(3), transport=t).transfer_us for t in ("roce", transport))
    rate = {"sdma": 135e9, "vpc": 5e9}[transport]
    assert other[0] == pytest.approx(287_834_112 / rate * 1e6, rel=0.02)
    assert (other < roce).all() == (transport == "sdma")


def test_ten_runs_one_answer(site):
    requests = drawn(50)
    runs = {serve(site, requests).arrived_ps.tobytes() for _ in range(3)}
    assert len(runs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("streaming", ["prompt", "layers"])
def test_10000_requests_of_mixed_length_take_under_30_s(site, streaming):
    requests = drawn(10_000)
    begin = perf_counter()
    report = serve(site, requests, streaming=streaming)
    assert perf_counter() - begin < 30
    assert (report.arrived_ps > report.prefill_end_ps).all()
    assert (site.prefill.size, site.decode.size) == (96, 320)
    assert np.unique(requests.prompt).size > 1000
    assert report.queue_us.max() > 10_000


def test_kv_on_the_plane_of_the_dispatch_slows_it_and_on_its_own_does_not(site):
    alone, rdma, ub, fair = (
        dispatch_beside_kv(site, transport=transport, sharing=sharing).time_ps
        for transport, sharing in (
            (None, "fifo"),
            ("roce", "fifo"),
            ("sdma", "fifo"),
            ("sdma", "fair"),
        )
    )
    assert rdma == alone
    assert 1.05 * alone < ub < 1.3 * alone
    # One KV flow among 319 of the dispatch: only a port that served flows in turn could do that.
    assert fair == pytest.approx(alone, rel=0.01)
    single = dispatch_beside_kv(site, transport="sdma", sharing="fifo", prompts=1).time_ps
    assert single > 1.05 * alone


def test_misuse_is_named(site, cloudmatrix):
    with pytest.raises(OptionError, match="prefill_tp=32"):
        Deployment(cloudmatrix, decode_dp=321)
    with pytest.raises(OptionError, match="need 832 dies"):
        Deployment(cloudmatrix, prefill_groups=16)
    with pytest.raises(OptionError, match="allowed: spread, first"):
        Deployment(cloudmatrix, mapping="none")
    with pytest.raises(OptionError, match="allowed: prompt, layers"):
        serve(site, at_once(1), streaming="tokens")
    with pytest.raises(OptionError, match="allowed: fair, fifo"):
        dispatch_beside_kv(site, transport=None, sharing="lifo")
    with pytest.raises(OptionError, match="at most one from each of 96"):
        dispatch_beside_kv(site, transport="sdma", prompts=97)
    with pytest.raises(OptionError, match="ascending"):
        Requests(np.array([5, 4]), np.ones(2, int), np.ones(2, int))
    with pytest.raises(OptionError, match="a rate above 0"):
        poisson_requests(3, 0.0, np.random.default_rng(0))
