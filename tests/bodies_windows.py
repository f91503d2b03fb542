"""What every rank does in the tests of windows: the same in one process and under mpirun.

Each body checks what it sees by itself, and works on any number of ranks.
"""

import numpy as np
import pytest

from ubnet import mpi as MPI


def fences(comm):
    """Every rank writes to its neighbour, adds to rank 0, and reads what came of it."""
    rank, size = comm.rank, comm.size
    memory = np.zeros(8)
    win = MPI.Win.Create(memory, memory.itemsize, comm=comm)
    right, left = (rank + 1) % size, (rank - 1) % size
    win.Fence()
    win.Put(np.array([rank + 1.0, 7.0]), right, 2)
    win.Accumulate(np.array([rank, 1.0]), 0, 6)
    win.Fence()
    assert memory[2:4].tolist() == [left + 1.0, 7.0]
    seen = np.zeros(2)
    win.Get(seen, 0, 6)
    win.Fence(MPI.MODE_NOSUCCEED)
    assert seen.tolist() == [size * (size - 1) / 2, size]
    with pytest.raises(MPI.Exception) as caught:
        win.Put(memory, right)
    assert caught.value.Get_error_class() == MPI.ERR_RMA_SYNC
    win.Free()
    assert win == MPI.WIN_NULL


def counter(comm):
    """A counter at the last rank: everybody gets numbers that nobody else gets."""
    win = MPI.Win.Allocate(8 if comm.rank == comm.size - 1 else 0, 8, comm=comm)
    host, one, got = comm.size - 1, np.ones(1, "i8"), np.zeros(1, "i8")
    mine = []
    for _ in range(3):
        win.Lock(host, MPI.LOCK_SHARED)
        win.Fetch_and_op(one, got, host)
        win.Unlock(host)
        mine.append(int(got[0]))
    numbers = sorted(number for part in comm.allgather(mine) for number in part)
    assert numbers == list(range(3 * comm.size))
    win.Free()


def exclusive(comm):
    """Reading, adding and writing under an exclusive lock loses nothing."""
    win = MPI.Win.Allocate(8 if comm.rank == 0 else 0, 8, comm=comm)
    value = np.zeros(1, "i8")
    for _ in range(2):
        win.Lock(0)
        win.Get(value, 0)
        win.Flush(0)
        value += 1
        win.Put(value, 0)
        win.Unlock(0)
    comm.Barrier()
    if comm.rank == 0:
        assert int(np.frombuffer(win.tomemory(), "i8")[0]) == 2 * comm.size
    win.Free()


def spin_lock(comm):
    """A lock of the program's own, by compare and swap, under a lock of everybody."""
    win = MPI.Win.Allocate(16 if comm.rank == 0 else 0, 8, comm=comm)
    free, taken, seen = np.zeros(1, "i8"), np.ones(1, "i8"), np.ones(1, "i8")
    win.Lock_all()
    seen[0] = 1
    while seen[0]:
        win.Compare_and_swap(taken, free, seen, 0)
        win.Flush(0)
    value = np.zeros(1, "i8")
    win.Get(value, 0, 1)
    win.Flush(0)
    value += 1
    win.Put(value, 0, 1)
    win.Flush(0)
    win.Compare_and_swap(free, taken, seen, 0)
    win.Unlock_all()
    comm.Barrier()
    if comm.rank == 0:
        assert np.frombuffer(win.tomemory(), "i8").tolist() == [0, comm.size]
    win.Free()


def post_and_start(comm):
    """Even ranks write to the odd one above them, which lets them in and waits."""
    rank, size = comm.rank, comm.size
    big = 100_000
    win = MPI.Win.Allocate(big * 4, 4, comm=comm)
    if rank % 2 == 0 and rank + 1 < size:
        win.Start(comm.group.Incl([rank + 1]))
        win.Put(np.arange(rank, rank + big, dtype="i4"), rank + 1)
        win.Complete()
    if rank % 2:
        win.Post(comm.group.Incl([rank - 1]))
        while not win.Test():
            pass
        held = np.frombuffer(win.tomemory(), "i4")
        assert (held == np.arange(rank - 1, rank - 1 + big)).all()
    win.Free()


