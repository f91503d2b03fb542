"""DeepEP's and Ascend's calls: bytes and times of the core, hooks, handles, refusals."""

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from worlds import fabric, run

from ubnet.collectives.expert_parallel import ExpertParallel
from ubnet.collectives.quantise import values
from ubnet.collectives.routing import Routing
from ubnet.errors import CapacityExceeded, MismatchedCall, OptionError
from ubnet.moe import Buffer, npu_moe_distribute_combine, npu_moe_distribute_dispatch
from ubnet.rank import current

BF16 = ml_dtypes.bfloat16
HIDDEN = 256


def tokens_of(rank, count, hidden=HIDDEN):
    rng = np.random.default_rng([7, rank])
    return rng.integers(-60, 61, (count, hidden)).astype(BF16)


def routing(ranks, local=2, topk=3):
    return Routing("uniform", ranks * local, min(topk, ranks * local), seed=3)


def factor(expert):
    return 1 + expert % 3


def weighted(x, index, weights, experts_do=factor):
    """What a combine gives, by plain numpy, exact for small whole numbers."""
    total = np.where(index >= 0, weights * experts_do(index), 0).sum(axis=1, dtype=np.float32)
    return (x.astype(np.float32) * total[:, None]).astype(BF16)


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


def core_times(ranks, tokens, quant, experts, topk=3, layout="expert", seed=3):
    gate = Routing("uniform", experts, topk, seed=seed)
    return [
        ExpertParallel(op, fabric(), np.arange(ranks), gate, tokens, HIDDEN, quant, layout=layout)
        .timing("aiv")
        .time_ps
        for op in ("dispatch", "combine")
    ]


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


def test_calls_on_part_of_the_world(tmp_path):
    import ubnet

    def main(comm):
        half = comm.Split(comm.rank % 2, comm.rank)
        x = np.full((1, 128), comm.rank + 1).astype(BF16)
        recv, count, _, _, _ = Buffer(half).low_latency_dispatch(
            x, np.array([[half.size - 1]]), 1, half.size, False
        )
        return count.tolist(), sorted(recv.reshape(-1, 128)[:, 0].astype(int).tolist())

    got = ubnet.run(main, ranks=4).values
    assert got == [([0], [0, 0]), ([0], [0, 0]), ([2], [1, 3]), ([2], [2, 4])]


@pytest.mark.slow
def test_a_program_is_the_same_in_one_process_and_in_two():
    script = Path(__file__).parent / "programs" / "moe_faces.py"
    ubnet_run = [sys.executable, "-m", "ubnet", "run", "-n", "4", str(script)]
    mpirun = Path(sys.executable).parent / "mpirun"
    two = [str(mpirun), "-n", "2", "--oversubscribe", "--allow-run-as-root"]
    outputs = [
        subprocess.run(
            c, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1]
        )
        for c in (ubnet_run, two + ubnet_run)
    ]
    assert outputs[0].returncode == 0, outputs[0].stderr
    assert len(outputs[0].stdout.splitlines()) == 4
    assert outputs[1].stdout == outputs[0].stdout, outputs[1].stderr


def test_the_example_prints_what_it_says():
    root = Path(__file__).parents[1]
    example = root / "examples" / "expert_parallel.py"
    command = [sys.executable, "-m", "ubnet", "run", "-n", "16", str(example)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=root)
    said = example.read_text().split('"""')[1].split("It prints:\n\n")[1]
    wanted = "".join(f"{line[4:]}\n" for line in said.rstrip().splitlines())
    assert done.stdout == wanted, done.stderr


def test_values_are_seen_without_a_copy():
    held = np.zeros((2, 2), np.uint16)
    values(held)[0, 0] = 1
    assert held[0, 0] == 0x3F80
