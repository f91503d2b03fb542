"""Every operation by every algorithm, run on real memory, equals what numpy says."""

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, product
from typing import Any

import numpy as np
import pytest

from ubnet.collectives import OPERATIONS, build
from ubnet.errors import MismatchedCall, OptionError, ScheduleError
from ubnet.operation import BUFFERS
from ubnet.replay import Arena, replay

RANKS = (1, 2, 3, 4, 5, 7, 8, 16, 48)
COUNTS = (0, 1, 1009)
PAD = 5
SENTINEL = 77
MODULUS = 97

EVEN = [
    pytest.param(op.name, algorithm, id=f"{op.name}-{algorithm}")
    for op in OPERATIONS.values()
    for algorithm in op.algorithms
    if op.name != "barrier" and not op.uneven
]
REDUCING = [p for p in EVEN if OPERATIONS[str(p.values[0])].reduces]
ORDERED = [p for p in REDUCING if p.values[1] not in OPERATIONS[str(p.values[0])].commutative_only]


def compose(left: Any, right: Any) -> Any:
    """Return the map x -> a x + b of `left` after which that of `right` is applied.

    Both are coded as a * MODULUS + b: an operation that is associative and not commutative.
    """
    a, b = np.divmod(left, MODULUS)
    c, d = np.divmod(right, MODULUS)
    return a * c % MODULUS * MODULUS + (b * c + d) % MODULUS


FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def roots(op: str, ranks: int) -> range:
    return range(ranks if OPERATIONS[op].rooted else 1)


def expected(op: str, inputs: list[Any], count: int, root: int, fold: Any) -> list[Any]:
    """Return every rank's output by the plain sequential rule, None = not touched."""
    ranks = len(inputs)
    if op == "send_recv":
        return [inputs[r - 1] for r in range(ranks)]
    if op in ("scan", "exscan"):
        sums = list(accumulate(inputs, fold))
        return sums if op == "scan" else [None, *sums[:-1]]
    if OPERATIONS[op].reduces:
        total = inputs[0]
        for other in inputs[1:]:
            total = fold(total, other)
        if op == "reduce_scatter":
            return [total[r * count : (r + 1) * count] for r in range(ranks)]
        return [total if op == "all_reduce" or r == root else None for r in range(ranks)]
    if op == "broadcast":
        return [inputs[root]] * ranks
    if op in ("all_gather", "gather"):
        whole = np.concatenate(inputs)
        return [whole if op == "all_gather" or r == root else None for r in range(ranks)]
    if op == "scatter":
        return [inputs[root][r * count : (r + 1) * count] for r in range(ranks)]
    return [np.concatenate([x[r * count : (r + 1) * count] for x in inputs]) for r in range(ranks)]


def run(schedule: Any, dtype: Any, fill: Callable[[int], Any], reduce: Any = "sum") -> Arena:
    """Replay on buffers that are `PAD` longer than they need be and full of sentinels."""
    arena = Arena(schedule.sizes + PAD, dtype)
    arena.flat[:] = SENTINEL
    for rank in range(schedule.ranks):
        size = schedule.sizes[rank, 0]
        arena.input(rank)[:size] = fill(rank)[:size]
    replay(schedule, arena, reduce)
    return arena


@lru_cache(maxsize=1)
def made(op: str, algorithm: str, ranks: int, count: int, root: int, chunks: int) -> Any:
    """Return a schedule; the last one serves all types of elements."""
    options = {"root": root} if OPERATIONS[op].rooted else {}
    if chunks > 1:
        options["chunks"] = chunks
    return OPERATIONS[op].algorithms[algorithm](ranks, count, **options)


@lru_cache(maxsize=4)
def numbers(ranks: int, count: int, size: int, high: int, dtype: str) -> Any:
    return np.random.default_rng(ranks + count).integers(1, high, (ranks, size)).astype(dtype)


