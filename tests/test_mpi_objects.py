"""What hangs on handles: attributes, hints, error handlers, numbers, memory; and what is absent."""

import pickle

import numpy as np
import pytest

import ubnet
from ubnet import mpi as MPI
from ubnet.mpi.third_tier import FUNCTIONS


def test_attributes_follow_their_keys(cloudmatrix):
    def main(comm):
        gone = []
        copied = MPI.Comm.Create_keyval(lambda o, k, v: v + 1, lambda o, k, v: gone.append(v))
        left, plain = MPI.Comm.Create_keyval(), MPI.Comm.Create_keyval(True, nopython=True)
        comm.Set_attr(copied, 7)
        comm.Set_attr(left, "here")
        comm.Set_attr(plain, 0)
        other = comm.Dup()
        assert [other.Get_attr(key) for key in (copied, left, plain)] == [8, None, 0]
        with pytest.raises(TypeError):
            comm.Set_attr(plain, "text")
        with pytest.raises(MPI.Exception) as caught:
            MPI.INT.Set_attr(copied, 1)
        assert caught.value.Get_error_class() == MPI.ERR_KEYVAL
        comm.Set_attr(copied, comm.rank)
        other.Free()
        comm.Delete_attr(copied)
        assert MPI.Comm.Free_keyval(copied) == MPI.KEYVAL_INVALID
        assert comm.Get_attr(MPI.UNIVERSE_SIZE) == comm.size
        assert comm.Get_attr(MPI.TAG_UB) >= 2**30
        return gone, MPI.INT.Get_attr(MPI.Datatype.Create_keyval())

    assert ubnet.run(main, 3, cloudmatrix).values == [([7, 8, rank], None) for rank in range(3)]


def test_a_rank_has_its_own_attributes_of_what_all_share(cloudmatrix):
    def main(comm):
        key = MPI.Datatype.Create_keyval()
        if comm.rank == 0:
            MPI.DOUBLE.Set_attr(key, "mine")
        comm.Barrier()
        return MPI.DOUBLE.Get_attr(key)

    assert ubnet.run(main, 2, cloudmatrix).values == ["mine", None]


def test_error_handlers(cloudmatrix):
    def main(comm):
        seen = []
        own = MPI.Comm.Create_errhandler(lambda c, code: seen.append((c == comm, code)))
        comm.Set_errhandler(own)
        comm.Call_errhandler(MPI.ERR_OTHER)
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        comm.Call_errhandler(MPI.ERR_OTHER)
        more = [MPI.Comm.Create_errhandler(print) for _ in range(31)]
        with pytest.raises(RuntimeError, match="too many"):
            MPI.Comm.Create_errhandler(print)
        for handler in [own, *more]:
            handler.Free()
        return seen

    assert ubnet.run(main, 1, cloudmatrix).values == [[(True, MPI.ERR_OTHER)]]


def test_a_fatal_error_ends_the_world(cloudmatrix, capsys):
    def main(comm):
        comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
        comm.Call_errhandler(MPI.ERR_RANK)

    with pytest.raises((SystemExit, ubnet.errors.UbnetError)):
        ubnet.run(main, 2, cloudmatrix)
    assert "ERR_RANK" in capsys.readouterr().err


def test_operations_of_ones_own_are_counted_and_get_memory(cloudmatrix):
    def add(a, b, datatype):
        assert type(b) is MPI.buffer
        b[:] = np.frombuffer(a, "i4") + np.frombuffer(b, "i4")

    def main(comm):
        ops = [MPI.Op.Create(add) for _ in range(32)]
        with pytest.raises(RuntimeError, match=r"Op\.Free"):
            MPI.Op.Create(add)
        total = np.zeros(3, "i4")
        comm.Allreduce(np.arange(3, dtype="i4"), total, ops[0])
        clone = MPI.Op.fromhandle(ops[0].handle)
        assert clone == ops[0]
        with pytest.raises(ValueError, match="user-defined"):
            clone(1, 2)
        for op in ops:
            op.Free()
        return total.tolist()

    assert ubnet.run(main, 3, cloudmatrix).values == [[0, 3, 6]] * 3


def test_numbers_stand_for_handles(cloudmatrix):
    def main(comm):
        grid = comm.Create_cart([2])
        for handle in (comm, grid, MPI.INT, comm.group, MPI.SUM, MPI.INFO_ENV):
            again = type(handle).fromhandle(handle.handle)
            assert (again, type(again)) == (handle, type(handle))
            assert type(handle).f2py(handle.py2f()) == handle
        assert MPI.Comm.fromhandle(0) == MPI.COMM_NULL
        with pytest.raises(ValueError, match="number of no Group"):
            MPI.Group.fromhandle(MPI.INT.handle)

    ubnet.run(main, 2, cloudmatrix)


def test_a_status_is_memory_and_numbers():
    status = MPI.Status()
    status.source, status.tag, status.error, status.count = 1, 2, 3, 1 << 40
    status.tomemory()[MPI.F_TAG] = 9
    for again in (MPI.Status.f2py(status.py2f()), pickle.loads(pickle.dumps(status))):
        assert again == status
        assert (again.source, again.tag, again.error, again.count) == (1, 9, 3, 1 << 40)


def test_memory_is_shown_and_let_go():
    held = bytearray(b"abcdef")
    shown = MPI.buffer.frombuffer(held)
    part = shown[2:4]
    part[:] = b"XY"
    assert held == b"abXYef"
    assert part.address == shown.address + 2
    same = MPI.buffer.fromaddress(shown.address, 6)
    assert same.tobytes() == b"abXYef"
    frozen = shown.toreadonly()
    with pytest.raises(TypeError, match="read-only"):
        frozen[0] = 1
    assert memoryview(frozen).readonly
    shown.release()
    assert (shown.address, shown.nbytes, len(memoryview(shown))) == (0, 0, 0)
    room = MPI.Alloc_mem(4)
    assert room.tobytes() == bytes(4)
    MPI.Free_mem(room)
    assert not room


@pytest.mark.parametrize(
    "name",
    [
        "File.Open",
        "Session.Init",
        "Grequest.Start",
        "Comm.Revoke",
        "Intracomm.Spawn",
        "Prequest.Pready",
        *FUNCTIONS,
    ],
)
def test_what_is_absent_says_its_name(name):
    holder = MPI
    for part in name.split("."):
        holder = getattr(holder, part)
    with pytest.raises(NotImplementedError, match=rf"MPI\.{name} is not served"):
        holder(1, key=2)


def test_hints():
    hints = MPI.Info.Create([("a", "1")])
    hints.update(b="2")
    assert (dict(hints.items()), len(hints), list(hints)) == ({"a": "1", "b": "2"}, 2, ["a", "b"])
    copy = pickle.loads(pickle.dumps(hints))
    del hints["a"]
    assert (copy.Get("a"), hints.Get("a")) == ("1", None)
    with pytest.raises(MPI.Exception, match="no hint"):
        hints.Delete("a")
    hints.Free()
    with pytest.raises(MPI.Exception, match="INFO_NULL"):
        hints.Get_nkeys()
