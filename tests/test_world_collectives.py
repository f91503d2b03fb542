"""Collective calls of ranks: they gather, each goes on when its part is done, bytes come out."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import fabric, run

from ubnet.errors import MismatchedCall
from ubnet.message import Collective
from ubnet.rank import Rank
from ubnet.schedule import INPUT, OUTPUT, REDUCE, Schedule
from ubnet.schedule_builder import ScheduleBuilder
from ubnet.timing import time_schedule


def chain(count: int, parts: list[Any], fabric: Any, endpoints: Any) -> Schedule:
    """Broadcast from rank 0 down a chain: rank 0 is done long before the last."""
    ranks = len(endpoints)
    builder = ScheduleBuilder("chain", ranks, [[count, count, 0]] * ranks)
    last = builder.add(0, 0, 0, 0, 0, count)
    for r in range(1, ranks):
        last = builder.add(r, r - 1, r, 0, 0, count, src_buf=OUTPUT, after=last)
    return builder.build()


def ring_sum(count: int, parts: list[Any], fabric: Any, endpoints: Any) -> Schedule:
    """Sum onto everybody by passing whole inputs around: step s reads the s-th neighbour."""
    ranks = len(endpoints)
    builder = ScheduleBuilder("ring_sum", ranks, [[count, count, 0]] * ranks)
    mine = np.arange(ranks)
    last = builder.add(0, mine, mine, 0, 0, count, src_buf=INPUT)
    for s in range(1, ranks):
        last = builder.add(s, (mine + s) % ranks, mine, 0, 0, count, kind=REDUCE, after=last)
    return builder.build()


def uneven(parts: list[Any], fabric: Any, endpoints: Any) -> Schedule:
    """Gather blocks whose sizes only their owners know onto everybody."""
    ranks = len(endpoints)
    counts = np.array(parts)
    start = np.concatenate([[0], np.cumsum(counts)])
    sizes = np.stack([counts, np.full(ranks, start[-1]), np.zeros(ranks, int)], axis=1)
    builder = ScheduleBuilder("uneven", ranks, sizes)
    src, dst = np.divmod(np.arange(ranks * ranks), ranks)
    kept = counts[src] > 0
    src, dst = src[kept], dst[kept]
    builder.add(0, src, dst, 0, start[src], counts[src])
    return builder.build()


def call(
    rank: Rank, op: str, maker: Any, data: np.ndarray | None, out: int, **extra: Any
) -> tuple[Any, np.ndarray]:
    output = np.full(out, -1.0)
    group = tuple(range(rank.host.size))
    agree = (("count", out),)
    collective = Collective(
        0, group, op, agree, maker, itemsize=8, input=data, output=output, **extra
    )
    return rank.start(collective), output


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 17])
@pytest.mark.parametrize("count", [0, 1, 1001])
def test_sums_come_out_and_take_the_time_of_the_schedule(ranks: int, count: int) -> None:
    maker = partial(ring_sum, count)

    def main(rank: Rank) -> tuple[np.ndarray, int]:
        data = np.arange(count) + 1000.0 * rank.number
        pending, output = call(rank, "sum", maker, data, count)
        rank.wait([pending])
        return output, rank.now_ps

    result = run(main, ranks)
    expected = ranks * np.arange(count) + 1000.0 * sum(range(ranks))
    schedule = maker([None] * ranks, None, range(ranks))
    timing = time_schedule(schedule, fabric(), np.arange(ranks), 8)
    assert [end for _, end in result.values] == timing.rank_end_ps.tolist()
    for output, _ in result.values:
        np.testing.assert_array_equal(output, expected)


def test_a_root_goes_on_before_the_last_rank_has_even_come() -> None:
    ranks, count = 4, 5

    def main(rank: Rank) -> tuple[list[float], int]:
        rank.compute([0, 0, 1e-3, 5e-3][rank.number])
        data = np.arange(count, dtype=float) if rank.number == 0 else None
        pending, output = call(rank, "bcast", partial(chain, count), data, count)
        rank.wait([pending])
        came = output.tolist()
        if data is not None:
            data[:] = 99  # the buffer is the root's again
        output[:] = 77
        return came, rank.now_ps

    values = run(main, ranks).values
    assert all(came == [0, 1, 2, 3, 4] for came, _ in values)
    ends = [end for _, end in values]
    assert ends[0] < 10**7
    assert 10**9 < ends[1] < 1.1 * 10**9
    assert ends[3] > 5 * 10**9


def test_ranks_join_what_only_they_know() -> None:
    counts = [3, 0, 5]

    def main(rank: Rank) -> list[float]:
        data = np.full(counts[rank.number], float(rank.number))
        pending, output = call(rank, "uneven", uneven, data, 8, part=counts[rank.number])
        rank.wait([pending])
        return output.tolist()

    assert run(main, 3).values == [[0, 0, 0, 2, 2, 2, 2, 2]] * 3


def test_a_reduction_of_the_users_own_gets_its_operands_in_order() -> None:
    def main(rank: Rank) -> list[float]:
        data = np.array([float(rank.number + 1)])
        maker = partial(ring_sum, 1)
        pending, output = call(
            rank, "own", maker, data, 1, reduce=lambda left, right: 10 * left + right
        )
        rank.wait([pending])
        return output.tolist()

    assert run(main, 3).values == [[123.0], [231.0], [312.0]]


def test_calls_of_one_communicator_go_by_their_order_and_progress_together() -> None:
    def main(rank: Rank) -> list[float]:
        started = [
            call(rank, "sum", partial(ring_sum, 1), np.array([float(k)]), 1) for k in range(3)
        ]
        rank.wait([pending for pending, _ in reversed(started)])
        return [float(output[0]) for _, output in started]

    assert run(main, 3).values == [[0.0, 3.0, 6.0]] * 3


@pytest.mark.parametrize(
    ("op", "count", "named"),
    [
        ("sum", 8, r"sum: rank 0 gave count 7 where rank 1 gave 8"),
        ("max", 7, "called max|called sum"),
    ],
)
def test_calls_that_do_not_match_are_named(op: str, count: int, named: str) -> None:
    def main(rank: Rank) -> None:
        mine = ("sum", 7) if rank.number != 1 else (op, count)
        pending, _ = call(rank, mine[0], partial(ring_sum, mine[1]), None, mine[1])
        rank.wait([pending])

    with pytest.raises(MismatchedCall, match=named) as caught:
        run(main, 3)
    assert caught.value.exit_status == 1


@settings(max_examples=20)
@given(late=st.lists(st.integers(0, 9000), min_size=5, max_size=5), seed=st.integers(1, 99))
def test_whoever_comes_late_and_whoever_runs_first_results_are_the_same(
    late: list[int], seed: int
) -> None:
    def main(rank: Rank) -> tuple[list[float], int]:
        rank.compute(late[rank.number] * 1e-9)
        data = np.array([1.0, rank.number])
        pending, output = call(rank, "sum", partial(ring_sum, 2), data, 2)
        rank.wait([pending])
        return output.tolist(), rank.now_ps

    plain, shuffled = run(main, 5), run(main, 5, shuffle=seed)
    assert [v[0] for v in plain.values] == [[5.0, 10.0]] * 5
    assert plain.values == shuffled.values
    assert plain.digest == shuffled.digest
    assert min(end for _, end in plain.values) >= max(late) * 1000