def check(
    op: str, algorithm: str, ranks: int, count: int, root: int, chunks: int, dtype: str, reduce: Any
) -> None:
    schedule = made(op, algorithm, ranks, count, root, chunks)
    size = int(schedule.sizes[:, 0].max())
    given = numbers(ranks, count, size, 3 if reduce == "prod" else 90, dtype)
    arena = run(schedule, dtype, lambda rank: given[rank], reduce)
    fold = FOLDS.get(reduce, reduce)
    wanted = expected(op, list(given), count, root, fold)
    # All that may be there afterwards: whatever else is touched, the sentinels between, differs.
    right = Arena(schedule.sizes + PAD, dtype)
    right.flat[:] = SENTINEL
    for rank, (sent, received, room) in enumerate(schedule.sizes.tolist()):
        right.input(rank)[:sent] = given[rank][:sent]
        if wanted[rank] is not None:
            assert received == len(wanted[rank])
            right.output(rank)[:received] = wanted[rank]
        right.scratch(rank)[:room] = arena.scratch(rank)[:room]
    octets, expected_octets = arena.flat.view("u1"), right.flat.view("u1")
    if not np.array_equal(octets, expected_octets):
        place = int(np.flatnonzero(octets != expected_octets)[0]) // arena.dtype.itemsize
        rank, buf = divmod(int(np.searchsorted(arena.start.reshape(-1), place, "right")) - 1, 3)
        where = f"{op} {algorithm} n={ranks} count={count} root={root} chunks={chunks}"
        raise AssertionError(f"{where}: rank {rank} {BUFFERS[buf]}")


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("op", "algorithm"), EVEN)
def test_equals_numpy(op: str, algorithm: str, ranks: int) -> None:
    for count in COUNTS:
        for root in roots(op, ranks):
            for chunks in (1, 3) if algorithm in OPERATIONS[op].chunked else (1,):
                for dtype in ("int64", "float32"):
                    check(op, algorithm, ranks, count, root, chunks, dtype, "sum")


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("reduce", ["prod", "max", "min"])
@pytest.mark.parametrize(("op", "algorithm"), REDUCING)
def test_other_reductions(op: str, algorithm: str, reduce: str, ranks: int) -> None:
    for root in {0, ranks // 2, ranks - 1} if OPERATIONS[op].rooted else {0}:
        check(op, algorithm, ranks, 101, root, 1, "int64", reduce)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [384, 768])
@pytest.mark.parametrize(("op", "algorithm"), EVEN)
def test_many_ranks_equal_numpy(op: str, algorithm: str, ranks: int) -> None:
    root = ranks // 3 if OPERATIONS[op].rooted else 0
    for count in (1, 13) if OPERATIONS[op].blocks else (13, 1009):
        check(op, algorithm, ranks, count, root, 1, "int64", "sum")


@pytest.mark.parametrize(("op", "algorithm"), EVEN)
def test_a_large_count_equals_numpy(op: str, algorithm: str) -> None:
    check(op, algorithm, 5, 300_007, 0, 1, "int32", "sum")


PAIR = np.dtype([("value", "f4"), ("index", "i4")])


@pytest.mark.parametrize(("reduce", "best"), [("maxloc", max), ("minloc", min)])
@pytest.mark.parametrize("algorithm", OPERATIONS["all_reduce"].algorithms)
def test_the_place_of_an_extreme(algorithm: str, reduce: str, best: Any) -> None:
    """Of equal values the lowest index counts, whoever has it."""
    ranks, count = 6, 13
    values = np.random.default_rng(4).integers(0, 4, (ranks, count))
    given = np.zeros((ranks, count), PAIR)
    given["value"], given["index"] = values, np.arange(ranks)[:, None]
    schedule = build("all_reduce", ranks, count, algorithm=algorithm)
    arena = Arena(schedule.sizes, PAIR)
    for rank in range(ranks):
        arena.input(rank)[:] = given[rank]
    replay(schedule, arena, reduce)
    extreme = [best(column) for column in values.T.tolist()]
    first = [column.index(e) for column, e in zip(values.T.tolist(), extreme, strict=True)]
    for rank in range(ranks):
        assert arena.output(rank)["value"].tolist() == extreme
        assert arena.output(rank)["index"].tolist() == first


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter", "reduce", "all_gather", "scan"])
def test_small_floats(op: str, dtype: str) -> None:
    """Sums of few ones and twos are exact in eight bits."""
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype))
    for algorithm in OPERATIONS[op].algorithms:
        schedule = build(op, 3, 7, algorithm=algorithm)
        whole, small = Arena(schedule.sizes, "float32"), Arena(schedule.sizes, kind)
        for rank in range(3):
            size = len(whole.input(rank))
            whole.input(rank)[:] = np.random.default_rng(rank).integers(1, 3, size)
            small.input(rank)[:] = whole.input(rank).astype(kind)
        for arena in (whole, small):
            replay(schedule, arena)
        for rank in range(3):
            result = small.output(rank).astype(np.float32)
            assert result.tolist() == whole.output(rank).tolist()


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 8, 48])
@pytest.mark.parametrize(("op", "algorithm"), ORDERED)
def test_rank_order_of_a_non_commutative_operation(op: str, algorithm: str, ranks: int) -> None:
    for root in roots(op, ranks):
        check(op, algorithm, ranks, 11, root, 1, "int64", compose)


