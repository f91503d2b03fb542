"""The mapping of prefill ranks to decode ranks, and the sizes that it moves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ubnet.errors import OptionError
from ubnet.kv.mapping import connect
from ubnet.kv.model import DEEPSEEK_R1, LLAMA_3_1_70B, MODELS, KVModel, find_model

SIZES = st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12, 16, 32])


def published_rank(prefill_tp, decode_tp, decode_dp, dp_rank, tp_rank):
    """Return the source by the formula as it is printed, one decode rank at a time."""
    ratio = prefill_tp // decode_tp
    group_size = decode_dp // ratio
    return dp_rank // group_size * decode_tp + tp_rank


def held_heads(rank, tp, heads):
    """Return the heads that a rank of a tensor-parallel group holds, one by one."""
    return {h for h in range(heads) for k in range(max(tp // heads, 1))
            if (h * (tp // heads) + k if tp > heads else h // (heads // tp)) == rank}  # fmt: skip


def test_tp32_to_dp320_is_the_published_mapping():
    links = connect(prefill_tp=32, decode_tp=1, decode_dp=320)
    assert (links.ratio, links.group_size) == (32, 10)
    assert links.loads().tolist() == [10] * 32
    assert links.prefill.tolist() == [rank // 10 for rank in range(320)]


@pytest.mark.parametrize(("ptp", "dtp", "dp"), [(4, 2, 4), (8, 2, 12), (16, 4, 8), (3, 3, 1)])
def test_latent_cache_follows_the_printed_formula(ptp, dtp, dp):
    links = connect(ptp, dtp, dp)
    expected = [published_rank(ptp, dtp, dp, d, t) for d in range(dp) for t in range(dtp)]
    assert links.prefill.tolist() == expected
    assert len(set(links.loads().tolist())) == 1


@given(ptp=SIZES, dtp=SIZES, dp=SIZES, heads=st.sampled_from([1, 2, 3, 4, 8]))
def test_every_rank_gets_each_of_its_heads_once_from_a_holder(ptp, dtp, dp, heads):
    try:
        links = connect(ptp, dtp, dp, heads)
    except OptionError:
        return
    received = [[] for _ in range(dtp * dp)]
    for p, d, first, count in zip(
        links.prefill, links.decode, links.first_head, links.heads, strict=True
    ):
        part = range(first, first + count)
        assert set(part) <= held_heads(p, ptp, heads)
        received[d] += part
    for d, part in enumerate(received):
        assert sorted(part) == sorted(held_heads(d % dtp, dtp, heads))
    assert len(set(links.loads().tolist())) == 1


@given(ptp=SIZES, dtp=SIZES, dp=st.integers(1, 40))
def test_a_latent_mapping_is_refused_only_where_it_does_not_divide(ptp, dtp, dp):
    ratio = ptp / dtp
    fits = (ratio.is_integer() and (dp / ratio).is_integer()) or (1 / ratio).is_integer()
    if fits:
        assert len(connect(ptp, dtp, dp)) == dtp * dp
    else:
        with pytest.raises(OptionError, match=r"ratio .* and group size .* nearest that fit"):
            connect(ptp, dtp, dp)


def test_more_decode_ranks_than_sources_share_them_evenly():
    links = connect(prefill_tp=2, decode_tp=8, decode_dp=3)
    assert links.prefill.tolist() == [0, 0, 0, 0, 1, 1, 1, 1] * 3
    assert (links.ratio, links.group_size) == (0.25, 3)


def test_shared_out_heads_go_by_ranges():
    links = connect(prefill_tp=4, decode_tp=2, decode_dp=1, heads=8)
    rows = np.stack([links.prefill, links.decode, links.first_head, links.heads], axis=1)
    assert rows.tolist() == [[0, 0, 0, 2], [1, 0, 2, 2], [2, 1, 4, 2], [3, 1, 6, 2]]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((32, 1, 100), "ratio 32 and group size 3.125, .*prefill_tp=32 with decode_dp=96 or decod"),
        ((12, 8, 6), "ratio 1.5 and group size 4, .*prefill_tp=8 with decode_dp=6; prefill_tp=16"),
        ((3, 8, 1), "ratio 0.375 .*prefill_tp=2 with decode_dp=1; prefill_tp=4 with decode_dp=1"),
        ((32, 1, 7), "group size 0.21875, .*prefill_tp=32 with decode_dp=32"),
        ((3, 1, 1, 8), "prefill_tp=3 does not share out 8 KV heads.*prefill_tp=2 or prefill_tp=4"),
        ((8, 12, 1, 8), "decode_tp=12 does not .* decode_tp=8 or decode_tp=16"),
        ((16, 1, 3, 8), "ratio 2 and group size 1.5, .*prefill_tp=16 with decode_dp=2 or decode"),
        ((0, 1, 1), "prefill_tp must be at least 1, not 0"),
    ],
)
def test_what_does_not_divide_is_refused_naming_what_does(sizes, said):
    with pytest.raises(OptionError, match=said):
        connect(*sizes)


def test_the_named_neighbours_really_fit():
    for sizes in [(32, 1, 96), (32, 1, 128), (8, 8, 6), (16, 8, 6), (2, 8, 1), (4, 8, 1)]:
        assert len(set(connect(*sizes).loads().tolist())) == 1


def test_sizes_per_token_are_the_published_ones():
    assert DEEPSEEK_R1.bytes_per_token == 70_272
    assert LLAMA_3_1_70B.bytes_per_token == 327_680
    assert 16 * DEEPSEEK_R1.bytes_per_layer == 18_432
    assert 16 * LLAMA_3_1_70B.bytes_per_layer == 65_536
    assert DEEPSEEK_R1.prompt_bytes(4096) == 287_834_112
    assert find_model("deepseek-r1") is MODELS["deepseek-r1"]


def test_a_model_that_cannot_be_is_refused():
    with pytest.raises(OptionError, match=r"did you mean deepseek-r1\?"):
        find_model("deepseek_r1")
    with pytest.raises(OptionError, match="layers=0"):
        KVModel("none", layers=0, heads=1, parts=(1,), itemsize=2)
    with pytest.raises(OptionError, match="0 tokens or more, not -1"):
        DEEPSEEK_R1.prompt_bytes(-1)
