"""Ascend's calls: dispatch and combine on real tokens, with INT8, shared experts and masks."""

import numpy as np
import pytest
from worlds import run

from tests.moe_tokens import BF16, HIDDEN, factor, tokens_of
from ubnet.collectives.routing import Routing
from ubnet.moe import npu_moe_distribute_combine, npu_moe_distribute_dispatch


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("quant_mode", [0, 2])
@pytest.mark.parametrize("shared", [0, 1])
def test_ascends_calls(ranks, quant_mode, shared):
    if shared >= ranks:
        pytest.skip("a rank must be left for the routed experts")
    gate = Routing("uniform", 2 * (ranks - shared), min(3, 2 * (ranks - shared)), seed=5)
    experts, batch = gate.experts, 5

    def main(rank):
        me = rank.number
        count = (me * 2) % (batch + 1)
        x = tokens_of(me, count)
        index, weights = gate.of(me, count)
        mask = np.arange(count) != 1
        given = (None, ranks, me, experts)
        expand_x, scales, expand_idx, nums, counts, _tp, gates = npu_moe_distribute_dispatch(
            x,
            index.astype(np.int32),
            *given,
            x_active_mask=mask,
            expert_scales=weights,
            shared_expert_rank_num=shared,
            quant_mode=quant_mode,
            global_bs=batch * ranks,
        )
        local = experts // (ranks - shared)
        room = batch * ranks * (1 if me < shared else min(local, gate.topk))
        assert expand_x.shape == (room, HIDDEN)
        assert counts.shape == (local * ranks,)
        rows = int(counts[-1])
        assert nums.sum() == rows
        assert not expand_x[rows:].astype(np.float32).any()
        y = expand_x
        if quant_mode:
            assert expand_x.dtype == np.int8
            y = (expand_x.astype(np.float32) * scales[:, None]).round()
        expert = np.repeat(np.arange(local), nums) + (me - shared) * local
        y = y.astype(np.float32)
        y[:rows] *= 1 if me < shared else factor(expert)[:, None]
        out = npu_moe_distribute_combine(
            y.astype(BF16),
            index,
            expand_idx,
            counts,
            weights,
            *given,
            x_active_mask=mask,
            shared_expert_rank_num=shared,
            shared_expert_x=None if shared else x,
        )
        masked = np.where(mask[:, None], index, -1)
        total = np.where(masked >= 0, weights * factor(masked), 0).sum(axis=1, dtype=np.float32)
        total += mask if shared else 1
        exact = x.astype(np.float32) * total[:, None]
        if quant_mode:
            # Whole numbers up to 60 survive INT8 within half a step of 60 / 127.
            steps = np.where(masked >= 0, weights * factor(masked), 0).sum(axis=1) + shared
            assert (
                np.abs(out.astype(np.float32) - exact) <= steps[:, None] + np.abs(exact) / 64
            ).all()
        else:
            assert np.array_equal(out, exact.astype(BF16))
        if not quant_mode and me >= shared:
            assert gates.shape == (room,)
            assert (gates[:rows] > 0).all()
        return True

    assert all(run(main, ranks).values)