def requests(comm):
    """Accesses with requests, and fetches of many elements."""
    rank, size = comm.rank, comm.size
    win = MPI.Win.Allocate(80, 8, comm=comm)
    win.Lock_all()
    right = (rank + 1) % size
    MPI.Request.Waitall([win.Rput(np.full(5, rank + 0.5), right), MPI.REQUEST_NULL])
    win.Flush_local(right)
    win.Flush_all()
    before = np.zeros(5)
    win.Rget_accumulate(np.full(5, 2.0), before, right, op=MPI.PROD).Wait()
    assert (before == rank + 0.5).all()
    win.Raccumulate(np.full(5, 1.0), right, op=MPI.SUM).wait()
    win.Flush(right)
    after = np.zeros(5)
    win.Rget(after, right).Wait()
    assert (after == 2 * rank + 2.0).all()
    win.Get_accumulate(after, before, right, [5, 5, MPI.DOUBLE], op=MPI.NO_OP)
    win.Unlock_all()
    assert (before == 0).all()
    win.Free()


def order_of_atomics(comm):
    """Atomics of one origin take effect in their order, though a small one arrives first."""
    memory = np.zeros(300_000 if comm.rank == 0 else 0)
    win = MPI.Win.Create(memory, 8, comm=comm)
    if comm.rank == comm.size - 1:
        win.Lock(0)
        win.Accumulate(np.full(300_000, 1.0), 0)
        win.Accumulate(np.full(1, 5.0), 0, op=MPI.REPLACE)
        seen = np.zeros(1)
        win.Get_accumulate(seen, seen, 0, op=MPI.NO_OP)
        win.Unlock(0)
        assert seen[0] == 5.0
    win.Free()
    if comm.rank == 0:
        assert memory[0] == 5.0
        assert (memory[1:] == 1.0).all()


def dynamic(comm):
    """Memory that is attached later is reached by its address; outside of it is an error."""
    win = MPI.Win.Create_dynamic(comm=comm)
    memory = np.zeros(4, "i4")
    win.Attach(memory)
    addresses = comm.allgather(memory.ctypes.data)
    right = (comm.rank + 1) % comm.size
    win.Lock_all()
    win.Put(np.full(2, comm.rank, "i4"), right, addresses[right] + 8)
    win.Flush(right)
    win.Put(np.zeros(9, "i4"), right, addresses[right])
    with pytest.raises(MPI.Exception) as caught:
        win.Flush(right)
    assert caught.value.Get_error_class() == MPI.ERR_RMA_RANGE
    win.Unlock_all()
    comm.Barrier()
    assert memory.tolist() == [0, 0, *[(comm.rank - 1) % comm.size] * 2]
    win.Detach(memory)
    win.Free()


def shared(comm):
    """Members see each other's segments directly, and what accesses have written there."""
    rank, size = comm.rank, comm.size
    win = MPI.Win.Allocate_shared(4 * (rank + 1), 4, comm=comm)
    mine = np.frombuffer(win.tomemory(), "i4")
    mine[:] = rank
    comm.Barrier()
    for other in range(size):
        memory, unit = win.Shared_query(other)
        assert unit == 4
        assert np.frombuffer(memory, "i4").tolist() == [other] * (other + 1)
    comm.Barrier()
    win.Lock(size - 1)
    win.Accumulate(np.ones(1, "i4"), size - 1)
    win.Unlock(size - 1)
    comm.Barrier()
    memory, _ = win.Shared_query(size - 1)
    assert np.frombuffer(memory, "i4")[0] == size - 1 + size
    comm.Barrier()
    win.Free()


def waiting_for_memory(comm):
    """A rank that looks at its own memory again and again sees the change, by and by."""
    memory = np.zeros(1, "i8")
    win = MPI.Win.Create(memory, 8, comm=comm)
    win.Lock_all()
    if comm.rank == 0:
        win.Put(np.ones(1, "i8"), comm.size - 1)
        win.Flush(comm.size - 1)
    if comm.rank == comm.size - 1:
        while not memory[0]:
            win.Sync()
    win.Unlock_all()
    win.Free()


BODIES = {
    body.__name__: body
    for body in (
        fences,
        counter,
        exclusive,
        spin_lock,
        post_and_start,
        requests,
        order_of_atomics,
        dynamic,
        shared,
        waiting_for_memory,
    )
}
