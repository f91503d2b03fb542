"""What a recording holds: whose time, which transfers, how many bytes; it changes nothing."""

import io
import json
from itertools import pairwise

import numpy as np
import pytest

import ubnet
from ubnet import mpi as MPI
from ubnet.launch import make_world
from ubnet.recording import BLOCKED, COMPUTE
from ubnet.report.chrome_trace import write_trace
from ubnet.report.summary import busiest_links, print_summary, summarise

BIG = 200_000


def program(comm):
    """Compute, a large and a small message to the right, a sum, an access to rank 0."""
    rank, size = comm.rank, comm.size
    ubnet.compute(1e-6 * (rank + 1))
    request = comm.Isend(np.zeros(BIG, "u1"), (rank + 1) % size)
    comm.Recv(np.zeros(BIG, "u1"), (rank - 1) % size)
    request.Wait()
    comm.Sendrecv(np.zeros(10, "u1"), (rank + 1) % size, 0, np.zeros(10, "u1"), (rank - 1) % size)
    comm.Allreduce(np.zeros(1000), np.zeros(1000))
    win = MPI.Win.Allocate(100, comm=comm)
    win.Lock(0)
    win.Put(np.zeros(50, "u1"), 0)
    win.Unlock(0)
    win.Free()


def recorded(cloudmatrix, main=program, ranks=4):
    world = make_world(ranks, cloudmatrix)
    world.record()
    return world.run(lambda rank: main(MPI.COMM_WORLD)), world


def test_recording_changes_nothing(cloudmatrix):
    plain = ubnet.run(program, 4, cloudmatrix)
    result, _ = recorded(cloudmatrix)
    assert (result.time_ps, result.digest) == (plain.time_ps, plain.digest)
    assert plain.recording is None


def test_spans_of_a_rank_follow_each_other_and_carry_the_names_of_its_calls(cloudmatrix):
    result, _ = recorded(cloudmatrix)
    for rank in range(4):
        spans = [span for span in result.recording.spans if span.rank == rank]
        assert all(a.end_ps <= b.start_ps for a, b in pairwise(spans))
        assert spans[0][1:] == (COMPUTE, "compute", 0, (rank + 1) * 10**6)
        names = {span.name for span in spans if span.kind == BLOCKED}
        assert {"Recv", "Sendrecv", "Allreduce", "Free"} <= names
        assert rank == 0 or {"Lock", "Unlock"} <= names  # its own lock costs a rank nothing
        assert names <= {"Recv", "Wait", "Sendrecv", "Allreduce", "Lock", "Unlock", "Free"}


def test_moves_say_what_went_where(cloudmatrix):
    result, _ = recorded(cloudmatrix)
    moves = result.recording.moves
    assert all(move.start_ps <= move.end_ps for move in moves)
    for what, nbytes in (("data", BIG), ("message", 10)):
        pairs = {(m.source, m.destination) for m in moves if (m.what, m.nbytes) == (what, nbytes)}
        assert pairs == {(r, (r + 1) % 4) for r in range(4)}
    puts = [(m.source, m.destination, m.nbytes) for m in moves if m.what == "put"]
    assert sorted(puts) == [(r, 0, 50) for r in range(4)]
    assert {m.destination for m in moves if m.what == "lock"} == {0}
    grants = {(m.source, m.destination) for m in moves if m.what == "grant"}
    assert grants == {(0, r) for r in range(4)}


def test_bytes_count_messages_accesses_and_collectives(cloudmatrix):
    def gather(comm):
        comm.Alltoall(np.zeros(4 * 100, "u1"), np.zeros(4 * 100, "u1"))
        if comm.rank == 2:
            comm.Send(np.zeros(7, "u1"), 3)
        if comm.rank == 3:
            comm.Recv(np.zeros(7, "u1"), 2)

    result, _ = recorded(cloudmatrix, gather)
    rows = summarise(result.recording, 4)
    assert [row.sent for row in rows] == [300, 300, 307, 300]
    assert [row.received for row in rows] == [300, 300, 300, 307]
    assert (rows[2].peer, rows[3].peer, rows[2].peer_bytes) == (3, 2, 207)


@pytest.mark.parametrize("ranks", [1, 100])
def test_summary_and_trace_of_any_number_of_ranks(ranks, cloudmatrix):
    result, world = recorded(cloudmatrix, lambda comm: comm.allgather(comm.rank), ranks)
    text, trace = io.StringIO(), io.StringIO()
    links = busiest_links(result.report, cloudmatrix, result.time_ps)
    print_summary(text, result.recording, ranks, links, result.time_ps)
    assert len(links) == (0 if ranks == 1 else 5)
    assert ("36 more ranks" in text.getvalue()) == (ranks == 100)
    write_trace(trace, result.recording, world.host.endpoint_names)
    events = json.loads(trace.getvalue())["traceEvents"]
    assert sum(event["name"] == "process_name" for event in events) == ranks


def arrows(result, world):
    """The (source, destination, begin, end) of each arrow of a trace, in us."""
    trace = io.StringIO()
    write_trace(trace, result.recording, world.host.endpoint_names)
    ends = {"s": {}, "f": {}}
    for event in json.loads(trace.getvalue())["traceEvents"]:
        if event["ph"] in ends:
            ends[event["ph"]][event["id"]] = event
    assert ends["s"].keys() == ends["f"].keys()
    return sorted(
        (begin["pid"], ends["f"][number]["pid"], begin["ts"], ends["f"][number]["ts"])
        for number, begin in ends["s"].items()
    )


def test_a_collective_operation_has_an_arrow_for_each_pair_that_talks(cloudmatrix):
    def main(comm):
        ubnet.compute(5e-6 * (comm.rank == 2))
        comm.Alltoall(np.zeros((3, 100)), np.zeros((3, 100)))
        comm.Send(np.zeros(5), 1) if comm.rank == 0 else None
        comm.Recv(np.zeros(5), 0) if comm.rank == 1 else None

    result, world = recorded(cloudmatrix, main, 3)
    drawn = arrows(result, world)
    pairs = [(source, destination) for source, destination, *_ in drawn]
    assert pairs == sorted([*((s, d) for s in range(3) for d in range(3) if s != d), (0, 1)])
    for source, destination, begin, end in drawn:
        assert begin < end
        assert begin >= 5 or {source, destination} == {0, 1}  # rank 2 comes late


def test_the_many_arrows_of_a_large_operation_are_left_out(cloudmatrix):
    def main(comm):
        comm.Alltoall(np.zeros(comm.size), np.zeros(comm.size))

    for ranks, wanted in ((32, 992), (33, 0)):
        assert len(arrows(*recorded(cloudmatrix, main, ranks))) == wanted
