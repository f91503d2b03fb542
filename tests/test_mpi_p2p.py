"""Messages between ranks by mpi4py's names: order, modes, waits, probes, errors."""

import pickle

import numpy as np
import pytest

import ubnet
from ubnet import mpi as MPI
from ubnet.errors import Deadlock, RankFailed, UbnetError


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda c: c.Send([np.zeros(4), 2.5, MPI.DOUBLE], 0), TypeError, "'float' object cannot"),
        (lambda c: c.Send(np.zeros((4, 4))[:, 1], 0), BufferError, "not contiguous"),
        (lambda c: c.Send("text", 0), TypeError, "expecting buffer or list/tuple"),
        (lambda c: c.Send(np.array([None]), 0), KeyError, "'O' to MPI datatype"),
        (lambda c: c.Send([np.zeros(4), 5, MPI.DOUBLE], 0), ValueError, "do not fit"),
        (lambda c: c.Send([np.zeros(4), -1, MPI.DOUBLE], 0), ValueError, "negative count"),
        (lambda c: c.Send(np.zeros(2).astype(">f8"), 0), BufferError, "non-native byte order"),
        (lambda c: c.Recv(b"1234", 0), BufferError, "not writable"),
        (lambda c: c.Send([np.zeros(4)] * 5, 0), ValueError, "2 to 4 items"),
        (lambda c: c.send(lambda: 0, 0), (AttributeError, pickle.PicklingError), "pickle"),
    ],
)
def test_wrong_buffers_raise_as_mpi4py_does(call, kind, text):
    def main(comm):
        with pytest.raises(kind, match=text):
            call(comm)

    ubnet.run(main, 2)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: c.send(1, 7), MPI.ERR_RANK),
        (lambda c: c.Recv(np.zeros(1), -7), MPI.ERR_RANK),
        (lambda c: c.send(1, 0, -5), MPI.ERR_TAG),
        (lambda c: MPI.COMM_NULL.send(1, 0), MPI.ERR_COMM),
        (lambda c: MPI.COMM_NULL.Get_rank(), MPI.ERR_COMM),
        (lambda c: c.Bcast(np.zeros(1), root=9), MPI.ERR_ROOT),
        (lambda c: c.Send([np.zeros(1), 1, MPI.DATATYPE_NULL], 0), MPI.ERR_TYPE),
        (lambda c: c.Free(), MPI.ERR_COMM),
        (lambda c: MPI.REQUEST_NULL.Cancel(), MPI.ERR_REQUEST),
        (lambda c: MPI.Prequest.Startall([MPI.REQUEST_NULL]), MPI.ERR_REQUEST),
        (lambda c: c.Split(-3), MPI.ERR_ARG),
        (lambda c: MPI.Compute_dims(7, [2, 0]), MPI.ERR_DIMS),
    ],
)
def test_wrong_arguments_have_their_error_class(call, error):
    def main(comm):
        with pytest.raises(MPI.Exception) as caught:
            call(comm)
        assert caught.value.Get_error_class() == error
        assert MPI.Get_error_string(error) in str(caught.value)

    ubnet.run(main, 2)


def test_what_fails_before_it_starts_leaves_nothing_behind():
    def main(comm):
        with pytest.raises(KeyError):
            comm.Sendrecv([np.zeros(1), "?!"], comm.rank, 0, np.zeros(1), comm.rank, 0)
        got = np.zeros(1)
        comm.Sendrecv(np.ones(1), comm.rank, 0, got, comm.rank, 0)
        return got[0]

    assert ubnet.run(main, 2).values == [1, 1]


def test_a_deadlock_names_call_peer_tag_communicator_and_line():
    def main(comm):
        comm.Set_name("the world")
        comm.recv(source=1 - comm.rank, tag=3 + comm.rank)

    with pytest.raises(Deadlock) as caught:
        ubnet.run(main, 2)
    text = str(caught.value)
    line = main.__code__.co_firstlineno + 2
    assert f"rank 0: recv from rank 1, tag 3, on the world at {__file__}:{line}" in text
    assert f"rank 1: recv from rank 0, tag 4, on the world at {__file__}:{line}" in text


@pytest.mark.parametrize("poll", [lambda c: c.iprobe(), lambda c: c.irecv().Test()])
def test_pollers_alone_are_a_deadlock(poll):
    def main(comm):
        while not poll(comm):
            pass

    with pytest.raises(Deadlock, match=r"rank 2: (iprobe|test: recv) from any source, any tag"):
        ubnet.run(main, 3)


def test_a_failing_rank_ends_the_world():
    def main(comm):
        if comm.rank == 1:
            raise KeyError("lost")
        comm.recv(source=1)

    with pytest.raises(RankFailed, match=r"rank 1 failed:(.|\n)*KeyError: 'lost'"):
        ubnet.run(main, 3)


def test_abort_and_exit_have_their_status():
    def main(comm, leave):
        if comm.rank == 2:
            leave(comm)
        comm.recv(source=2)

    with pytest.raises(SystemExit) as caught:
        ubnet.run(main, 3, args=(lambda comm: comm.Abort(7),))
    assert caught.value.code == 7
    with pytest.raises(SystemExit) as caught:
        ubnet.run(main, 3, args=(lambda comm: exit(3),))
    assert caught.value.code == 3


def test_predefined_handles_pickle_and_stay_right():
    captured = MPI.COMM_WORLD

    def main(comm):
        again = pickle.loads(pickle.dumps([MPI.COMM_WORLD, MPI.INT, MPI.SUM]))
        assert again[0] is MPI.COMM_WORLD
        assert again[1:] == [MPI.INT, MPI.SUM]
        with pytest.raises(ValueError, match="cannot pickle"):
            pickle.dumps(comm.Dup())
        return captured.rank, again[0].rank

    assert ubnet.run(main, 3).values == [(0, 0), (1, 1), (2, 2)]


def test_ranks_only_inside_a_world():
    with pytest.raises(UbnetError, match="no rank runs here"):
        MPI.COMM_WORLD.Get_rank()


def test_time_and_place():
    def main(comm):
        began = MPI.Wtime()
        ubnet.compute(2e-3)
        return MPI.Wtime() - began, MPI.Get_processor_name(), MPI.Is_initialized()

    values = ubnet.run(main, 2, place="node").values
    assert [value[0] for value in values] == [pytest.approx(2e-3)] * 2
    assert [value[1] for value in values] == ["node00.npu0.die0", "node01.npu0.die0"]


def test_a_thread_of_the_program_is_told_that_it_has_no_rank():
    from concurrent.futures import ThreadPoolExecutor

    def main(comm):
        with ThreadPoolExecutor(1) as pool:
            return str(pool.submit(comm.Get_rank).exception())

    assert "not from a thread" in ubnet.run(main, 1).values[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda comm: comm.send(1, None), "rank is None; give a whole number"),
        (lambda comm: comm.send(1, "a"), "rank is 'a'; give a whole number"),
        (lambda comm: comm.recv(source=0.5), "rank is 0.5; give a whole number"),
        (lambda comm: comm.bcast(1, root="x"), "root is 'x'; give a whole number"),
        (lambda comm: comm.Bcast(np.zeros(1), root=None), "root is None; give a whole number"),
        (lambda comm: comm.Allreduce(np.zeros(1), np.zeros(1), op=3), "op is 3; give an operation"),
        (lambda comm: comm.Reduce(np.zeros(1), np.zeros(1), op=None), "op is None; give"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(call, words):
    with pytest.raises(RankFailed, match=words) as caught:
        ubnet.run(call, 2)
    assert "TypeError" in str(caught.value)
