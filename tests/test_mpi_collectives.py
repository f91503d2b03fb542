"""Collective calls by mpi4py's names: results, times of the schedules, errors."""

import numpy as np
import pytest

import ubnet
from ubnet import mpi as MPI
from ubnet.collectives.build import build
from ubnet.errors import MismatchedCall
from ubnet.timing import time_schedule


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("all_reduce", lambda c, a, b: c.Allreduce(a, b)),
        ("broadcast", lambda c, a, b: c.Bcast(a)),
        ("all_to_all", lambda c, a, b: c.Alltoall(a, b)),
        ("barrier", lambda c, a, b: c.Barrier()),
    ],
)
def test_the_time_of_a_call_is_that_of_its_schedule(operation, call, cloudmatrix):
    ranks, elements = 16, 16 * 4096

    def main(comm):
        call(comm, np.ones(elements), np.ones(elements))

    count = {"all_to_all": elements // ranks, "barrier": 0}.get(operation, elements)
    places = cloudmatrix.of_kind("die")[:ranks]
    schedule = build(operation, ranks, count, fabric=cloudmatrix, endpoints=places, itemsize=8)
    expected = time_schedule(schedule, cloudmatrix, places, 8)
    assert ubnet.run(main, ranks, cloudmatrix).time_ps == expected.time_ps


def test_an_operation_goes_on_while_its_ranks_compute(cloudmatrix):
    def main(comm, overlapped):
        array, total = np.ones(1 << 18), np.zeros(1 << 18)
        if overlapped:
            request = comm.Iallreduce(array, total)
            ubnet.compute(200e-6)
            request.Wait()
        else:
            comm.Allreduce(array, total)
            ubnet.compute(200e-6)
        assert (total == comm.size).all()

    alone, both = (ubnet.run(main, 8, cloudmatrix, args=(flag,)).time_ps for flag in (0, 1))
    assert both == 200_000_000
    assert alone > both + 1_000_000


def run_mismatched(call, text):
    def main(comm):
        call(comm)

    with pytest.raises(MismatchedCall, match=text):
        ubnet.run(main, 3)


def test_mismatched_calls_are_named():
    run_mismatched(
        lambda c: c.Allreduce(np.zeros(2 + c.rank), np.zeros(2 + c.rank)),
        r"Allreduce: rank 0 gave count 2 where rank 1 gave 3",
    )
    run_mismatched(
        lambda c: c.Allreduce(np.zeros(1), np.zeros(1), MPI.MAX if c.rank else MPI.SUM),
        r"Allreduce: rank 0 gave op SUM where rank 1 gave MAX",
    )
    run_mismatched(
        lambda c: c.Bcast(np.zeros(2), root=c.rank % 2), r"Bcast: rank 0 gave root 0 where rank 1"
    )
    run_mismatched(
        lambda c: c.Barrier() if c.rank else c.allgather(1),
        r"rank 0 called allgather where rank 1 called Barrier",
    )
    run_mismatched(
        lambda c: c.Alltoallv([np.zeros(3), 1], [np.zeros(6), 2 if c.rank == 1 else 1]),
        r"Alltoallv: rank 0 sends 8 bytes to rank 1, which",
    )


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda c: c.Allreduce(np.zeros(2), np.zeros(2, "f4")), ValueError, "send and receive MPI"),
        (lambda c: c.Allreduce(np.zeros(2), np.zeros(3)), ValueError, "send count 2 and receive"),
        (lambda c: c.scatter([1, 2, 3], c.rank), ValueError, "expecting 2 items, got 3"),
        (lambda c: c.alltoall([1]), ValueError, "expecting 2 items, got 1"),
        (lambda c: c.Allreduce(np.zeros(2), np.zeros(2), MPI.LAND), MPI.Exception, "ERR_OP"),
        (lambda c: c.Allreduce(np.zeros(2), np.zeros(2), MPI.OP_NULL), MPI.Exception, "ERR_OP"),
        (lambda c: c.Allgather(np.zeros(2), np.zeros(2)), MPI.Exception, "ERR_TRUNCATE"),
        (lambda c: c.Allgather(np.zeros(2), np.zeros(3)), ValueError, "not a multiple of"),
        (lambda c: c.Bcast("text"), TypeError, "expecting buffer"),
        (lambda c: c.Allreduce(np.zeros(2), np.zeros(4)[::2]), BufferError, "contiguous"),
        (lambda c: c.gather(lambda: 0, root=0), Exception, "pickle"),
    ],
)
def test_wrong_arguments_raise_as_mpi4py_does(call, kind, text):
    def main(comm):
        with pytest.raises(kind, match=text):
            call(comm)

    ubnet.run(main, 2)


def test_compute_dims():
    for ranks in (1, 2, 6, 7, 12, 16, 768):
        for sides in (1, 2, 3):
            dims = MPI.Compute_dims(ranks, sides)
            assert np.prod(dims) == ranks
            assert dims == sorted(dims, reverse=True)
    assert MPI.Compute_dims(768, 2) == [32, 24]
    assert MPI.Compute_dims(24, [0, 4]) == [6, 4]


@pytest.mark.parametrize("name", ["Alltoallv", "Gatherv", "Scatterv"])
def test_counts_that_do_not_fit_are_told_in_bytes_and_by_the_call(name):
    def main(comm):
        few, many = np.zeros(3, np.int32), np.zeros(8, np.int32)
        if name == "Alltoallv":
            comm.Alltoallv([few, [1, 2]], [many, [1, 1]])
        elif name == "Gatherv":
            comm.Gatherv(few, [many, [3, 1]])
        else:
            comm.Scatterv([many, [1, 4]], few)

    with pytest.raises(MismatchedCall) as caught:
        ubnet.run(main, 2)
    text = str(caught.value)
    assert text.startswith(f"{name}: rank ")
    assert " bytes to rank " in text
    assert "all_to_all_v" not in text
    assert "elements" not in text
