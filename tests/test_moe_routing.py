"""Routings of mixture-of-experts tokens: who goes where, how often, and what is refused."""

import numpy as np
import pytest

from ubnet.collectives.routing import ROUTINGS, Routing, check_routing
from ubnet.errors import OptionError


def total(routing: Routing, ranks: int, tokens: int) -> np.ndarray:
    return np.sum([routing.counts(rank, tokens) for rank in range(ranks)], axis=0)


def test_balanced_is_the_published_formula():
    topk_idx, _ = Routing("balanced", experts=256, topk=8).of(rank=5, tokens=128)
    token, key = np.arange(128)[:, None], np.arange(8)
    assert np.array_equal(topk_idx, (token + 32 * key + 5) % 256)


@pytest.mark.parametrize("experts", [256, 288, 320])
def test_balanced_sends_as_many_copies_to_every_expert(experts):
    tokens = experts // 8 * 4
    for rank in (0, 1, 255):
        assert set(Routing("balanced", experts).counts(rank, tokens)) == {4 * 8 // 8}


@pytest.mark.parametrize("name", ROUTINGS)
@pytest.mark.parametrize("skew", [None, 1, 3, 8])
@pytest.mark.parametrize("tokens", [0, 1, 7, 128])
def test_every_token_takes_different_experts_that_exist(name, skew, tokens):
    routing = Routing(name, experts=64, topk=8, skew=skew, seed=3)
    topk_idx, weights = routing.of(rank=2, tokens=tokens)
    assert topk_idx.shape == weights.shape == (tokens, 8)
    assert topk_idx.dtype == np.int64
    assert weights.dtype == np.float32
    assert ((topk_idx >= 0) & (topk_idx < 64)).all()
    assert all(len(set(row)) == 8 for row in topk_idx.tolist())
    assert ((weights > 0) & (weights <= 0.25)).all()
    assert np.array_equal(weights * 64, np.rint(weights * 64))


@pytest.mark.parametrize("name", ["balanced", "uniform"])
@pytest.mark.parametrize("skew", [2, 8, 30, 32])
def test_the_hottest_expert_gets_exactly_its_multiple_of_the_mean(name, skew):
    copies = total(Routing(name, skew=skew), ranks=32, tokens=128)
    assert copies.sum() == 32 * 128 * 8
    assert copies[0] == copies.max() == skew * copies.mean()


def test_skew_that_is_no_whole_number_of_tokens_a_rank_adds_up_over_the_ranks():
    copies = total(Routing("balanced", experts=32, topk=4, skew=2.5), ranks=8, tokens=7)
    assert copies[0] == int(2.5 * 8 * 7 * 4 / 32)


@pytest.mark.parametrize("skew", [2, 8, 30])
def test_zipf_finds_the_exponent_for_its_skew(skew):
    copies = total(Routing("zipf", skew=skew, seed=7), ranks=64, tokens=128)
    assert copies.max() / copies.mean() == pytest.approx(skew, rel=0.1)


def test_zipf_without_skew_falls_as_one_over_the_place():
    copies = np.sort(total(Routing("zipf", experts=256, topk=1), ranks=64, tokens=512))[::-1]
    for place in (2, 4, 8):
        assert copies[0] / copies[place - 1] == pytest.approx(place, rel=0.15)


def test_uniform_is_uniform():
    copies = total(Routing("uniform", experts=64, topk=8), ranks=64, tokens=128)
    mean = copies.mean()
    assert abs(copies - mean).max() < 5 * np.sqrt(mean)


@pytest.mark.parametrize("name", ROUTINGS)
def test_the_seed_decides_and_ranks_do_not_depend_on_each_other(name):
    one, again = (Routing(name, seed=5).of(rank=9, tokens=16) for _ in range(2))
    other = Routing(name, seed=6).of(rank=9, tokens=16)
    assert np.array_equal(one[0], again[0])
    assert np.array_equal(one[1], again[1])
    assert not np.array_equal(one[1], other[1])
    assert np.array_equal(one[0], other[0]) == (name == "balanced")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "blanced"}, "did you mean balanced"),
        ({"topk": 0}, "give 1 to 256"),
        ({"topk": 257}, "give 1 to 256"),
        ({"skew": 0.5}, "1 to 32 times"),
        ({"skew": 33}, "1 to 32 times"),
    ],
)
def test_what_is_not_allowed_is_answered_with_what_is(given, says):
    with pytest.raises(OptionError, match=says):
        Routing(**given)


def test_experts_that_do_not_exist_or_stand_twice_are_refused():
    good = np.array([[0, 1], [2, -1], [-1, -1]])
    check_routing(good, experts=3)
    with pytest.raises(OptionError, match="token 1 of rank 4 names expert 2; allowed: 0 to 1"):
        check_routing(good, experts=2, rank=4)
    with pytest.raises(OptionError, match="names expert -2"):
        check_routing(np.array([[-2]]), experts=2)
    with pytest.raises(OptionError, match="token 0 of rank 0 names expert 1 twice"):
        check_routing(np.array([[1, 0, 1]]), experts=2)