@pytest.mark.parametrize("algorithm", OPERATIONS["all_reduce"].algorithms)
def test_all_reduce_is_the_same_to_the_bit_on_all_ranks(algorithm: str) -> None:
    schedule = build("all_reduce", 7, 1001, algorithm=algorithm)
    rng = np.random.default_rng(5)
    arena = run(schedule, "float32", lambda rank: rng.normal(size=1001).astype("float32"))
    first = arena.output(0).tobytes()
    assert all(arena.output(rank).tobytes() == first for rank in range(7))


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 8])
@pytest.mark.parametrize("op", OPERATIONS.values(), ids=lambda op: op.name)
def test_every_order_that_the_dependencies_allow_is_safe(op: Any, ranks: int) -> None:
    for name in op.algorithms:
        for root in range(ranks) if op.rooted else (0,):
            for count in (0, 1, 11):
                for chunks in (1, 3) if name in op.chunked else (1,):
                    parts = parts_of(op, ranks, count)
                    build(
                        op.name, ranks, count, algorithm=name, root=root, chunks=chunks, parts=parts
                    ).validate()


@pytest.mark.parametrize("op", OPERATIONS.values(), ids=lambda op: op.name)
def test_an_operation_waits_only_for_what_its_ranks_can_know(op: Any) -> None:
    for name in op.algorithms:
        parts = parts_of(op, 7, 11)
        s = build(op.name, 7, 23, algorithm=name, parts=parts)
        later = np.repeat(np.arange(len(s)), np.diff(s.dep_ptr))
        ends = [(a[later], b[s.dep]) for a in (s.src, s.dst) for b in (s.src, s.dst)]
        assert np.logical_or.reduce([mine == theirs for mine, theirs in ends]).all(), name


@pytest.mark.parametrize("algorithm", OPERATIONS["barrier"].algorithms)
@pytest.mark.parametrize("ranks", RANKS)
def test_barrier_lets_nobody_go_before_all_have_come(algorithm: str, ranks: int) -> None:
    schedule = build("barrier", ranks, algorithm=algorithm)
    # What each operation knows: who had come when it was sent.
    known = [{int(src)} for src in schedule.src]
    for i in range(len(schedule)):
        for dep in schedule.dep[schedule.dep_ptr[i] : schedule.dep_ptr[i + 1]]:
            known[i] |= known[dep]
    heard = [{rank} for rank in range(ranks)]
    for i, dst in enumerate(schedule.dst):
        heard[dst] |= known[i]
    assert heard == [set(range(ranks))] * ranks


def parts_of(op: Any, ranks: int, count: int) -> list[Any] | None:
    """Return the parts that an uneven operation wants."""
    if op.uneven == "ranks":
        return np.random.default_rng(ranks).integers(0, count + 1, ranks).tolist()
    return uneven_parts(ranks, count) if op.uneven else None


def uneven_parts(ranks: int, count: int) -> list[Any]:
    """Return parts of random size, some of them empty, with gaps and in no order."""
    rng = np.random.default_rng(ranks * 1000 + count)
    sent = rng.integers(0, count + 1, (ranks, ranks)) * rng.integers(0, 2, (ranks, ranks))

    def places(sizes: Any) -> Any:
        order = rng.permutation(ranks)
        ends = np.cumsum(sizes[order] + 2)
        start = np.empty(ranks, dtype=np.int64)
        start[order] = ends - sizes[order]
        return start

    return [(sent[r], places(sent[r]), sent[:, r].copy(), places(sent[:, r])) for r in range(ranks)]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", OPERATIONS["all_to_all_v"].algorithms)
