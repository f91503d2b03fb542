"""Dispatch and combine with real bytes: against plain numpy, and the laws that they keep."""

import ml_dtypes
import numpy as np
import pytest

from ubnet.collectives import real_payload
from ubnet.collectives.combine import combine, send_back, sum_rows, weighted_sum
from ubnet.collectives.dispatch import Dispatch
from ubnet.collectives.gate import Gate
from ubnet.collectives.layout import StaticBuffer, receive_layout, send_order
from ubnet.collectives.made_tokens import fill_rows, make_tokens, wrong_bf16, wrong_int8
from ubnet.collectives.quantise import dequantise, from_bf16, to_bf16, values
from ubnet.collectives.routing import Routing
from ubnet.collectives.token_plan import TokenPlan
from ubnet.errors import CapacityExceeded, MismatchedCall, OptionError

HIDDEN = 24


class World:
    """Tokens, experts and weights of some ranks; experts and tokens may be missing."""

    def __init__(self, ranks, experts, topk, tokens, seed=0, none=0.0, only=None):
        rng = np.random.default_rng(seed)
        self.ranks, self.experts, self.local = ranks, experts, experts // ranks
        self.x, self.idx, self.weights = [], [], []
        for _, count in zip(range(ranks), tokens, strict=True):
            self.x.append(to_bf16(rng.standard_normal((count, HIDDEN)).astype(np.float32)))
            pool = np.arange(experts) if only is None else np.array(only)
            keys = [rng.permutation(pool)[:topk] for _ in range(count)]
            idx = np.full((count, topk), -1, dtype=np.int64)
            for t, key in enumerate(keys):
                idx[t, : len(key)] = key
            idx[rng.random(idx.shape) < none] = -1
            self.idx.append(idx)
            self.weights.append(rng.random((count, topk)).astype(np.float32))

    def dispatch(self, quant, **options):
        return Dispatch(self.x, self.idx, self.experts, quant, **options)

    def expected_rows(self, rank):
        """The (source, token, key) of every row, by the obvious loops."""
        for expert in range(rank * self.local, (rank + 1) * self.local):
            for source in range(self.ranks):
                for token, key in np.argwhere(self.idx[source] == expert):
                    yield source, token, key


