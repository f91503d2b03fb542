"""Windows by mpi4py's names: accesses, synchronisation, the order of effects, what they cost."""

import numpy as np
import pytest

import ubnet
from ubnet import mpi as MPI
from ubnet.errors import Deadlock


def times(main, cloudmatrix, ranks=2, place="node"):
    return ubnet.run(main, ranks, cloudmatrix, place).values[0]


def locked(call):
    """Return a program in which rank 0 measures a call on a window of rank 1, in seconds."""

    def main(comm):
        win = MPI.Win.Allocate(1 << 20, 1, comm=comm)
        if comm.rank:
            comm.Barrier()
            return None
        win.Lock(1)
        start = MPI.Wtime()
        call(win)
        taken = MPI.Wtime() - start
        win.Unlock(1)
        comm.Barrier()
        return taken

    return main


def test_an_access_takes_the_time_of_a_transfer_of_its_bytes(cloudmatrix):
    """A put is a write and the word back, a get a read, an atomic two small writes."""

    def put(win):
        win.Put(np.zeros(1 << 20, "u1"), 1)
        win.Flush(1)

    def get(win):
        win.Get(np.zeros(1 << 20, "u1"), 1)
        win.Flush(1)

    def add(win):
        win.Fetch_and_op(np.ones(1, "i8"), np.zeros(1, "i8"), 1)
        win.Flush(1)

    src, dst = "node00.npu0.die0", "node01.npu0.die0"
    write = ubnet.transfer_time(src, dst, 1 << 20, op="write", transport="auto")
    read = ubnet.transfer_time(dst, src, 1 << 20, op="read", transport="auto")
    small = ubnet.transfer_time(src, dst, 8, op="write", transport="auto")
    taken = [1e12 * times(locked(call), cloudmatrix) for call in (put, get, add)]
    assert write < taken[0] < write + small
    assert taken[1] == pytest.approx(read, abs=2)
    assert taken[2] == pytest.approx(2 * small, abs=4)


def test_a_put_leaves_before_it_takes_effect(cloudmatrix):
    def local(win):
        win.Put(np.zeros(1 << 16, "u1"), 1)
        win.Flush_local(1)

    def whole(win):
        win.Put(np.zeros(1 << 16, "u1"), 1)
        win.Flush(1)

    assert times(locked(local), cloudmatrix) < times(locked(whole), cloudmatrix)


def test_an_exclusive_lock_that_nobody_gives_back_is_a_deadlock(cloudmatrix):
    def main(comm):
        win = MPI.Win.Allocate(8, comm=comm)
        win.Set_name("counter")
        win.Lock(0)
        comm.Barrier()

    with pytest.raises(Deadlock, match=r"lock at rank 0 on counter at .*test_mpi_windows"):
        ubnet.run(main, 2, cloudmatrix)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda win: win.Put(np.zeros(2), 0), "ERR_RMA_RANGE"),
        (lambda win: win.Put(np.zeros(1), 0, 1), "ERR_RMA_RANGE"),
        (lambda win: win.Put(np.zeros(1), 0, -1), "ERR_DISP"),
        (lambda win: win.Put(np.zeros(1), 5), "ERR_RANK"),
        (lambda win: win.Unlock(1), "ERR_RANK"),
        (lambda win: win.Lock(0), "ERR_RMA_SYNC"),
        (lambda win: win.Lock(0, 77), "ERR_LOCKTYPE"),
        (lambda win: win.Complete(), "ERR_RMA_SYNC"),
        (lambda win: win.Wait(), "ERR_RMA_SYNC"),
        (lambda win: win.Free(), "ERR_RMA_SYNC"),
        (lambda win: win.Accumulate(np.zeros(1), 0, op=MPI.BAND), "ERR_OP"),
        (lambda win: win.Attach(bytearray(1)), "ERR_RMA_FLAVOR"),
        (lambda win: MPI.WIN_NULL.Fence(), "ERR_WIN"),
        (lambda win: MPI.Win.Allocate(-1), "ERR_SIZE"),
        (lambda win: MPI.Win.Allocate(8, 0), "ERR_DISP"),
    ],
)
def test_wrong_calls_are_errors_of_mpi(call, error, cloudmatrix):
    def main(comm):
        win = MPI.Win.Allocate(8, 8, comm=MPI.COMM_SELF)
        win.Lock(0)
        with pytest.raises(MPI.Exception) as caught:
            call(win)
        assert caught.value.Get_error_class() == getattr(MPI, error)
        win.Unlock(0)
        win.Free()

    ubnet.run(main, 1, cloudmatrix)


def test_a_window_shows_its_memory_as_a_buffer_and_is_no_array(cloudmatrix):
    def main(comm):
        win = MPI.Win.Allocate(8, 4, comm=comm)
        words = memoryview(win).cast("i")
        words[1] = 7
        other = MPI.Win(win)
        seen = memoryview(other).cast("i")[1]
        assert other == win
        assert (other != win) is False
        assert str(win) == repr(win) == f"{win}"
        for wrong in (lambda: len(win), lambda: win[0], lambda: win + 1, lambda: hash(win)):
            with pytest.raises(TypeError):
                wrong()
        win.Free()
        assert not win
        assert win == MPI.WIN_NULL
        assert len(memoryview(MPI.WIN_NULL)) == 0
        return seen

    assert ubnet.run(main, 1, cloudmatrix).values == [7]


def test_locking_ones_own_memory_on_and_on_lets_others_act(cloudmatrix):
    def main(comm):
        win = MPI.Win.Allocate(4, 4, comm=comm)
        comm.Barrier()
        word, looks = np.zeros(1, "i4"), 0
        if comm.rank:
            ubnet.compute(50e-6)
            win.Lock(0)
            win.Put(np.ones(1, "i4"), 0)
            win.Unlock(0)
        while comm.rank == 0 and not word[0]:
            win.Lock(0, MPI.LOCK_SHARED)
            win.Get(word, 0)
            win.Unlock(0)
            looks += 1
        win.Free()
        return looks

    looks = ubnet.run(main, 2, cloudmatrix).values[0]
    assert 32 < looks < 50
