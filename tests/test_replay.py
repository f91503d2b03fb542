import os
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.errors import OptionError, ScheduleError
from ubnet.reductions import REDUCTIONS
from ubnet.replay import replay, replay_at
from ubnet.schedule import COPY, INPUT, JOIN, OUTPUT, REDUCE, REDUCE_LEFT, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder

Buffers = list[list[NDArray[np.generic]]]


def meet(a: dict[str, int], a_end: str, b: dict[str, int], b_end: str) -> bool:
    """Whether one end of an operation shares elements with an end of another."""
    if (a[a_end], a[a_end + "_buf"]) != (b[b_end], b[b_end + "_buf"]):
        return False
    first = max(a[a_end + "_off"], b[b_end + "_off"])
    return first < min(a[a_end + "_off"] + a["count"], b[b_end + "_off"] + b["count"])


def reads_across(a: dict[str, int], b: dict[str, int]) -> bool:
    return meet(a, "src", b, "dst") or meet(a, "dst", b, "src")


def random_schedule(rng: np.random.Generator, left: bool = False) -> Schedule:
    """Build a schedule whose operations wait for all that they conflict with."""
    ranks = int(rng.integers(1, 5))
    sizes = rng.integers(0, 9, (ranks, 3))
    builder = ScheduleBuilder("random", ranks, sizes)
    kinds = [COPY, REDUCE, REDUCE_LEFT] if left else [COPY, REDUCE]
    done: list[dict[str, int]] = []
    for step in range(int(rng.integers(0, 15))):
        kind = int(rng.choice(kinds))
        into = int(rng.integers(ranks))
        fan_in = int(rng.integers(1, 4)) if kind != COPY and not left else 1
        for _ in range(fan_in):
            op = {"step": step, "kind": kind, "dst": into, "src": int(rng.integers(ranks))}
            op["src_buf"], op["dst_buf"] = rng.choice([INPUT, OUTPUT, SCRATCH], 2).tolist()
            room = [sizes[op[e], op[e + "_buf"]] for e in ("src", "dst")]
            op["count"] = int(rng.integers(0, min(room) + 1))
            for e, size in zip(("src", "dst"), room, strict=True):
                op[e + "_off"] = int(rng.integers(0, size - op["count"] + 1))
            if meet(op, "src", op, "dst") or any(
                reads_across(op, other) for other in done if other["step"] == step
            ):
                continue
            before = [
                i
                for i, other in enumerate(done)
                if other["step"] < step
                and (reads_across(op, other) or meet(op, "dst", other, "dst"))
            ]
            builder.add(**op, after=before)
            done.append(op)
    return builder.build()


def topological(schedule: Schedule, rng: np.random.Generator) -> list[int]:
    """Return the operations in a random order that the dependencies allow."""
    left = [set(schedule.dep[a:b].tolist()) for a, b in zip(*_ends(schedule), strict=True)]
    order: list[int] = []
    while len(order) < len(schedule):
        ready = [i for i, waits in enumerate(left) if i not in order and waits <= set(order)]
        order.append(int(rng.choice(ready)))
    return order


def _ends(schedule: Schedule) -> tuple[list[int], list[int]]:
    return schedule.dep_ptr[:-1].tolist(), schedule.dep_ptr[1:].tolist()


def fill(arena: Arena, rng: np.random.Generator) -> Buffers:
    """Fill an arena with small whole numbers and return copies, by rank and buffer."""
    for rank in arena.held.tolist():
        for buf in range(3):
            view = arena.buffer(rank, buf)
            view[:] = rng.integers(0, 4, len(view)).astype(arena.dtype)
    return [[arena.buffer(r, b).copy() for b in range(3)] for r in arena.held.tolist()]


def twin(schedule: Schedule, buffers: Buffers, combine: Any) -> None:
    """Replay on separate arrays, one plain numpy line per operation."""
    s = schedule
    for i in range(len(s)):
        there = buffers[s.src[i]][s.src_buf[i]][s.src_off[i] :][: s.count[i]]
        here = buffers[s.dst[i]][s.dst_buf[i]][s.dst_off[i] :][: s.count[i]]
        if s.kind[i] == COPY:
            here[:] = there
        elif s.kind[i] == REDUCE:
            here[:] = combine(here, there)
        elif s.kind[i] == REDUCE_LEFT:
            here[:] = combine(there, here)


def same(arena: Arena, buffers: Buffers) -> bool:
    pairs = [(arena.buffer(r, b), buffers[r][b]) for r in range(len(buffers)) for b in range(3)]
    return all(np.array_equal(x, y) for x, y in pairs)


