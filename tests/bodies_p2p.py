"""What every rank does in the tests of messages: the same in one process and under mpirun.

Each body checks what it received by itself, and works on any number of ranks.
"""

import numpy as np
import pytest

from ubnet import mpi as MPI

BIG = 300_000  # bytes: above the eager bound


def ring(comm):
    """Objects around a ring, by every pair of send and receive."""
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    request = comm.isend({"from": rank}, right, tag=1)
    assert comm.recv(source=left, tag=1) == {"from": left}
    request.wait()
    pending = comm.irecv(source=left, tag=2)
    comm.ssend(rank * "x", right, tag=2)
    assert pending.wait() == left * "x"
    assert comm.sendrecv(rank, right, 3, source=left, recvtag=3) == left
    comm.bsend([rank], right, tag=4)
    status = MPI.Status()
    assert comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status) == [left]
    assert (status.source, status.tag, status.error) == (left, 4, MPI.SUCCESS)


def buffers(comm):
    """Arrays around a ring, small and large, in all forms of a message."""
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 7, BIG // 8):
        sent, received = np.full(count, rank + 0.5), np.zeros(count)
        comm.Sendrecv(sent, right, 5, received, left, 5)
        assert (received == left + 0.5).all()
        request = comm.Isend([sent, MPI.DOUBLE], right, 6)
        received[:] = 0
        status = MPI.Status()
        comm.Recv([received, count, "d"], left, 6, status)
        request.Wait()
        assert (received == left + 0.5).all()
        assert (status.Get_count(MPI.DOUBLE), status.count) == (count, 8 * count)
    whole = np.arange(10, dtype="i4") + 100 * rank
    comm.Sendrecv_replace([whole, (3, 2), MPI.INT], right, 7, left, 7)
    expected = np.arange(10) + 100 * rank
    expected[2:5] = np.arange(2, 5) + 100 * left
    assert (whole == expected).all()


def modes(comm):
    """Every mode of sending, started and persistent."""
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    for number, start in enumerate((comm.Isend, comm.Ibsend, comm.Issend)):
        got = np.zeros(3, dtype="i8")
        receive = comm.Irecv(got, left, number)
        send = start(np.array([rank, number, 9]), right, number)
        MPI.Request.Waitall([send, receive])
        assert got.tolist() == [left, number, 9]
        assert not send
        assert receive == MPI.REQUEST_NULL
    got, sent = np.zeros(2), np.zeros(2)
    receive, send = comm.Recv_init(got, left, 20), comm.Send_init(sent, right, 20)
    for turn in range(3):
        sent[:] = rank, turn
        MPI.Prequest.Startall([receive, send])
        MPI.Request.Waitall([send, receive])
        assert got.tolist() == [left, turn]
    receive.Free(), send.Free()


def order_of_a_pair(comm):
    """A short message never overtakes a long one of the same pair."""
    size = comm.size
    if size == 1:
        return
    if comm.rank == 0:
        requests = []
        for number in range(6):
            length = BIG if number % 2 == 0 else 1
            requests.append(comm.Isend(np.full(length, number, dtype="u1"), 1, tag=3))
        MPI.Request.Waitall(requests)
    elif comm.rank == 1:
        for number in range(6):
            got = np.zeros(BIG, dtype="u1")
            status = MPI.Status()
            comm.Recv(got, 0, MPI.ANY_TAG, status)
            assert got[0] == number
            assert status.count == (BIG if number % 2 == 0 else 1)


def wildcards(comm):
    """Rank 0 takes from anybody: what arrives first, in an order that never changes."""
    if comm.rank == 0:
        seen = []
        for _ in range(3 * (comm.size - 1)):
            status = MPI.Status()
            value = comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
            assert value == (status.source, status.tag)
            seen.append(value)
        assert sorted(seen) == [(r, t) for r in range(1, comm.size) for t in range(3)]
        for rank in range(1, comm.size):
            assert [t for r, t in seen if r == rank] == [0, 1, 2]
        return seen
    for tag in range(3):
        comm.send((comm.rank, tag), 0, tag)
    return None


