"""The faces take the time of the core; hooks and handles let computing overlap."""

import numpy as np
from worlds import run

from tests.moe_tokens import BF16, core_times, routing, tokens_of
from ubnet.moe import Buffer, npu_moe_distribute_combine, npu_moe_distribute_dispatch
from ubnet.rank import current


def test_both_faces_take_the_time_of_the_core():
    ranks, count = 8, 6
    gate = routing(ranks)

    def deep_ep(rank):
        index, weights = gate.of(rank.number, count)
        buffer, x = Buffer(), tokens_of(rank.number, count)
        got, _, handle, _, _ = buffer.low_latency_dispatch(x, index, count, gate.experts)
        middle = current().exchange(9, tuple(range(ranks)), rank.now_ps)
        buffer.low_latency_combine(got[0].astype(BF16), index, weights, handle)
        return max(middle), rank.now_ps

    def ascend(rank):
        index, weights = gate.of(rank.number, count)
        given = (None, ranks, rank.number, gate.experts)
        got = npu_moe_distribute_dispatch(
            tokens_of(rank.number, count), index, *given, quant_mode=2
        )
        middle = current().exchange(9, tuple(range(ranks)), rank.now_ps)
        y = got[0].astype(BF16)
        npu_moe_distribute_combine(y, index, got[2], got[4], weights, *given)
        return max(middle), rank.now_ps

    for main, quant in ((deep_ep, "fp8"), (ascend, "int8")):
        values_ = run(main, ranks).values
        dispatch, combine = core_times(ranks, count, quant, gate.experts)
        middle = values_[0][0]
        assert middle == dispatch
        assert max(end for _, end in values_) - middle == combine


def test_a_hook_lets_computing_overlap():
    gate = routing(4)
    (alone, _) = core_times(4, 6, "fp8", gate.experts)

    def main(rank):
        index, _ = gate.of(rank.number, 6)
        *_, hook = Buffer().low_latency_dispatch(
            tokens_of(rank.number, 6), index, 6, gate.experts, return_recv_hook=True
        )
        rank.compute(40e-6)
        hook()
        hook()
        return rank.now_ps

    assert max(run(main, 4).values) == alone > 40e6


def test_two_calls_at_once_end_in_any_order_of_waiting():
    gate = routing(3)

    def main(rank):
        index, _ = gate.of(rank.number, 4)
        buffer = Buffer()
        x = tokens_of(rank.number, 8)
        first = buffer.low_latency_dispatch(x[:4], index, 4, gate.experts, False, True)
        second = buffer.low_latency_dispatch(x[4:], index, 4, gate.experts, False, True)
        second[3].current_stream_wait()
        with first[3]:
            pass
        same = np.array_equal(first[1], second[1])
        return same and not np.array_equal(first[0], second[0])

    assert all(run(main, 3).values)
