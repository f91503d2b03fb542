"""DeepEP's calls: low-latency and normal, on real tokens, against plain numpy."""

import ml_dtypes
import numpy as np
import pytest
from worlds import run

from tests.moe_tokens import BF16, HIDDEN, factor, routing, tokens_of, weighted
from ubnet.moe import Buffer


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("use_fp8", [False, True])
def test_low_latency_calls(ranks, use_fp8):
    gate = routing(ranks)
    experts, most = gate.experts, 6

    def main(rank):
        me = rank.number
        count = (me * 2) % (most + 1)
        x = tokens_of(me, count)
        index, weights = gate.of(me, count)
        buffer = Buffer()
        recv_x, recv_count, handle, event, hook = buffer.low_latency_dispatch(
            x, index, most, experts, use_fp8=use_fp8, return_recv_hook=True
        )
        assert not recv_count.any()
        hook()
        rows, scales = recv_x if use_fp8 else (recv_x, None)
        local = experts // ranks
        assert rows.shape == (local, ranks * most, HIDDEN)
        if use_fp8:
            assert rows.dtype == ml_dtypes.float8_e4m3fn
            assert scales.shape == (local, ranks * most, HIDDEN // 128)
            rows = rows.astype(np.float32) * np.repeat(scales, 128, axis=2)
        wanted = []
        for e in range(me * local, (me + 1) * local):
            mine = [
                tokens_of(s, (s * 2) % (most + 1))[
                    (gate.of(s, (s * 2) % (most + 1))[0] == e).any(1)
                ]
                for s in range(ranks)
            ]
            wanted.append(np.concatenate(mine).astype(np.float32))
        for i, exact in enumerate(wanted):
            assert recv_count[i] == len(exact)
            got = rows[i, : len(exact)].astype(np.float32)
            allowed = np.abs(exact) / 16 if use_fp8 else 0
            assert (np.abs(got - exact) <= allowed).all()
            assert not rows[i, len(exact) :].astype(np.float32).any()
        y = np.zeros(rows.shape, BF16)
        for i, exact in enumerate(wanted):
            y[i, : len(exact)] = exact * factor(me * local + i)
        out = np.empty((count, HIDDEN), BF16)
        result, event, hook = buffer.low_latency_combine(y, index, weights, handle, out=out)
        event.current_stream_wait()
        assert result is out
        assert np.array_equal(out, weighted(x, index, weights))
        return True

    assert all(run(main, ranks).values)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("later", [False, True])
def test_normal_calls(ranks, later):
    gate = routing(ranks, local=4, topk=5)
    experts = gate.experts

    def counts(rank):
        return (rank * 3 + 1) % 7

    def main(rank):
        me, local = rank.number, experts // ranks
        x = tokens_of(me, counts(me))
        index, weights = gate.of(me, counts(me))
        buffer = Buffer()
        per_rank, per_node, per_expert, inside, _ = buffer.get_dispatch_layout(index, experts)
        assert (per_node is None) == (ranks <= 8)
        recv_x, recv_idx, recv_weights, listed, handle, event = buffer.dispatch(
            x,
            num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_node,
            is_token_in_rank=inside,
            num_tokens_per_expert=per_expert,
            topk_idx=index,
            topk_weights=weights,
            expert_alignment=4,
            async_finish=later,
        )
        if later:
            assert not recv_x.astype(np.float32).any()
            event.current_stream_wait()
        rows, ids, gates = [], [], []
        for s in range(ranks):
            table, w = gate.of(s, counts(s))
            hit = (table // local == me).any(axis=1)
            rows.append(tokens_of(s, counts(s))[hit])
            own = table[hit] // local == me
            ids.append(np.where(own, table[hit] - me * local, -1))
            gates.append(np.where(own, w[hit], 0))
        assert np.array_equal(recv_x, np.concatenate(rows))
        assert np.array_equal(recv_idx, np.concatenate(ids))
        assert np.array_equal(recv_weights, np.concatenate(gates))
        exact = np.bincount(recv_idx[recv_idx >= 0], minlength=local)
        assert listed == (-(-exact // 4) * 4).tolist()
        out, summed, event = buffer.combine(recv_x, handle, recv_weights, async_finish=later)
        event.current_stream_wait()
        hit = inside.sum(axis=1, keepdims=True)
        assert np.array_equal(out, (x.astype(np.float32) * hit).astype(BF16))
        assert np.array_equal(summed, weights)
        again, *nothing, event = buffer.dispatch(x, handle=handle)
        assert np.array_equal(again, recv_x)
        assert nothing == [None] * 4
        return True

    assert all(run(main, ranks).values)


def test_normal_dispatch_takes_fp8_and_a_mask_alone():
    def main(rank):
        x = tokens_of(rank.number, 4)
        pair = (x.astype(ml_dtypes.float8_e4m3fn), np.full((4, 2), 0.5, np.float32))
        inside = np.arange(4)[:, None] % 2 == np.arange(2)
        got = Buffer().dispatch(
            pair,
            num_tokens_per_rank=inside.sum(axis=0),
            is_token_in_rank=inside,
            num_tokens_per_expert=np.array([2, 2]),
        )
        rows, scales = got[0]
        both = np.concatenate([tokens_of(s, 4)[rank.number :: 2] for s in range(2)])
        assert np.array_equal(rows, both.astype(ml_dtypes.float8_e4m3fn))
        assert (scales == 0.5).all()
        return got[1], got[2]

    assert run(main, 2).values == [(None, None)] * 2