def polling(comm):
    """Loops of Test and Iprobe end, and virtual time passes in them."""
    if comm.size == 1:
        return
    if comm.rank == 0:
        began = MPI.Wtime()
        request = comm.irecv(source=1, tag=8)
        looks = 0
        while True:
            over, value = request.test()
            looks += 1
            if over:
                break
        assert value == "late"
        assert looks > 1
        assert MPI.Wtime() > began
        while not comm.iprobe(source=1, tag=9):
            pass
        assert comm.recv(source=1, tag=9) == "later"
    elif comm.rank == 1:
        while MPI.Wtime() < 50e-6:
            pass
        comm.send("late", 0, tag=8)
        while MPI.Wtime() < 90e-6:
            pass
        comm.send("later", 0, tag=9)


def waits(comm):
    """The families of Wait and Test, on null requests as well."""
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    receives = [comm.irecv(source=left, tag=t) for t in range(4)]
    sends = [comm.isend(t * 10 + rank, right, tag=t) for t in range(4)]
    place, value = MPI.Request.waitany([MPI.REQUEST_NULL, receives[2]])
    assert (place, value) == (1, 20 + left)
    statuses = []
    places, values = MPI.Request.waitsome(receives, statuses)
    assert set(places) <= {0, 1, 3}
    assert [10 * place + left for place in places] == values
    assert [status.tag for status in statuses[: len(places)]] == places
    while not MPI.Request.Testall(receives + sends):
        pass
    assert receives[0] == MPI.REQUEST_NULL
    assert MPI.Request.Waitany(receives) == MPI.UNDEFINED
    assert MPI.Request.Testany(receives) == (MPI.UNDEFINED, True)
    assert MPI.Request.Waitsome(receives) is None
    assert MPI.Request.Testsome([]) is None
    assert MPI.Request.Testall(receives)
    more = [comm.isend("a", right, 30), comm.irecv(source=left, tag=30)]
    assert MPI.Request.waitall(more) == [None, "a"]
    pending, send = comm.irecv(source=left, tag=31), comm.isend(5, right, 31)
    while True:
        place, over, value = MPI.Request.testany([pending])
        if over:
            break
    assert (place, value) == (0, 5)
    send.wait()


def look_first(comm):
    """Probes of all kinds, and receives of what a matched probe took."""
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    requests = [comm.Isend(np.arange(t + 1, dtype="i4"), right, t) for t in range(4)]
    status = MPI.Status()
    assert comm.Probe(left, MPI.ANY_TAG, status)
    assert (status.source, status.tag, status.Get_count(MPI.INT)) == (left, 0, 1)
    taken = comm.Mprobe(left, 2, status)
    assert status.Get_count(MPI.INT) == 3
    while not comm.Iprobe(left, 3):
        pass
    got = np.zeros(4, dtype="i4")
    for tag in (0, 1, 3):
        comm.Recv(got, left, MPI.ANY_TAG, status)
        assert (status.tag, status.Get_count(MPI.INT)) == (tag, tag + 1)
    taken.Recv([got, 3, MPI.INT])
    assert got[:3].tolist() == [0, 1, 2]
    assert taken == MPI.MESSAGE_NULL
    assert comm.Improbe(left, 77) is None
    MPI.Request.Waitall(requests)
    send = comm.isend("object", right, 9)
    message = comm.mprobe(left, 9)
    assert message.irecv().wait() == "object"
    send.wait()


def nobody(comm):
    """PROC_NULL sends nothing and answers at once."""
    status = MPI.Status()
    comm.Send(None, MPI.PROC_NULL)
    comm.Recv(None, MPI.PROC_NULL, MPI.ANY_TAG, status)
    assert (status.source, status.tag, status.count) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    assert comm.recv(source=MPI.PROC_NULL) is None
    comm.send("x", dest=MPI.PROC_NULL)
    assert comm.Iprobe(MPI.PROC_NULL, status=status)
    assert comm.Mprobe(MPI.PROC_NULL) == MPI.MESSAGE_NO_PROC
    comm.Isend(None, MPI.PROC_NULL).Wait()
    request = comm.irecv(source=MPI.PROC_NULL)
    assert request.wait(status) is None
    assert status.source == MPI.PROC_NULL
    # a chain: the ends talk to nobody
    up = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    down = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    assert comm.sendrecv(comm.rank, up, source=down) == (comm.rank - 1 if comm.rank else None)


