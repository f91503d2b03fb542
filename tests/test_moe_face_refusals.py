"""Wrong calls of both faces are named before anything moves."""

import numpy as np
import pytest
from worlds import run

from tests.moe_tokens import BF16
from ubnet.errors import CapacityExceeded, MismatchedCall, OptionError
from ubnet.moe import Buffer, npu_moe_distribute_combine, npu_moe_distribute_dispatch


def refusal(main, ranks=2):
    error = None
    try:
        run(main, ranks)
    except Exception as caught:
        error = caught
    assert error is not None
    return str(error), error


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"x": np.zeros((3, 8), np.float32)}, OptionError, "x is float32 of shape"),
        ({"most": 2}, CapacityExceeded, "need 3, have 2; give num_max_dispatch_tokens_per_rank=3"),
        ({"index": np.array([[1, 1]] * 3)}, OptionError, "names expert 1 twice"),
        ({"index": np.array([[0, 1]] * 2)}, OptionError, r"of shape \(3, topk\)"),
        ({"experts": 3}, OptionError, "give a multiple of the ranks"),
        ({"nbytes": 1}, CapacityExceeded, "have num_rdma_bytes 1"),
    ],
)
def test_wrong_low_latency_calls_are_named_before_anything_moves(change, kind, message):
    given = {
        "x": np.zeros((3, 8), BF16),
        "index": np.array([[0, 1]] * 3),
        "most": 3,
        "experts": 2,
        "nbytes": 1 << 20,
    } | change

    def main(rank):
        with pytest.raises(kind, match=message):
            Buffer(None, 0, given["nbytes"], True).low_latency_dispatch(
                given["x"], given["index"], given["most"], given["experts"]
            )
        return rank.now_ps

    assert run(main, 2).values == [0, 0]


def test_ranks_that_disagree_are_named():
    def main(rank):
        x = np.zeros((1, 8 + 8 * rank.number), BF16)
        Buffer().low_latency_dispatch(x, np.array([[0]]), 1, 2)

    message, error = refusal(main)
    assert isinstance(error, MismatchedCall)
    assert "rank 0 gave hidden 8 where rank 1 gave 16" in message


def test_wrong_ascend_calls_are_named():
    def main(rank):
        me = rank.number
        x, index = np.zeros((2, 8), BF16), np.array([[0], [1]])
        call = npu_moe_distribute_dispatch
        with pytest.raises(MismatchedCall, match="ep_world_size 3 and ep_rank_id"):
            call(x, index, None, 3, me, 2)
        with pytest.raises(OptionError, match="quant_mode 1"):
            call(x, index, None, 2, me, 2, quant_mode=1)
        with pytest.raises(CapacityExceeded, match="need 2; give global_bs=4 or more"):
            call(x, index, None, 2, me, 2, global_bs=2)
        with pytest.raises(OptionError, match="tp_world_size 2"):
            call(x, index, None, 2, me, 2, tp_world_size=2)
        got = call(x, index, None, 2, me, 2)
        with pytest.raises(MismatchedCall, match="does not belong to these expert_ids"):
            npu_moe_distribute_combine(
                got[0], index * 0, got[2], got[4], np.ones((2, 1)), None, 2, me, 2
            )
        return True

    assert all(run(main, 2).values)
