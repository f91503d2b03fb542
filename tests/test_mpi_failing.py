"""Calls that fail: what the program's own handlers hear, and what ranks must not disagree on."""

import numpy as np
import pytest

import ubnet
from ubnet import mpi as MPI
from ubnet.errors import Deadlock, MismatchedCall, RankFailed
from ubnet.launch import make_world


def hearing(heard):
    return lambda handle, code: heard.append((handle, code))


def test_a_handler_hears_of_a_failing_call_once_and_the_call_raises():
    def main(comm):
        heard, other = [], comm.Dup()
        comm.Set_errhandler(MPI.Comm.Create_errhandler(hearing(heard)))
        for call in (
            lambda c: c.Send(np.zeros(1), 99),
            lambda c: c.bcast(0, root=-5),
            lambda c: c.Sendrecv(np.zeros(4), c.rank, 0, np.zeros(2), c.rank, 0),
        ):
            with pytest.raises(MPI.Exception):
                call(comm)
            with pytest.raises(MPI.Exception):
                call(other)
        assert all(handle == comm for handle, _ in heard)
        return [code for _, code in heard]

    wanted = [MPI.ERR_RANK, MPI.ERR_ROOT, MPI.ERR_TRUNCATE]
    assert ubnet.run(main, 2).values == [wanted, wanted]


@pytest.mark.parametrize(
    "end",
    [
        lambda request: request.Wait(),
        lambda request: MPI.Request.Waitall([MPI.REQUEST_NULL, request]),
        lambda request: MPI.Request.waitany(requests=[request]),
    ],
)
def test_a_handler_hears_of_a_receive_that_ends_later(end):
    def main(comm):
        heard = []
        comm.Set_errhandler(MPI.Comm.Create_errhandler(hearing(heard)))
        for here in (comm, comm.Dup()):
            request = here.Irecv(np.zeros(2), comm.rank)
            here.Send(np.zeros(4), comm.rank)
            with pytest.raises(MPI.Exception):
                end(request)
            assert heard == [(here, MPI.ERR_TRUNCATE)]
            heard.clear()

    ubnet.run(main, 2)


def test_new_communicators_inherit_the_handler():
    def main(comm):
        own = MPI.Comm.Create_errhandler(hearing([]))
        comm.Set_errhandler(own)
        made = [comm.Dup(), comm.Idup()[0], comm.Split(0), comm.Create_cart([comm.size])]
        made += [made[-1].Sub([True]), comm.Create(comm.group)]
        assert all(other.Get_errhandler() == own for other in made)
        assert comm.Split(MPI.UNDEFINED) == MPI.COMM_NULL
        made[0].Set_errhandler(MPI.ERRORS_RETURN)
        return made[0].Dup().Get_errhandler() == MPI.ERRORS_RETURN

    assert ubnet.run(main, 2).values == [True, True]


def test_recordings_and_deadlocks_know_the_calls_of_programs_with_handlers():
    def main(comm):
        comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
        comm.Bcast(np.zeros(9))
        comm.irecv(source=1 - comm.rank).wait()

    world = make_world(2)
    world.record()
    with pytest.raises(
        Deadlock, match=r"recv from rank 1, any tag, on MPI_COMM_WORLD at .*failing"
    ):
        world.run(lambda rank: main(MPI.COMM_WORLD))
    assert {span.name for span in world.host.recorder.recording.spans} == {"Bcast"}


def test_what_python_refuses_is_no_error_of_mpi():
    def main(comm):
        heard = []
        comm.Set_errhandler(MPI.Comm.Create_errhandler(hearing(heard)))
        with pytest.raises(TypeError):
            comm.Send("text", 0)
        return heard

    assert ubnet.run(main, 1).values == [[]]


def test_a_window_has_a_handler_of_its_own():
    def main(comm):
        heard, win = [], MPI.Win.Allocate(8, 1, comm=comm)
        win.Set_errhandler(MPI.Win.Create_errhandler(hearing(heard)))
        with pytest.raises(MPI.Exception):
            win.Put(np.zeros(1), 0)
        win.Free()
        return [code for _, code in heard]

    assert ubnet.run(main, 1).values == [[MPI.ERR_RMA_SYNC]]


@pytest.mark.parametrize("handler", [MPI.ERRORS_ARE_FATAL, MPI.ERRORS_ABORT])
def test_a_fatal_error_ends_the_world_although_the_program_would_catch_it(handler, capsys):
    def main(comm):
        comm.Set_errhandler(handler)
        if comm.rank == 1:
            with pytest.raises(MPI.Exception):
                comm.Send(np.zeros(1), 99)
        comm.barrier()

    with pytest.raises(SystemExit) as caught:
        ubnet.run(main, 3)
    assert caught.value.code == 1
    assert "rank 1 met an error that is fatal: MPI_ERR_RANK" in capsys.readouterr().err


CALLS = {
    "Bcast": lambda comm, array: comm.Bcast(array),
    "Gather": lambda comm, array: comm.Gather(
        array, np.zeros((comm.size, len(array)), array.dtype) if comm.rank == 0 else None
    ),
    "Scatter": lambda comm, array: comm.Scatter(
        np.zeros((comm.size, len(array)), array.dtype) if comm.rank == 0 else None, array
    ),
    "Allgather": lambda comm, array: comm.Allgather(
        array, np.zeros((comm.size, len(array)), array.dtype)
    ),
    "Alltoall": lambda comm, array: comm.Alltoall(array, array.copy()),
}


@pytest.mark.parametrize("name", CALLS)
def test_elements_of_different_kinds_are_named_though_their_bytes_are_as_many(name):
    def main(comm):
        CALLS[name](comm, np.zeros(6, "f8" if comm.rank == 2 else "i8"))

    with pytest.raises(MismatchedCall) as caught:
        ubnet.run(main, 3)
    assert f"{name}: rank 0 gave datatype i8 where rank 2 gave f8" in str(caught.value)


def test_bytes_and_derived_types_of_the_same_elements_agree():
    def main(comm):
        vector = MPI.DOUBLE.Create_vector(3, 1, 2).Commit()
        pair = MPI.Datatype.Create_struct([1, 4], [0, 8], [MPI.DOUBLE, MPI.INT]).Commit()
        numbers = np.arange(6.0)
        given = [numbers[:3].copy(), bytearray(24), [numbers, 1, vector], [numbers, 1, pair]]
        comm.Bcast(given[comm.rank])
        return comm.rank

    assert ubnet.run(main, 4).values == [0, 1, 2, 3]


def test_a_float_may_be_a_rank_as_in_mpi4py():
    def main(comm):
        half = comm.size / 2
        partner = comm.rank + half if comm.rank < half else comm.rank - half
        return comm.sendrecv(comm.rank, partner, source=partner)

    assert ubnet.run(main, 4).values == [2, 3, 0, 1]


def test_an_object_that_cannot_be_read_fails_where_it_arrives():
    def main(comm):
        if comm.rank == 0:
            comm.send(_Unreadable(), 1)
        elif comm.rank == 1:
            comm.recv(source=0)
        comm.barrier()

    with pytest.raises(RankFailed, match=r"rank 1 failed:(.|\n)*ValueError: not to be read"):
        ubnet.run(main, 3)


class _Unreadable:
    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise ValueError("not to be read")
