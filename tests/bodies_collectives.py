"""What every rank does in the tests of collectives: the same in one process and under mpirun.

Each body checks its results against numpy or plain Python, and works on any number of ranks.
"""

import operator

import numpy as np

from ubnet import mpi as MPI


def inputs(comm, count, dtype="f8"):
    """Return every rank's array, the rank's own among them: small whole numbers."""
    return [(np.arange(count) + 3 * r + 1).astype(dtype) for r in range(comm.size)]


def objects(comm):
    """The methods in small letters, from every root."""
    rank, size = comm.rank, comm.size
    everybody = ["x" * r for r in range(size)]
    comm.barrier()
    for root in range(size):
        assert comm.bcast({"root": rank} if rank == root else None, root) == {"root": root}
        gathered = comm.gather("x" * rank, root)
        assert gathered == (everybody if rank == root else None)
        parts = [[root, r] for r in range(size)] if rank == root else None
        assert comm.scatter(parts, root) == [root, rank]
        total = comm.reduce(rank + 1, MPI.PROD, root)
        assert total == (np.prod(np.arange(1, size + 1)) if rank == root else None)
    assert comm.allgather("x" * rank) == everybody
    assert comm.alltoall([(rank, r) for r in range(size)]) == [(r, rank) for r in range(size)]
    assert comm.allreduce([rank]) == list(range(size))
    assert comm.allreduce("ab"[rank % 2], op=operator.add) == ("ab" * size)[:size]
    assert comm.allreduce((-rank, rank), MPI.MAXLOC) == (0, 0)
    assert comm.scan([rank]) == list(range(rank + 1))
    assert comm.exscan([rank]) == (list(range(rank)) if rank else None)


def moves(comm):
    """Bcast, Gather, Scatter, Allgather and Alltoall, with and without IN_PLACE."""
    rank, size = comm.rank, comm.size
    for count in (0, 1, 7, 1001):
        mine = inputs(comm, count)
        for root in range(size):
            array = mine[rank].copy()
            comm.Bcast(array, root)
            np.testing.assert_array_equal(array, mine[root])
            whole = np.zeros((size, count)) if rank == root else None
            comm.Gather(mine[rank], whole, root)
            if rank == root:
                np.testing.assert_array_equal(whole, mine)
                whole[:rank] = whole[rank + 1 :] = 0
            comm.Gather(MPI.IN_PLACE if rank == root else mine[rank], whole, root)
            part = np.zeros(count)
            if rank == root:
                np.testing.assert_array_equal(whole, mine)
            comm.Scatter(whole, part, root)
            np.testing.assert_array_equal(part, mine[rank])
            comm.Scatter(whole, MPI.IN_PLACE if rank == root else part, root)
            np.testing.assert_array_equal(part, mine[rank])
        whole = np.zeros((size, count))
        comm.Allgather(mine[rank], whole)
        np.testing.assert_array_equal(whole, mine)
        whole[:rank] = whole[rank + 1 :] = 0
        comm.Allgather(MPI.IN_PLACE, whole)
        np.testing.assert_array_equal(whole, mine)
        sent = np.array([1000 * rank + r for r in range(size) for _ in range(count)])
        received = np.zeros_like(sent)
        comm.Alltoall(sent, received)
        expected = [1000 * r + rank for r in range(size) for _ in range(count)]
        assert received.tolist() == expected
        comm.Alltoall(MPI.IN_PLACE, sent)
        assert sent.tolist() == expected


def uneven_moves(comm):
    """The v and w forms, with gaps between the blocks."""
    rank, size = comm.rank, comm.size
    counts = [(r * 2) % 5 for r in range(size)]
    starts = np.cumsum([c + 1 for c in counts]) - np.array([c + 1 for c in counts])
    room = sum(counts) + size
    expected = np.full(room, -1)
    for r in range(size):
        expected[starts[r] : starts[r] + counts[r]] = r
    mine = np.full(counts[rank], rank)
    for root in range(size):
        whole = np.full(room, -1)
        comm.Gatherv(mine, [whole, (counts, starts)] if rank == root else None, root)
        if rank == root:
            np.testing.assert_array_equal(whole, expected)
        part = np.zeros(counts[rank], dtype=int)
        comm.Scatterv([whole, counts, starts, MPI.LONG] if rank == root else None, part, root)
        np.testing.assert_array_equal(part, mine)
    whole = np.full(room, -1)
    comm.Allgatherv(mine, [whole, (counts, starts)])
    np.testing.assert_array_equal(whole, expected)
    sendcounts = [(rank + r) % 3 for r in range(size)]  # symmetric: what I send is what I get
    sent = np.array([100 * rank + r for r in range(size) for _ in range(sendcounts[r])], "i4")
    received = np.zeros_like(sent)
    comm.Alltoallv([sent, sendcounts], [received, sendcounts])
    answer = [100 * r + rank for r in range(size) for _ in range(sendcounts[r])]
    assert received.tolist() == answer
    offsets = (4 * (np.cumsum(sendcounts) - sendcounts)).tolist()
    types = [MPI.INT] * size
    received[:] = 0
    comm.Alltoallw([sent, sendcounts, offsets, types], [received, sendcounts, offsets, types])
    assert received.tolist() == answer