DTYPES = ["int8", "uint16", "int32", "int64", "float32", "float64", "bool", "float16"]
DTYPES += ["complex64", "longdouble", ">i4", ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_reduction_equals_numpy(name: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    named = REDUCTIONS[name]
    kind = np.dtype(dtype).kind
    bits = {"band", "bor", "bxor"}
    if name in {"maxloc", "minloc"} or (name in bits and kind not in "iub"):
        with pytest.raises(OptionError, match="has no meaning"):
            named.check(np.dtype(dtype))
        return
    for _ in range(12):
        schedule = random_schedule(rng)
        arena = Arena(schedule.sizes, dtype)
        buffers = fill(arena, rng)
        with np.errstate(all="ignore"):
            twin(schedule, buffers, named.combine)
        replay(schedule, arena, name)
        assert same(arena, buffers)


def test_an_order_that_validates_may_be_shuffled() -> None:
    rng = np.random.default_rng(3)
    operations = 0
    for _ in range(60):
        schedule = random_schedule(rng)
        schedule.validate()
        operations += len(schedule)
        arena = Arena(schedule.sizes, "int64")
        buffers = fill(arena, rng)
        twin(schedule, buffers, np.add)
        replay(schedule, arena, "sum", ops=topological(schedule, rng))
        assert same(arena, buffers)
    assert operations > 200


def test_a_callable_sees_left_and_right() -> None:
    def take_left_twice(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return 2 * left + right

    rng = np.random.default_rng(5)
    for _ in range(40):
        schedule = random_schedule(rng, left=True)
        arena = Arena(schedule.sizes, "int64")
        buffers = fill(arena, rng)
        twin(schedule, buffers, take_left_twice)
        replay(schedule, arena, take_left_twice)
        assert same(arena, buffers)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
def test_nan_and_overflow_behave_as_in_numpy(dtype: str) -> None:
    builder = ScheduleBuilder("two", 1, [3, 3, 0])
    builder.add(0, 0, 0, 0, 0, 3, kind=REDUCE)
    schedule = builder.build()
    for name in ("sum", "prod", "max", "min"):
        arena = Arena(schedule.sizes, dtype)
        nan_or_many = 100 if dtype == "int8" else np.nan
        arena.input(0)[:] = [nan_or_many, 3, 100]
        arena.output(0)[:] = [1, nan_or_many, 100]
        with np.errstate(all="ignore"):
            want = REDUCTIONS[name].combine(arena.output(0), arena.input(0))
        replay(schedule, arena, name)
        np.testing.assert_array_equal(arena.output(0), want)


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16", "V3", "S5", [("v", "f8"), ("i", "i4")]])
def test_buffers_begin_on_lines_and_copies_move_any_type(dtype: str) -> None:
    arena = Arena([[3, 5, 0], [2, 0, 7]], dtype)
    for rank in range(2):
        for buf in range(3):
            assert len(arena.buffer(rank, buf)) == arena.sizes[rank, buf]
            assert arena.buffer(rank, buf).ctypes.data % 64 == 0
    arena.input(0).view(np.uint8)[:] = np.arange(3 * arena.dtype.itemsize)
    builder = ScheduleBuilder("move", 2, arena.sizes)
    builder.add(0, 0, 1, 1, 4, 2, dst_buf=SCRATCH)
    replay(builder.build(), arena)
    assert arena.scratch(1)[4:6].tobytes() == arena.input(0)[1:3].tobytes()
    assert not any(arena.scratch(1)[:4].tobytes())


def test_levels_replayed_by_hosts_with_staging_equal_one_arena() -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        s = random_schedule(rng)
        whole = Arena(s.sizes, "int32")
        fill(whole, rng)
        hosts = [Arena(s.sizes, "int32", range(h, s.ranks, 2)) for h in range(2)]
        for host in hosts:
            host.reserve_staging(8)
            for rank in host.held.tolist():
                for buf in range(3):
                    host.buffer(rank, buf)[:] = whole.buffer(rank, buf)
        replay(s, whole)
        for i in range(len(s)):
            sender, receiver = hosts[s.src[i] % 2], hosts[s.dst[i] % 2]
            one = slice(i, i + 1)
            src = sender.offsets(s.src[one], s.src_buf[one], s.src_off[one])
            dst = receiver.offsets(s.dst[one], s.dst_buf[one], s.dst_off[one])
            if sender is not receiver:
                staged = receiver.reserve_staging(8)
                receiver.flat[staged:][: s.count[i]] = sender.flat[src[0] :][: s.count[i]]
                src = np.array([staged])
            replay_at(receiver, s.kind[one], src, dst, s.count[one])
        for rank in range(s.ranks):
            for buf in range(3):
                got = hosts[rank % 2].buffer(rank, buf)
                assert got.tolist() == whole.buffer(rank, buf).tolist()


def test_staging_keeps_what_stands() -> None:
    arena = Arena([[2, 2, 0]], "int32")
    arena.input(0)[:] = 7
    first = arena.reserve_staging(3)
    arena.flat[first : first + 3] = [1, 2, 3]
    assert arena.reserve_staging(100) == first
    assert arena.flat[first : first + 4].tolist() == [1, 2, 3, 0]
    assert arena.input(0).tolist() == [7, 7]
    assert len(arena.flat) == first + 100


def shift() -> Schedule:
    builder = ScheduleBuilder("shift", 2, [4, 4, 0])
    builder.add(0, [0, 1], [1, 0], 0, 0, 4, kind=[COPY, REDUCE])
    return builder.build()


def test_mistakes_are_refused() -> None:
    arena = Arena([[4, 4, 0]] * 2, "float32")
    with pytest.raises(OptionError, match=r"no reduction 'summ'; did you mean sum"):
        replay(shift(), arena, "summ")
    with pytest.raises(OptionError, match="bxor has no meaning for float32"):
        replay(shift(), arena, "bxor")
    with pytest.raises(ScheduleError, match="too small"):
        replay(shift(), Arena([[4, 3, 0]] * 2, "float32"))
    with pytest.raises(ScheduleError, match="too small"):
        replay(shift(), Arena([[4, 4, 0]], "float32"))
    with pytest.raises(ScheduleError, match="needs a rank"):
        replay(shift(), Arena([[4, 4, 0]] * 2, "float32", ranks=[1]))
    with pytest.raises(ScheduleError, match="rank 0 has no input here"):
        Arena([[4, 4, 0]] * 2, "float32", ranks=[1]).input(0)
    with pytest.raises(ScheduleError, match="cannot be held"):
        Arena([[4, 4, 0]] * 2, "float32", ranks=[1, 1])
    with pytest.raises(ScheduleError, match="no bytes of their own"):
        Arena([[4, 4, 0]] * 2, object)
    here, far = np.array([0]), np.array([10**6])
    for src, dst in ((here, far), (far, here), (here - 1, here)):
        with pytest.raises(ScheduleError, match="leaves the"):
            replay_at(arena, np.array([COPY], dtype=np.int8), src, dst, here + 1)


def test_joins_and_empty_messages_move_nothing() -> None:
    builder = ScheduleBuilder("barrier", 2, [0, 0, 0])
    sent = builder.add(0, [0, 1], [1, 0], 0, 0, 0)
    builder.join(1, [0, 1], after=sent[::-1])
    schedule = builder.build()
    assert schedule.kind.tolist()[2:] == [JOIN, JOIN]
    replay(schedule, Arena(schedule.sizes, "float64"))
    assert Arena([], "float64").flat.tolist() == []


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="speed of compiled code")
def test_589056_small_copies_take_well_under_half_a_second() -> None:
    ranks, count = 768, 3
    builder = ScheduleBuilder("all_to_all mesh", ranks, [ranks * count, ranks * count, 0])
    src, dst = (a.reshape(-1) for a in np.indices((ranks, ranks)))
    builder.add(0, src, dst, dst * count, src * count, count)
    schedule = builder.build()
    arena = Arena(schedule.sizes, "float32")
    for rank in range(ranks):
        arena.input(rank)[:] = rank
    replay(schedule, arena, ops=[0])
    start = time.perf_counter()
    replay(schedule, arena)
    assert time.perf_counter() - start < 0.5
    assert arena.output(5).tolist() == np.repeat(np.arange(ranks), count).tolist()


def test_an_arena_takes_the_memory_of_another_as_it_is():
    before = Arena([[6, 9, 5]] * 3, "float64")
    before.flat.view(np.uint8)[:] = 7
    arena = Arena([[2, 3, 4], [5, 0, 1], [1, 1, 1]], "int16", instead=before)
    assert np.shares_memory(arena.flat, before.flat)
    assert arena.input(0).view(np.uint8).any()
    arena.clear(1, 2)
    for rank in range(3):
        assert not arena.output(rank).any()
        assert not arena.scratch(rank).any()
    assert arena.input(0).view(np.uint8).any()
    larger = Arena([[1000, 0, 0]], "int16", instead=arena)
    assert not np.shares_memory(larger.flat, before.flat)
    assert not larger.flat.any()
