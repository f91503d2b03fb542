"""Intercommunicators: messages and collective operations between two groups."""

import pytest
from bodies_intercomm import BODIES

import ubnet
from ubnet import mpi as MPI
from ubnet.errors import MismatchedCall


@pytest.mark.parametrize("ranks", [2, 3, 7])
@pytest.mark.parametrize("name", BODIES)
def test_bodies(name, ranks, cloudmatrix):
    plain = ubnet.run(BODIES[name], ranks, cloudmatrix)
    shuffled = ubnet.run(BODIES[name], ranks, cloudmatrix, shuffle=1)
    assert (shuffled.time_ps, shuffled.digest) == (plain.time_ps, plain.digest)


def test_what_is_wrong_says_so(cloudmatrix):
    def main(comm):
        local = comm.Split(comm.rank % 2)
        with pytest.raises(MPI.Exception, match="members in common"):
            comm.Create_intercomm(0, comm, 0)
        inter = local.Create_intercomm(0, comm, 1 - comm.rank % 2)
        with pytest.raises(MPI.Exception, match="give ROOT, PROC_NULL") as caught:
            inter.bcast(None, 5)
        assert caught.value.Get_error_class() == MPI.ERR_ROOT
        with pytest.raises(MPI.Exception, match="rank 3 of a communicator of 1"):
            inter.send(None, 3)
        for kind, handle in ((MPI.Intracomm, inter), (MPI.Intercomm, local)):
            with pytest.raises(TypeError, match="communicator"):
                kind(handle)
        assert (inter.is_inter, local.is_inter) == (True, False)

    ubnet.run(main, 2, cloudmatrix)


def test_two_sides_that_call_different_things(cloudmatrix):
    def main(comm):
        inter = comm.Split(comm.rank).Create_intercomm(0, comm, 1 - comm.rank)
        inter.barrier() if comm.rank else inter.allgather(None)

    with pytest.raises(MismatchedCall, match="allgather"):
        ubnet.run(main, 2, cloudmatrix)