def reductions(comm):
    """Reduce, Allreduce, scans and reduce-scatters, of several types and operations."""
    rank, size = comm.rank, comm.size
    for dtype in ("f8", "f4", "i4", "u1", "c16"):
        mine = inputs(comm, 7, dtype)
        check_reductions(comm, mine, MPI.SUM, np.add)
    for op, combine in ((MPI.MAX, np.maximum), (MPI.MIN, np.minimum), (MPI.PROD, np.multiply)):
        mine = [values % 3 + 1 for values in inputs(comm, 5, "i8")]
        check_reductions(comm, mine, op, combine)
    for op, combine in ((MPI.BOR, np.bitwise_or), (MPI.LXOR, np.logical_xor)):
        mine = [values % 2 for values in inputs(comm, 9, "i4")]
        result = np.zeros(9, dtype="i4")
        comm.Allreduce(mine[rank], result, op)
        np.testing.assert_array_equal(result, combine.reduce(mine).astype("i4"))
    pair = np.zeros(1, dtype=np.dtype([("value", "f8"), ("place", "i4")], align=True))
    pair["value"], pair["place"] = rank * 7 % 5, rank
    found = pair.copy()
    comm.Allreduce([pair, MPI.DOUBLE_INT], [found, MPI.DOUBLE_INT], MPI.MAXLOC)
    values = [r * 7 % 5 for r in range(size)]
    assert found[0].tolist() == (max(values), values.index(max(values)))


def check_reductions(comm, mine, op, combine):
    """Check one operation on everybody's arrays in all forms."""
    rank, size, count = comm.rank, comm.size, len(mine[0])
    total = combine.reduce(mine)
    root = size - 1
    result = np.zeros_like(mine[0])
    comm.Reduce(mine[rank], result if rank == root else None, op, root)
    if rank == root:
        np.testing.assert_array_equal(result, total)
    comm.Allreduce(mine[rank], result, op)
    np.testing.assert_array_equal(result, total)
    result = mine[rank].copy()
    comm.Allreduce(MPI.IN_PLACE, result, op)
    np.testing.assert_array_equal(result, total)
    comm.Scan(mine[rank], result, op)
    np.testing.assert_array_equal(result, combine.reduce(mine[: rank + 1]))
    before = np.zeros_like(result)
    comm.Exscan(mine[rank], before, op)
    if rank:
        np.testing.assert_array_equal(before, combine.reduce(mine[:rank]))
    blocks = np.tile(mine[rank], size)
    part = np.zeros_like(result)
    comm.Reduce_scatter_block(blocks, part, op)
    np.testing.assert_array_equal(part, total)
    counts = [count * (1 + r % 2) for r in range(size)]
    blocks = np.tile(mine[rank], sum(counts) // count)
    part = np.zeros(counts[rank], dtype=result.dtype)
    comm.Reduce_scatter(blocks, part, counts, op)
    np.testing.assert_array_equal(part, np.tile(total, counts[rank] // count))


def own_operations(comm):
    """Operations of the program: combined in rank order where they do not commute."""

    def join(left, right, datatype):
        assert datatype == MPI.LONG
        lower = np.frombuffer(left, dtype="i8")
        both = np.frombuffer(right, dtype="i8")
        both[:] = lower * 10 ** np.floor(np.log10(both) + 1).astype("i8") + both

    op = MPI.Op.Create(join)
    assert not op.Is_commutative()
    digits = [(r % 9) + 1 for r in range(comm.size)]
    mine = np.full(3, digits[comm.rank])
    result = np.zeros_like(mine)
    comm.Allreduce(mine, result, op)
    assert (result == int("".join(map(str, digits)))).all()
    comm.Scan(mine, result, op)
    assert (result == int("".join(map(str, digits[: comm.rank + 1])))).all()
    op.Free()
    assert op == MPI.OP_NULL


def started(comm):
    """Operations that go on while the rank does something else, and persistent ones."""
    rank, size = comm.rank, comm.size
    mine = inputs(comm, 100)
    total, array, whole = np.zeros(100), mine[rank].copy(), np.zeros((size, 100))
    requests = [comm.Iallreduce(mine[rank], total), comm.Ibcast(array, 0)]
    requests += [comm.Iallgather(mine[rank], whole), comm.Ibarrier()]
    right, left = (rank + 1) % size, (rank - 1) % size
    assert comm.sendrecv(rank, right, source=left) == left
    while not MPI.Request.Testall(requests):
        pass
    np.testing.assert_array_equal(total, np.sum(mine, axis=0))
    np.testing.assert_array_equal(array, mine[0])
    np.testing.assert_array_equal(whole, mine)
    again = comm.Allreduce_init(array, total)
    for turn in range(3):
        array[:] = turn + rank
        again.Start()
        again.Wait()
        assert (total == size * turn + size * (size - 1) / 2).all()
    again.Free()


def on_parts(comm):
    """Collectives of disjoint communicators, at the same time, and of one inside another."""
    half = comm.Split(comm.rank % 2, comm.rank)
    pair = half.Split(half.rank // 2)
    total = np.zeros(1)
    for turn in range(3):
        half.Allreduce(np.full(1, float(comm.rank)), total)
        assert total[0] == sum(range(comm.rank % 2, comm.size, 2))
        assert pair.allgather(turn) == [turn] * pair.size
    assert comm.allreduce(half.size) == sum(
        len(range(r % 2, comm.size, 2)) for r in range(comm.size)
    )


BODIES = {
    body.__name__: body
    for body in (
        objects,
        moves,
        uneven_moves,
        reductions,
        own_operations,
        started,
        on_parts,
    )
}
