"""Order and ends of a world: polling, deadlocks, failures, and the order in which ranks run."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import run

from ubnet.errors import Deadlock, OptionError, RankFailed, UbnetError
from ubnet.message import ANY, Phantom
from ubnet.pollers import PATIENCE_PS
from ubnet.rank import Rank, current


def test_a_poll_loop_lets_time_pass_and_the_others_run() -> None:
    def main(rank: Rank) -> int:
        if rank.number == 1:
            rank.compute(1e-3)
            rank.isend(0, 0, 0, b"late")
            return 0
        asked = 0
        got = rank.irecv(1, 0, 0)
        while rank.test([got]) is None:
            asked += 1
        return asked

    # 0.1 us doubling to 100 us: ten steps to the cap, then ten to the millisecond.
    assert 15 <= run(main, 2).values[0] <= 25


def test_a_rank_that_asks_for_messages_wakes_when_one_arrives() -> None:
    def main(rank: Rank) -> object:
        if rank.number == 1:
            rank.compute(0.95e-3)
            rank.isend(0, 3, 0, b"x" * 9)
            return rank.now_ps
        while (seen := rank.iprobe(ANY, ANY, 0)) is None:
            pass
        return seen.nbytes, rank.now_ps

    (nbytes, when), sent = run(main, 2).values
    assert nbytes == 9
    assert sent < when < sent + 10**6


def test_an_exchange_of_values_between_two_questions_is_no_success() -> None:
    def main(rank: Rank) -> list[int]:
        never, times = rank.irecv(1 - rank.number, 0, 0), []
        for _ in range(3):
            assert rank.test([never]) is None
            rank.exchange(0, (0, 1), rank.number)
            times.append(rank.now_ps)
        return times

    assert run(main, 2).values == [[100_000, 300_000, 700_000]] * 2


def test_asking_for_the_time_again_and_again_lets_it_pass() -> None:
    def main(rank: Rank) -> int:
        asked = 0
        while rank.wtime() < 1.0:
            asked += 1
        return asked

    assert run(main, 1).values[0] < 60


def test_computing_takes_the_time_it_says() -> None:
    def main(rank: Rank) -> int:
        rank.compute(rank.number * 1e-6)
        return rank.now_ps

    assert run(main, 3).values == [0, 10**6, 2 * 10**6]
    with pytest.raises(RankFailed, match=r"0 seconds or more.*not -1"):
        run(lambda rank: rank.compute(-1), 1)
    with pytest.raises(RankFailed, match="1,000,000 at the most"):
        run(lambda rank: rank.compute(1e7), 1)


def test_a_deadlock_names_every_rank_its_call_and_its_line() -> None:
    def main(rank: Rank) -> None:
        if rank.number == 2:
            return
        rank.host.labels[0] = "MPI_COMM_WORLD"
        rank.wait([rank.irecv(1 - rank.number, 7, 0)])

    started = time.perf_counter()
    with pytest.raises(Deadlock) as caught:
        run(main, 3)
    assert time.perf_counter() - started < 2
    text = str(caught.value)
    for number in (0, 1):
        wanted = f"rank {number}: recv from rank {1 - number}, tag 7, on MPI_COMM_WORLD at "
        assert wanted in text
    assert "test_world_order.py:" in text
    assert "rank 2: has finished" in text
    assert caught.value.exit_status == 1


@pytest.mark.parametrize("ask", ["test", "iprobe"])
def test_a_world_in_which_everybody_only_asks_is_found_out(ask: str) -> None:
    def main(rank: Rank) -> None:
        got = rank.irecv(1 - rank.number, 7, 0)
        while True:
            if ask == "test":
                rank.test([got])
            else:
                rank.iprobe(ANY, ANY, 0)

    with pytest.raises(Deadlock) as caught:
        run(main, 2)
    after = float(str(caught.value).split("deadlock after ")[1].split(" us")[0])
    assert PATIENCE_PS <= after * 1e6 <= 4 * PATIENCE_PS


def test_unreceived_messages_and_unfinished_requests_do_not_keep_a_world() -> None:
    def main(rank: Rank) -> None:
        rank.isend(1 - rank.number, 0, 0, Phantom(100))
        rank.irecv(1 - rank.number, 99, 0)

    assert run(main, 2).values == [None, None]


def test_a_rank_that_raises_ends_the_world_with_its_traceback() -> None:
    def main(rank: Rank) -> None:
        if rank.number == 1:
            raise ValueError("no such expert")
        rank.wait([rank.irecv(1, 0, 0)])

    with pytest.raises(RankFailed, match="rank 1 failed") as caught:
        run(main, 2)
    assert "ValueError: no such expert" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_rank_leaves_with_its_own_status() -> None:
    def main(rank: Rank) -> None:
        if rank.number == 1:
            raise SystemExit(3)
        rank.wait([rank.irecv(1, 0, 0)])

    with pytest.raises(SystemExit) as caught:
        run(main, 2)
    assert caught.value.code == 3


def test_calls_outside_of_a_rank_say_so() -> None:
    with pytest.raises(UbnetError, match="no rank runs here"):
        current()


@pytest.mark.parametrize("ranks", [0, -1, 129])
def test_a_number_of_ranks_that_does_not_fit_is_refused(ranks: int) -> None:
    with pytest.raises(OptionError, match="1 to 128"):
        run(lambda rank: None, ranks)


def test_values_exchanged_are_copies_and_take_no_time() -> None:
    def main(rank: Rank) -> object:
        rank.compute(rank.number * 1e-6)
        mine = [rank.number]
        got = rank.exchange(0, (0, 1, 2), mine)
        mine.append(99)
        return got, rank.now_ps

    assert run(main, 3).values == [([[0], [1], [2]], 2 * 10**6)] * 3


calls = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 70_000)), max_size=12
)


@settings(max_examples=25)
@given(calls=calls, seed=st.integers(1, 1000))
def test_the_order_in_which_ranks_run_changes_nothing(
    calls: list[tuple[int, int, int]], seed: int
) -> None:
    def main(rank: Rank) -> object:
        mine = [rank.isend(dst, src, 0, Phantom(n)) for src, dst, n in calls if src == rank.number]
        got = [rank.irecv(ANY, ANY, 0) for _, dst, _ in calls if dst == rank.number]
        while rank.test(got, "all") is None:
            pass
        rank.wait(mine)
        return [(g.source, g.nbytes) for g in got], rank.now_ps

    plain, shuffled = run(main, 4), run(main, 4, shuffle=seed)
    assert plain.values == shuffled.values
    assert plain.digest == shuffled.digest