def cancelling(comm):
    """A receive that nobody meets can be withdrawn; one that is met cannot."""
    request = comm.irecv(source=comm.rank, tag=40)
    request.cancel()
    status = MPI.Status()
    assert request.wait(status) is None
    assert status.Is_cancelled()
    request = comm.irecv(source=comm.rank, tag=41)
    comm.isend("met", comm.rank, 41).wait()
    comm.isend("after", comm.rank, 42).wait()
    assert comm.recv(source=comm.rank, tag=42) == "after"  # what was sent before is there, too
    request.Cancel()
    assert request.wait(status) == "met"
    assert not status.Is_cancelled()


def copies(comm):
    """Nobody sees what others change later, in whatever process they are."""
    if comm.size == 1:
        return
    if comm.rank == 0:
        value = [1, 2, 3]
        requests = [comm.isend(value, 1)]
        value.append(4)
        array = np.zeros(4)
        comm.Send(array, 1, 1)
        array[:] = 7
        large = np.zeros(BIG, dtype="u1")
        request = comm.Isend(large, 1, 2)
        MPI.Request.Waitall([*requests, request])
        large[:] = 9
        comm.Send(large, 1, 3)
    elif comm.rank == 1:
        assert comm.recv(source=0) == [1, 2, 3]
        array = np.ones(4)
        comm.Recv(array, 0, 1)
        assert (array == 0).all()
        large = np.ones(BIG, dtype="u1")
        comm.Recv(large, 0, 2)
        assert (large == 0).all()
        comm.Recv(large, 0, 3)
        assert (large == 9).all()


def too_long(comm):
    """A message that does not fit is an error at the receiver, and the next one arrives."""
    if comm.size == 1:
        return
    if comm.rank == 0:
        comm.Send(np.arange(8.0), 1, 0)
        comm.Send(np.arange(BIG, dtype="u1"), 1, 1)
        comm.Send(np.arange(2.0), 1, 2)
    elif comm.rank == 1:
        small = np.zeros(2)
        for tag in (0, 1):
            with pytest.raises(MPI.Exception, match="MPI_ERR_TRUNCATE") as caught:
                comm.Recv(small, 0, tag)
            assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
        comm.Recv(small, 0, 2)
        assert small.tolist() == [0, 1]


def communicators(comm):
    """Messages of one communicator are not seen in another."""
    other = comm.Dup()
    assert other.Compare(comm) == MPI.CONGRUENT
    assert comm.Compare(comm) == MPI.IDENT
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    one, two = comm.isend("one", right), other.isend("two", right)
    assert other.recv(source=left) == "two"
    assert comm.recv(source=left) == "one"
    MPI.Request.Waitall([one, two])
    half = comm.Split(color=comm.rank % 2, key=-comm.rank)
    expected = [r for r in range(comm.size) if r % 2 == comm.rank % 2][::-1]
    assert half.allgather(comm.rank) == expected
    assert half.Get_group().Translate_ranks() == expected
    quarter = half.Dup()
    assert quarter.allgather(half.rank) == list(range(half.size))
    none = comm.Split(MPI.UNDEFINED if comm.rank else 0)
    assert (none == MPI.COMM_NULL) == (comm.rank > 0)
    first = comm.Create(comm.Get_group().Incl([0]))
    assert (first == MPI.COMM_NULL) == (comm.rank > 0)
    odd = comm.Get_group().Excl(list(range(0, comm.size, 2)))
    if comm.rank % 2:
        mine = comm.Create_group(odd)
        assert mine.allreduce(1) == mine.size == odd.size
        mine.Free()
        assert mine == MPI.COMM_NULL
    assert MPI.COMM_SELF.allgather(comm.rank) == [comm.rank]


BODIES = {
    body.__name__: body
    for body in (
        ring,
        buffers,
        modes,
        order_of_a_pair,
        wildcards,
        polling,
        waits,
        look_first,
        nobody,
        cancelling,
        copies,
        too_long,
        communicators,
    )
}