CASES = {
    "one rank": World(1, 4, 2, [5]),
    "two ranks": World(2, 4, 3, [3, 7]),
    "three ranks, 0 tokens on one": World(3, 6, 2, [4, 0, 1], seed=1),
    "inactive keys": World(8, 16, 4, [7] * 8, seed=2, none=0.4),
    "all inactive": World(2, 4, 2, [3, 3], none=1.0),
    "empty experts": World(4, 16, 2, [6] * 4, seed=3, only=[1, 9]),
    "all to one expert": World(8, 8, 1, [5] * 8, seed=4, only=[6]),
    "no tokens at all": World(2, 2, 1, [0, 0]),
    "sixteen ranks": World(16, 32, 8, [9] * 16, seed=5),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def world(request):
    return request.param


def test_rows_come_by_expert_source_and_token(world):
    dispatch = world.dispatch("none")
    for rank in range(world.ranks):
        got = dispatch.received(rank)
        rows = list(world.expected_rows(rank))
        handle = got.handle
        place = zip(handle.source_rank, handle.source_token, handle.source_key, strict=True)
        assert list(place) == rows
        assert got.expand_x.shape == (len(rows), HIDDEN)
        for row, (source, token, _) in enumerate(rows):
            assert np.array_equal(got.expand_x[row], world.x[source][token])
        experts = np.array([world.idx[s][t, k] for s, t, k in rows], dtype=np.int64)
        local = experts - rank * world.local
        assert np.array_equal(got.expert_counts, np.bincount(local, minlength=world.local))
        assert got.scales is None


def test_int8_rows_are_the_quantised_tokens(world):
    dispatch = world.dispatch("int8")
    for rank in range(world.ranks):
        got = dispatch.received(rank)
        for row, (source, token, _) in enumerate(world.expected_rows(rank)):
            exact = from_bf16(world.x[source][token])
            scale = np.float32(127) / np.abs(exact).max()
            assert np.array_equal(got.expand_x[row], np.rint(exact * scale))
            assert got.scales[row] == np.float32(1) / scale


def test_counts_of_the_plan_are_those_of_the_routing(world):
    plan = world.dispatch("none").plan
    for source in range(world.ranks):
        chosen = world.idx[source][world.idx[source] >= 0]
        assert np.array_equal(plan.counts[source], np.bincount(chosen, minlength=world.experts))
        owners = np.bincount(chosen // world.local, minlength=world.ranks)
        assert np.array_equal(plan.copies[source], owners)


def combined(world, dispatch, experts):
    """Run the experts on every row, then combine for all ranks."""
    got = [dispatch.received(rank) for rank in range(world.ranks)]
    results = [experts(g) for g in got]
    handles = [g.handle for g in got]
    return [combine(results, handles, dispatch, world.weights[r], r) for r in range(world.ranks)]


def test_identity_experts_give_x_times_the_sum_of_weights_exactly_as_defined(world):
    out = combined(world, world.dispatch("none"), lambda got: got.expand_x)
    for rank in range(world.ranks):
        x = from_bf16(world.x[rank])
        total = np.zeros_like(x)
        for key in range(world.idx[rank].shape[1]):
            term = world.weights[rank][:, key, None] * x
            total = np.where(world.idx[rank][:, key, None] >= 0, total + term, total)
        assert np.array_equal(values(out[rank]), total.astype(ml_dtypes.bfloat16))


def test_identity_experts_behind_int8_stay_within_its_error(world):
    out = combined(world, world.dispatch("int8"), lambda got: dequantise(got.expand_x, got.scales))
    for rank in range(world.ranks):
        x = from_bf16(world.x[rank])
        active = np.where(world.idx[rank] >= 0, world.weights[rank], 0).sum(axis=1, keepdims=True)
        largest = np.abs(x).max(axis=1, keepdims=True, initial=0)
        # Half a step of INT8, then two roundings to 8 bits: the result's and the sum's.
        allowed = active * largest * (1 / 254 + 2 / 256)
        assert (np.abs(from_bf16(out[rank]) - active * x) <= allowed).all()


def test_every_copy_meets_its_own_expert_and_weight(world):
    def scale_by_expert(got):
        first = got.handle.rank * world.local
        expert = np.repeat(np.arange(first, first + world.local), got.expert_counts)
        return to_bf16(from_bf16(got.expand_x) * (2.0 ** (expert % 5)).astype(np.float32)[:, None])

    out = combined(world, world.dispatch("none"), scale_by_expert)
    for rank in range(world.ranks):
        factor = np.where(world.idx[rank] >= 0, 2.0 ** (world.idx[rank] % 5), 0)
        total = (factor * world.weights[rank]).sum(axis=1, keepdims=True)
        wanted = total * from_bf16(world.x[rank])
        assert np.allclose(from_bf16(out[rank]), wanted, rtol=1 / 256, atol=1e-30)


def test_sum_kernel_gives_the_same_without_the_compiler():
    world = CASES["inactive keys"]
    order = send_order(world.idx[0], world.experts)
    incoming = world.x[0][order.token]
    slow = np.empty_like(world.x[0])
    python = getattr(sum_rows, "py_func", sum_rows)
    python(incoming, order.position(), world.weights[0], slow)
    assert np.array_equal(slow, weighted_sum(incoming, order, world.weights[0]))


def test_a_buffer_that_is_too_small_is_named_before_anything_moves():
    world = World(2, 4, 2, [3, 7], only=[2, 3])
    world.dispatch("int8", batch=7)
    with pytest.raises(CapacityExceeded) as caught:
        world.dispatch("int8", batch=2)
    for part in (
        "rank 1 would send 14 token copies to rank 1, whose buffer has 4 slots for each source",
        "= batch 2 x min(topk 2, experts per rank 2)",
        f"need {14 * (HIDDEN + 512)} bytes, have {4 * (HIDDEN + 512)}",
        "give batch=7 or more",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize(("message", "mib"), [(7680, 225), (14336, 420)])
def test_the_published_buffers_of_ep320(message, mib):
    assert StaticBuffer(320, 96, 8, 1, message).nbytes == mib << 20


def test_what_does_not_fit_together_is_refused():
    world = World(2, 4, 2, [3, 3])
    with pytest.raises(OptionError, match="give a multiple of the ranks, such as 4"):
        TokenPlan(np.zeros((2, 3), np.int64), np.array([0, 0]), 1)
    with pytest.raises(MismatchedCall, match="rank 1 has 3 tokens and experts for 2"):
        Dispatch(world.x, [world.idx[0], world.idx[1][:2]], 4, "none")
    with pytest.raises(OptionError, match="no quantisation 'int4'"):
        world.dispatch("int4")
    got = world.dispatch("none").received(0)
    with pytest.raises(MismatchedCall, match="one result for each row"):
        send_back(got.expand_x[:-1], got.handle, 0)
    order = send_order(world.idx[0], 4)
    with pytest.raises(MismatchedCall, match="sent 6 copies with weights of shape"):
        weighted_sum(world.x[0][order.token], order, world.weights[0][:2])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x, idx: (x[:1], idx), "rank 1 of 2 has experts and no tokens"),
        (lambda x, idx: (x, idx[:1]), "experts for 1 ranks: give tokens and topk_idx of every"),
        (lambda x, idx: ([], []), "experts for 0 ranks"),
        (lambda x, idx: (x, [i.astype(float) for i in idx]), "topk_idx of rank 0 is float64"),
        (lambda x, idx: (x, [i.reshape(-1) for i in idx]), "rank 0 is int64 of shape"),
        (lambda x, idx: ([v.astype(np.float32) for v in x], idx), "rank 0 are float32 of shape"),
        (lambda x, idx: ([v.astype(np.int64) for v in x], idx), "rank 0 are int64 of shape"),
        (lambda x, idx: ([v[0] for v in x], idx), "rank 0 are uint16 of shape"),
        (lambda x, idx: ([x[0], x[1][:, :-1]], idx), "rank 1 has tokens of 23 channels"),
        (lambda x, idx: (x, [idx[0], idx[1][:, :-1]]), "rank 1 has tokens of 24 channels and 1"),
    ],
)
@pytest.mark.parametrize("quant", ["none", "int8", "fp8"])
def test_arrays_of_a_wrong_kind_are_refused(change, words, quant):
    world = World(2, 4, 2, [3, 3])
    tokens, table = change(world.x, world.idx)
    with pytest.raises((OptionError, MismatchedCall), match=words):
        Dispatch(tokens, table, 4, quant)


