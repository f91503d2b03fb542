"""Point-to-point messages between ranks: what arrives, in which order, and when."""

import numpy as np
import pytest
from worlds import fabric, run

from ubnet.errors import Truncated
from ubnet.message import ANY, Phantom
from ubnet.rank import Rank
from ubnet.transport import READ, WRITE

KIB = 1024


def bytes_of(size: int, seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(size)


@pytest.mark.parametrize("rendezvous", ["read", "write"])
@pytest.mark.parametrize("size", [0, 1, 7, 64 * KIB, 64 * KIB + 1, 300_001])
def test_bytes_arrive_unchanged(size: int, rendezvous: str) -> None:
    def main(rank: Rank) -> bytes | None:
        if rank.number == 0:
            rank.wait([rank.isend(2, 5, 0, bytes_of(size, 1))])
            return None
        if rank.number == 2:
            got = rank.irecv(0, 5, 0)
            rank.wait([got])
            assert (got.source, got.tag, got.nbytes) == (0, 5, size)
            return bytes(got.data)
        return None

    result = run(main, 3, rendezvous=rendezvous)
    assert result.values[2] == bytes_of(size, 1)


def test_a_sender_may_change_its_buffer_once_its_send_is_done() -> None:
    def main(rank: Rank) -> bytes | None:
        size = 200_000
        if rank.number == 0:
            buffer = bytearray(b"a" * size)
            rank.wait([rank.isend(17, 0, 0, buffer)])
            buffer[:] = b"b" * size
            return None
        into = bytearray(size)
        if rank.number == 17:
            rank.wait([rank.irecv(0, 0, 0, into)])
        return bytes(into[:1])

    for rendezvous in ("read", "write"):
        assert run(main, 18, rendezvous=rendezvous).values[17] == b"a"


def idle_time(src: int, dst: int, nbytes: int, op: str) -> tuple[int, int]:
    """Start-up with bytes on the idle fabric, and the switches and cables in it."""
    cost = fabric().transport("aiv").flows(fabric(), op, src, dst, nbytes)
    rates = fabric().capacity[cost.route_link] / cost.route_share
    # A message of nothing still holds its engine for the posting.
    wire = int(cost.nbytes[0]) / rates.min() * 1e12
    return int(cost.startup_ps[0]) + round(wire), int(cost.latency_ps[0])


@pytest.mark.parametrize("dst", [1, 2, 16])
@pytest.mark.parametrize("size", [0, 512, 64 * KIB])
def test_an_eager_message_takes_one_write(dst: int, size: int) -> None:
    def main(rank: Rank) -> int:
        if rank.number == 0:
            rank.wait([rank.isend(dst, 0, 0, Phantom(size))])
        elif rank.number == dst:
            rank.wait([rank.irecv(0, 0, 0)])
        return rank.now_ps

    ends = run(main, dst + 1, transport="aiv").values
    whole, latency = idle_time(0, dst, size, WRITE)
    assert ends[dst] == pytest.approx(whole, abs=1)
    assert ends[dst] - ends[0] == latency


@pytest.mark.parametrize("late_us", [0.0, 50.0])
def test_a_rendezvous_is_a_request_and_a_read_after_the_match(late_us: float) -> None:
    size = 1 << 20

    def main(rank: Rank) -> int:
        if rank.number == 0:
            rank.wait([rank.isend(16, 0, 0, Phantom(size))])
        elif rank.number == 16:
            rank.compute(late_us * 1e-6)
            rank.wait([rank.irecv(0, 0, 0)])
        return rank.now_ps

    ends = run(main, 17, transport="aiv").values
    request = idle_time(0, 16, 64, WRITE)[0]
    read = idle_time(0, 16, size, READ)[0]
    assert ends[16] == pytest.approx(max(request, late_us * 1e6) + read, abs=2)
    assert ends[0] == ends[16]


def test_messages_of_a_pair_never_overtake() -> None:
    sizes = [60_000, 0, 100_000, 1, 40_000, 0]

    def main(rank: Rank) -> list[int] | None:
        if rank.number == 0:
            rank.wait([rank.isend(16, 3, 0, Phantom(size)) for size in sizes])
            return None
        if rank.number != 16:
            return None
        got = [rank.irecv(ANY, ANY, 0) for _ in sizes]
        rank.wait(got)
        return [g.nbytes for g in got]

    assert run(main, 17).values[16] == sizes


def test_wildcards_take_the_first_to_arrive_then_the_lowest_rank() -> None:
    def main(rank: Rank) -> list[int] | None:
        if rank.number == 0:
            got = [rank.irecv(ANY, ANY, 0) for _ in range(4)]
            rank.wait(got)
            return [g.source for g in got]
        rank.wait([rank.isend(0, 0, 0, Phantom(512))])
        return None

    # 16 and 17 sit on another node; 1 shares the package with 0.
    assert run(main, 5).values[0] == [1, 2, 3, 4]
    far = [0, 16, 17, 1, 2]

    def far_main(rank: Rank) -> list[int] | None:
        return main(rank) if rank.number in far else None

    assert run(far_main, 18).values[0] == [1, 2, 16, 17]


def test_tags_and_communicators_choose_the_message() -> None:
    def main(rank: Rank) -> list[bytes] | None:
        if rank.number == 0:
            for tag, context in ((1, 0), (2, 0), (1, 9)):
                rank.isend(1, tag, context, f"{tag},{context}".encode())
            return None
        got = [rank.irecv(0, t, c) for t, c in ((1, 9), (2, 0), (1, 0))]
        rank.wait(got)
        return [bytes(g.data) for g in got]

    assert run(main, 2).values[1] == [b"1,9", b"2,0", b"1,0"]


def test_a_message_longer_than_the_buffer_is_an_error_that_names_both() -> None:
    def main(rank: Rank) -> str:
        if rank.number == 0:
            rank.wait([rank.isend(1, 4, 0, b"x" * 9)])
            return ""
        with pytest.raises(Truncated) as caught:
            rank.wait([rank.irecv(0, 4, 0, bytearray(8))])
        return str(caught.value)

    text = run(main, 2).values[1]
    assert "9 bytes from rank 0 (tag 4)" in text
    assert "8 bytes" in text


def test_a_synchronous_send_waits_for_its_receive() -> None:
    def main(rank: Rank) -> int:
        if rank.number == 0:
            rank.wait([rank.isend(2, 0, 0, b"now", "synchronous")])
        elif rank.number == 2:
            rank.compute(1e-3)
            rank.wait([rank.irecv(0, 0, 0)])
        return rank.now_ps

    assert run(main, 3).values[0] > 10**9


def test_a_buffered_send_is_done_at_once_whatever_its_size() -> None:
    def main(rank: Rank) -> object:
        if rank.number == 0:
            data = bytearray(b"a" * 200_000)
            rank.wait([rank.isend(1, 0, 0, data, "buffered")])
            data[:] = bytes(200_000)
            return rank.now_ps
        rank.compute(1e-3)
        got = rank.irecv(0, 0, 0)
        rank.wait([got])
        return bytes(got.data[:3])

    assert run(main, 2).values == [0, b"aaa"]


def test_a_rank_sends_to_itself_at_no_time() -> None:
    def main(rank: Rank) -> tuple[bytes, int]:
        got = rank.irecv(0, 0, 0)
        rank.wait([rank.isend(0, 0, 0, b"me"), got])
        return bytes(got.data), rank.now_ps

    assert run(main, 1).values == [(b"me", 0)]


def test_probes_see_a_message_and_a_matched_probe_takes_it() -> None:
    def main(rank: Rank) -> object:
        if rank.number == 0:
            rank.isend(1, 7, 0, b"first")
            rank.isend(1, 7, 0, b"second")
            return None
        seen = rank.probe(0, ANY, 0)
        taken = rank.mprobe(0, ANY, 0)
        second = rank.irecv(0, 7, 0)
        first = rank.imrecv(taken)
        rank.wait([second, first])
        assert rank.iprobe(ANY, ANY, 0) is None
        return tuple(seen), bytes(first.data), bytes(second.data)

    assert run(main, 2).values[1] == ((0, 7, 5), b"first", b"second")


def test_a_cancelled_receive_ends_and_takes_no_message() -> None:
    def main(rank: Rank) -> object:
        if rank.number == 0:
            rank.compute(1e-3)
            rank.isend(1, 0, 0, b"x")
            return None
        withdrawn = rank.irecv(0, 0, 0)
        rank.cancel(withdrawn)
        rank.wait([withdrawn])
        got = rank.irecv(0, 0, 0)
        rank.wait([got])
        return withdrawn.cancelled, bytes(got.data)

    assert run(main, 2).values[1] == (True, b"x")


@pytest.mark.parametrize("how", ["any", "some", "all"])
def test_waiting_for_any_some_or_all(how: str) -> None:
    def main(rank: Rank) -> object:
        if rank.number == 0:
            got = [rank.irecv(source, 0, 0) for source in (1, 2, 3)]
            first = rank.wait(got, how)
            rank.wait(got)
            return first
        rank.compute({1: 3e-3, 2: 1e-3, 3: 2e-3}[rank.number])
        rank.isend(0, 0, 0, b"")
        return None

    expected = [0, 1, 2] if how == "all" else [1]
    assert run(main, 4).values[0] == expected


@pytest.mark.parametrize("how", ["any", "some", "all"])
def test_waiting_for_the_same_operation_twice(how: str) -> None:
    def main(rank: Rank) -> int:
        if rank.number == 0:
            rank.compute(1e-6)
            rank.wait([rank.isend(1, 0, 0, b"late")])
        else:
            got = rank.irecv(0, 0, 0)
            ended = rank.wait([got, got], how)
            assert ended == ([0] if how == "any" else [0, 1])
        return rank.now_ps

    assert run(main, 2).values[1] > 1_000_000
