"""The three layouts and three quantisations against plain numpy: rows, counts, sums, refusals."""

import ml_dtypes
import numpy as np
import pytest

from ubnet.collectives.combine import combine
from ubnet.collectives.dispatch import Dispatch
from ubnet.collectives.fp8 import dequantise_fp8, fp8_values, quantise_fp8, scale_groups
from ubnet.collectives.gate import LAYOUTS, PADDED, RANK, Gate
from ubnet.collectives.made_tokens import fp8_table, make_tokens, wrong_fp8
from ubnet.collectives.padded import packed_rows, padded_rows
from ubnet.collectives.quantise import (
    QUANTS,
    bytes_per_copy,
    dequantise,
    from_bf16,
    to_bf16,
    values,
)
from ubnet.collectives.rank_packed import dispatch_layout, local_experts, rank_index
from ubnet.collectives.real_payload import wrong_combine, wrong_dispatch
from ubnet.collectives.routing import Routing
from ubnet.errors import CapacityExceeded, OptionError

HIDDEN = 136


class Case:
    """Tokens and experts of some ranks, as plain arrays."""

    def __init__(self, ranks, local, topk, tokens, seed=0, none=0.0, only=None, hidden=HIDDEN):
        rng = np.random.default_rng(seed)
        self.ranks, self.local, self.experts = ranks, local, ranks * local
        counts = np.resize(tokens, ranks)
        self.x = [to_bf16(rng.standard_normal((n, hidden)).astype(np.float32)) for n in counts]
        pool = np.arange(self.experts) if only is None else np.array(only)
        self.idx = []
        for n in counts:
            idx = np.full((n, topk), -1, dtype=np.int64)
            for t in range(n):
                chosen = rng.permutation(pool)[:topk]
                idx[t, : len(chosen)] = chosen
            idx[rng.random(idx.shape) < none] = -1
            self.idx.append(idx)
        self.weights = [rng.random(idx.shape).astype(np.float32) for idx in self.idx]

    def targets(self, layout):
        """What a token goes to, its number over all ranks, by the obvious loops."""
        if layout != RANK:
            return self.idx, self.experts
        found = []
        for idx in self.idx:
            ranks = np.full(idx.shape, -1, dtype=np.int64)
            for t, row in enumerate(idx):
                for k, expert in enumerate(row):
                    if expert >= 0 and expert // self.local not in ranks[t]:
                        ranks[t, k] = expert // self.local
            found.append(ranks)
        return found, self.ranks

    def rows(self, layout):
        """For each rank the (target, source, token) of its rows, sorted."""
        idx, targets = self.targets(layout)
        each = [
            (target, source, token)
            for source, table in enumerate(idx)
            for token, row in enumerate(table.tolist())
            for target in row
            if target >= 0
        ]
        local = targets // self.ranks
        by_rank = [[] for _ in range(self.ranks)]
        for entry in sorted(each):
            by_rank[entry[0] // local].append(entry)
        return by_rank


CASES = {
    "1 rank": Case(1, 4, 2, [5]),
    "2 ranks, 0 tokens on one": Case(2, 3, 3, [0, 7], seed=1),
    "3 ranks, empty experts": Case(3, 4, 2, [4, 0, 1], seed=2, only=[1, 7]),
    "8 ranks, all to one expert": Case(8, 2, 1, [5], seed=3, only=[11]),
    "8 ranks, inactive keys": Case(8, 4, 6, [7, 3], seed=4, none=0.4),
    "8 ranks, all inactive": Case(8, 1, 2, [3], seed=5, none=1.0),
    "16 ranks": Case(16, 2, 8, [9], seed=6),
    "320 ranks": Case(320, 1, 8, [3, 0, 2], seed=7, hidden=8),
}


@pytest.fixture(
    params=[
        pytest.param(c, id=name, marks=[pytest.mark.slow] if c.ranks > 100 else [])
        for name, c in CASES.items()
    ]
)
def case(request):
    return request.param


def plain_quantised(x, quant):
    """What arrives of bfloat16 bits, and its scales, by plain numpy."""
    exact = values(x).astype(np.float32)
    if quant == "none":
        return x, None
    if quant == "int8":
        scale = np.float32(127) / np.abs(exact).max(axis=1, initial=0, keepdims=True)
        return np.rint(exact * scale).astype(np.int8), (np.float32(1) / scale)[:, 0]
    out, inverse = np.empty(x.shape, np.uint8), []
    for first in range(0, exact.shape[1], 128):
        part = exact[:, first : first + 128]
        largest = np.maximum(np.abs(part).max(axis=1, initial=0), np.float32(1e-4))[:, None]
        scaled = np.clip(part * (np.float32(448) / largest), -448, 448)
        out[:, first : first + 128] = scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        inverse.append(largest[:, 0] / np.float32(448))
    return out, np.stack(inverse, axis=1)


@pytest.mark.parametrize("quant", QUANTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_and_counts_are_those_of_plain_numpy(case, layout, quant):
    idx, targets = case.targets(layout)
    dispatch = Dispatch(case.x, idx, targets, quant)
    sent = [plain_quantised(x, quant) for x in case.x]
    hidden, local = case.x[0].shape[1], targets // case.ranks
    for rank, rows in enumerate(case.rows(layout)):
        got = dispatch.received(rank)
        wanted = [sent[s][0][t] for _, s, t in rows]
        wanted = np.array(wanted, got.expand_x.dtype).reshape(-1, hidden)
        scales = None if quant == "none" else np.array([sent[s][1][t] for _, s, t in rows])
        first = rank * local
        counts = np.bincount([e - first for e, _, _ in rows], minlength=local)
        assert got.expert_counts.tolist() == counts.tolist()
        if layout == PADDED:
            slots = case.ranks * max(len(x) for x in case.x)
            padded = padded_rows(got.expand_x, got.handle.layout, slots)
            assert padded.shape == (local, slots, hidden)
            begin = 0
            for expert, count in enumerate(counts):
                assert np.array_equal(padded[expert, :count], wanted[begin : begin + count])
                assert not padded[expert, count:].any()
                begin += count
            assert np.array_equal(packed_rows(padded, got.handle.layout), wanted)
        else:
            assert np.array_equal(got.expand_x, wanted)
        if scales is not None:
            assert np.array_equal(got.scales, scales.reshape(got.scales.shape))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_identity_experts_give_the_sum_of_weights_or_the_ranks_hit(case, layout):
    """Bit by bit the float32 sum in the order of the keys, rounded once."""
    idx, targets = case.targets(layout)
    weights = [np.ones_like(w) for w in case.weights] if layout == RANK else case.weights
    dispatch = Dispatch(case.x, idx, targets, "none")
    got = [dispatch.received(rank) for rank in range(case.ranks)]
    results, handles = [g.expand_x for g in got], [g.handle for g in got]
    for rank in range(0, case.ranks, max(1, case.ranks // 16)):
        out = combine(results, handles, dispatch, weights[rank], rank)
        x = values(case.x[rank]).astype(np.float32)
        total = np.zeros_like(x)
        for key in range(idx[rank].shape[1]):
            there = idx[rank][:, key, None] >= 0
            total = np.where(there, total + weights[rank][:, key, None] * x, total)
        assert np.array_equal(values(out), total.astype(ml_dtypes.bfloat16))
        if layout == RANK:
            hit = (idx[rank] >= 0).sum(axis=1, keepdims=True)
            assert np.allclose(values(out).astype(np.float32), hit * x, rtol=2**-8)


@pytest.mark.parametrize("quant", ["int8", "fp8"])
def test_identity_experts_behind_quantisation_stay_within_its_error(case, quant):
    dispatch = Dispatch(case.x, case.idx, case.experts, quant)
    back = dequantise if quant == "int8" else dequantise_fp8
    got = [dispatch.received(rank) for rank in range(case.ranks)]
    results = [back(g.expand_x, g.scales) for g in got]
    rank = case.ranks - 1
    out = combine(results, [g.handle for g in got], dispatch, case.weights[rank], rank)
    x = from_bf16(case.x[rank])
    total = np.where(case.idx[rank] >= 0, case.weights[rank], 0).sum(axis=1, keepdims=True)
    largest = np.abs(x).max(axis=1, keepdims=True, initial=0)
    step = largest / 254 if quant == "int8" else np.abs(x) / 16 + largest * 2**-18
    assert (np.abs(from_bf16(out) - total * x) <= total * (step + largest * 2 / 256)).all()


def test_fp8_is_within_its_error_and_zeros_stay_zero():
    x = to_bf16(np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32) * 7)
    x[2] = 0
    out, inverse = np.empty(x.shape, np.uint8), np.empty((5, 3), np.float32)
    quantise_fp8(x, out, inverse)
    exact = from_bf16(x)
    back = fp8_values(out).astype(np.float32) * np.repeat(inverse, 128, axis=1)[:, :300]
    assert (np.abs(back - exact) <= np.abs(exact) / 16 + 2**-10 * inverse.max()).all()
    assert not back[2].any()
    assert scale_groups(300) == 3


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_fp8_names_the_token_that_it_cannot_carry(bad):
    x = np.ones((300, 4), np.float32)
    x[270, 2] = bad
    with pytest.raises(OptionError, match="token 270 holds inf or nan, which FP8 cannot carry"):
        quantise_fp8(to_bf16(x), np.empty(x.shape, np.uint8), np.empty((300, 1), np.float32))


def test_bytes_of_a_copy():
    assert [bytes_per_copy(7168, quant) for quant in ("none", "int8", "fp8")] == [14336, 7680, 7408]


def test_what_the_layout_call_counts():
    case = CASES["8 ranks, inactive keys"]
    idx, _ = case.targets(RANK)
    for rank, table in enumerate(case.idx):
        layout = dispatch_layout(table, case.experts, case.ranks, ranks_per_node=4, rank=rank)
        assert np.array_equal(rank_index(table, case.experts, case.ranks), idx[rank])
        for target in range(case.ranks):
            hit = ((table >= 0) & (table // case.local == target)).any(axis=1)
            assert np.array_equal(layout.is_token_in_rank[:, target], hit)
            assert layout.tokens_per_rank[target] == hit.sum()
        nodes = [layout.is_token_in_rank[:, n : n + 4].any(axis=1).sum() for n in (0, 4)]
        assert layout.tokens_per_node.tolist() == nodes
        counts = np.bincount(table[table >= 0], minlength=case.experts)
        assert np.array_equal(layout.tokens_per_expert, counts)


def test_local_expert_numbers():
    table = np.array([[5, 2, -1], [0, 4, 3]])
    assert local_experts(table, 1, 3).tolist() == [[2, -1, -1], [-1, 1, 0]]


def test_an_expert_that_stands_twice_is_refused():
    twice = np.array([[0, 1], [2, 2]])
    with pytest.raises(OptionError, match="token 1 of rank 3 names expert 2 twice"):
        rank_index(twice, 4, 2, rank=3)
    tables = [np.zeros((0, 2), np.int64), twice]
    x = [np.zeros((len(t), 4), np.uint16) for t in tables]
    with pytest.raises(OptionError, match="token 1 of rank 1 names expert 2 twice"):
        Dispatch(x, tables, 4, "none")


def test_a_padded_buffer_that_is_too_small_is_named():
    case = CASES["8 ranks, all to one expert"]
    got = Dispatch(case.x, case.idx, case.experts, "none").received(5)
    with pytest.raises(CapacityExceeded, match=r"receive 40 tokens, its buffer has 32 slots.*of 5"):
        padded_rows(got.expand_x, got.handle.layout, 32)


@pytest.mark.parametrize("quant", QUANTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_real_bytes_come_out_right_in_every_layout(ranks, layout, quant):
    gate = Gate(Routing("uniform", experts=4 * ranks, topk=3, seed=ranks), ranks, layout=layout)
    tokens = np.arange(ranks) % 5
    assert wrong_dispatch(gate, tokens, 130, quant) == 0
    assert wrong_combine(gate, tokens, 130) == 0


def test_the_fp8_check_counts_what_is_wrong_and_agrees_without_the_compiler():
    made = make_tokens(0, 1, 3, 130)
    out, inverse = np.empty(made.shape, np.uint8), np.empty((3, 2), np.float32)
    quantise_fp8(made, out, inverse)
    who = np.ones(3, np.int64), np.arange(3)
    assert wrong_fp8(0, *who, fp8_table(), out, inverse) == 0
    out[1, 129] ^= 1
    inverse[2, 0] *= 2
    plain = getattr(wrong_fp8, "py_func", wrong_fp8)
    assert wrong_fp8(0, *who, fp8_table(), out, inverse) == 2
    assert plain(0, *who, fp8_table(), out, inverse) == 2