def test_bfloat16_and_its_bits_are_the_same():
    world = World(2, 4, 2, [3, 3])
    first = world.dispatch("none").received(0)
    again = Dispatch([values(x) for x in world.x], world.idx, 4, "none").received(0)
    assert np.array_equal(first.expand_x, again.expand_x)
    back = send_back(values(first.expand_x), first.handle, 0)
    assert np.array_equal(back, send_back(first.expand_x, first.handle, 0))
    with pytest.raises(OptionError, match="results on rank 0 are float32"):
        send_back(first.expand_x.astype(np.float32), first.handle, 0)


def test_a_row_numbering_covers_every_row_once():
    counts = np.random.default_rng(0).integers(0, 4, (5, 3))
    layout = receive_layout(counts)
    rows = np.concatenate([layout.rows_from(source) for source in range(5)])
    assert sorted(rows) == list(range(counts.sum()))
    assert np.array_equal(layout.expert_counts, counts.sum(axis=0))


def test_made_tokens_are_whole_numbers_that_differ_by_seed_rank_and_token():
    rows = values(make_tokens(1, 2, 3, 100)).astype(np.float32)
    assert np.array_equal(rows, np.rint(rows))
    assert rows.min() >= -64
    assert rows.max() <= 63
    others = [make_tokens(1, 3, 3, 100), make_tokens(2, 2, 3, 100)]
    assert all((values(o).astype(np.float32) != rows).mean() > 0.9 for o in others)
    assert (rows[0] != rows[1]).mean() > 0.9
    python = getattr(fill_rows, "py_func", fill_rows)
    slow = np.empty((3, 100), dtype=np.uint16)
    python(1, np.full(3, 2), np.arange(3), np.ones(3, np.int64), slow)
    assert np.array_equal(values(slow).astype(np.float32), rows)


@pytest.mark.parametrize("hidden", [1, 7, 32])
@pytest.mark.parametrize("quant", ["int8", "fp8", "none"])
@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_a_real_dispatch_and_combine_come_out_right(ranks, quant, hidden):
    routing = Routing("uniform", experts=8 * ranks, topk=4, seed=ranks)
    gate, tokens = Gate(routing, ranks), np.full(ranks, 5)
    assert real_payload.wrong_dispatch(gate, tokens, hidden, quant) == 0
    assert real_payload.wrong_combine(gate, tokens, hidden) == 0


@pytest.mark.parametrize("block_bytes", [1, 5000])
def test_a_combine_in_blocks_is_the_same(monkeypatch, block_bytes):
    monkeypatch.setattr(real_payload, "BLOCK_BYTES", block_bytes)
    assert real_payload.wrong_combine(Gate(Routing("zipf", 14, 2), 7), np.full(7, 6), 16) == 0


def test_the_checks_count_what_is_wrong():
    routing = Routing("balanced", 8, 2)
    made = [make_tokens(0, r, 4, 32) for r in range(2)]
    for quant in ("int8", "none"):
        dispatch = Dispatch(made, [routing.of(r, 4)[0] for r in range(2)], 8, quant)
        got = dispatch.received(1)
        got.expand_x[0, 3] ^= 1
        got.expand_x[2, 30] ^= 64
        source, token = got.handle.source_rank, got.handle.source_token
        if quant == "int8":
            got.scales[1] *= 2
            assert wrong_int8(0, source, token, got.expand_x, got.scales) == 3
        else:
            once = np.ones(len(source), dtype=np.float32)
            assert wrong_bf16(0, source, token, once, got.expand_x) == 2


def test_a_row_that_went_astray_shows_in_the_combine(monkeypatch):
    monkeypatch.setattr(
        real_payload, "send_back", lambda rows, handle, i: send_back(rows, handle, i)[::-1]
    )
    assert real_payload.wrong_combine(Gate(Routing("balanced", 8, 2), 2), np.full(2, 8), 16) > 0