def test_all_to_all_v_equals_numpy(algorithm: str, ranks: int) -> None:
    for count in COUNTS:
        parts = uneven_parts(ranks, count)
        schedule = build("all_to_all_v", ranks, algorithm=algorithm, parts=parts)
        rng = np.random.default_rng(1)
        size = int(schedule.sizes[:, 0].max())
        given = rng.integers(100, 1000, (ranks, size))
        arena = run(schedule, "int64", lambda rank, given=given: given[rank])  # type: ignore[misc]
        for rank, (_, _, received, at) in enumerate(parts):
            wanted = np.full(len(arena.output(rank)), SENTINEL)
            for peer in range(ranks):
                start, length = parts[peer][1][rank], received[peer]
                wanted[at[peer] : at[peer] + length] = given[peer][start : start + length]
            assert (arena.output(rank) == wanted).all()


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("op", ["all_gather_v", "reduce_scatter_v", "gather_v", "scatter_v"])
def test_uneven_blocks_equal_numpy(op: str, ranks: int) -> None:
    known = OPERATIONS[op]
    for algorithm, count in product(known.algorithms, (0, 1, 101)):
        counts = parts_of(known, ranks, count)
        assert counts is not None
        ends = np.cumsum(counts)
        for root in {0, ranks - 1} if known.rooted else {0}:
            s = build(op, ranks, algorithm=algorithm, root=root, parts=counts)
            given = np.random.default_rng(3).integers(1, 90, (ranks, int(s.sizes[:, 0].max())))
            arena = run(s, "int64", lambda rank, given=given: given[rank])  # type: ignore[misc]
            whole = np.concatenate([given[r][: counts[r]] for r in range(ranks)])
            source = given.sum(axis=0) if op == "reduce_scatter_v" else given[root]
            for rank in range(ranks):
                right = whole if op in ("all_gather_v", "gather_v") else source
                if op in ("reduce_scatter_v", "scatter_v"):
                    right = right[ends[rank] - counts[rank] : ends[rank]]
                if op == "gather_v" and rank != root:
                    right = whole[:0]
                output = arena.output(rank)
                assert (output[: len(right)] == right).all(), f"{op} {algorithm} {counts} {root}"
                assert (output[len(right) :] == SENTINEL).all()


def test_all_to_all_v_names_the_ranks_that_disagree() -> None:
    parts = uneven_parts(4, 9)
    parts[2][2][3] = parts[3][0][2] + 4
    with pytest.raises(MismatchedCall, match=r"rank 3 sends \d+ elements to rank 2"):
        build("all_to_all_v", 4, parts=parts)


def test_what_is_refused() -> None:
    with pytest.raises(OptionError, match=r"allreduce2.*all_reduce"):
        build("allreduce2", 4, 1)
    with pytest.raises(ScheduleError, match=r"all_reduce has no algorithm 'rings'.*ring"):
        build("all_reduce", 4, 1, algorithm="rings")
    with pytest.raises(ScheduleError, match=r"not commutative needs; use mesh, recursive_doubling"):
        build("all_reduce", 4, 1, algorithm="ring", commutative=False)
    with pytest.raises(OptionError, match="root 4: give a rank from 0 to 3"):
        build("broadcast", 4, 1, root=4)
    with pytest.raises(OptionError, match="0 ranks"):
        build("barrier", 0)
    with pytest.raises(OptionError, match="-1 elements"):
        build("all_gather", 2, -1)
    with pytest.raises(OptionError, match=r"mesh sends no chunks.*algorithm='ring'"):
        build("all_gather", 2, 1, algorithm="mesh", chunks=2)
    with pytest.raises(OptionError, match="needs parts"):
        build("all_to_all_v", 2)
    with pytest.raises(OptionError, match="sendcounts of rank 1"):
        build("all_to_all_v", 2, parts=[([1, 1], [0, 1], [1, 1], [0, 1]), ([1], [0], [1], [0])])


@pytest.mark.parametrize("op", OPERATIONS.values(), ids=lambda op: op.name)
def test_figures_of_merit(op: Any) -> None:
    count = op.count_of(1 << 20, 768, 4)
    assert op.size_of(count, 768, 4) <= 1 << 20 < op.size_of(count + 1, 768, 4)
    assert op.count_of(0, 768, 4) == 0
    assert 0 < op.busbw_factor(2) <= op.busbw_factor(768) < 2 or op.busbw == "1"
