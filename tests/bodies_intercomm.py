"""What every rank does in the tests of intercommunicators, in one process and under mpirun.

The even ranks join the odd ones; each body checks what it gets, on 2 ranks or more.
"""

import operator

import numpy as np

from ubnet import mpi as MPI


def joined(comm):
    """Return what joins even and odd ranks, the side of this one, the ranks of the other."""
    side = comm.rank % 2
    local = comm.Split(side, comm.rank)
    inter = local.Create_intercomm(0, comm, 1 - side, 7)
    others = [rank for rank in range(comm.size) if rank % 2 != side]
    assert (inter.size, inter.rank, inter.remote_size) == (local.size, local.rank, len(others))
    return inter, side, others


def messages(comm):
    """Ranks are those of the other group, in both directions."""
    inter, _, others = joined(comm)
    requests = [inter.isend((comm.rank, peer), peer) for peer in range(len(others))]
    for peer, rank in enumerate(others):
        status = MPI.Status()
        assert inter.recv(source=peer, status=status) == (rank, inter.rank)
        assert status.source == peer
    MPI.Request.waitall(requests)


def buffers(comm):
    """Every operation on buffers, one side after the other where one alone sends."""
    inter, side, others = joined(comm)
    mine = np.array([comm.rank, comm.rank + 0.5])
    theirs = np.array([[rank, rank + 0.5] for rank in others])
    got = np.zeros_like(theirs)
    inter.Allgather(mine, got)
    assert (got == theirs).all()
    got[:] = 0
    inter.Iallgather(mine, got).Wait()
    assert (got == theirs).all()
    inter.Alltoall(np.repeat(mine, len(others)).reshape(2, -1).T.copy(), got)
    assert (got == theirs).all()
    total = np.zeros(2)
    inter.Allreduce(mine, total)
    assert (total == theirs.sum(axis=0)).all()
    for root_side in (0, 1):
        role = (MPI.ROOT if inter.rank == 0 else MPI.PROC_NULL) if side == root_side else 0
        word = np.array([42 + root_side]) if role == MPI.ROOT else np.zeros(1, dtype=int)
        inter.Bcast(word, role)
        assert word[0] == (0 if role == MPI.PROC_NULL else 42 + root_side)
        collected = np.zeros_like(theirs)
        inter.Gather(mine, collected, role)
        assert (collected == (theirs if role == MPI.ROOT else 0)).all()
        block = np.zeros(2)
        inter.Scatter(theirs, block, role)
        if side != root_side:
            assert (block == mine).all()
        most = np.zeros(2)
        inter.Reduce(mine, most, MPI.MAX, role)
        assert (most == (theirs.max(axis=0) if role == MPI.ROOT else 0)).all()


def scattered_sums(comm):
    """Each member gets its block of what the other group's members have in sum."""
    inter, _, others = joined(comm)
    total = inter.size * len(others)
    part = np.zeros(len(others), dtype=int)
    inter.Reduce_scatter(np.arange(total) + comm.rank, part, [len(others)] * inter.size)
    begin = inter.rank * len(others)
    expected = np.arange(begin, begin + len(others)) * len(others) + sum(others)
    assert part.tolist() == expected.tolist()


def objects(comm):
    """The methods in small letters."""
    inter, side, others = joined(comm)
    words = ["x" * rank for rank in others]
    inter.barrier()
    assert inter.allgather("x" * comm.rank) == words
    assert inter.alltoall([(comm.rank, i) for i in range(len(others))]) == [
        (rank, inter.rank) for rank in others
    ]
    assert inter.allreduce([comm.rank], operator.add) == others
    for root_side in (0, 1):
        role = (MPI.ROOT if inter.rank == 0 else MPI.PROC_NULL) if side == root_side else 0
        here = side == root_side
        assert inter.bcast("word", role) == (None if here else "word")
        assert inter.gather("x" * comm.rank, role) == (words if role == MPI.ROOT else None)
        assert inter.scatter(others, role) == (None if here else comm.rank)
        assert inter.reduce([comm.rank], operator.add, role) == (
            others if role == MPI.ROOT else None
        )


def more_of_them(comm):
    """Dup, Split, Create, Merge and the comparison."""
    inter, side, others = joined(comm)
    again = inter.Dup()
    assert (inter.Compare(again), inter.Compare(inter)) == (MPI.CONGRUENT, MPI.IDENT)
    assert again.allgather(comm.rank) == others
    pair = inter.Split(inter.rank)
    count = min(inter.size, len(others))
    assert bool(pair) == (inter.rank < count)
    if pair:
        assert pair.allgather(comm.rank) == [comm.rank + (1 if side == 0 else -1)]
    chosen = inter.Create(inter.group.Incl([0]))
    assert bool(chosen) == (inter.rank == 0)
    whole = inter.Merge(high=side == 0)
    odd_first = [r for r in range(comm.size) if r % 2] + list(range(0, comm.size, 2))
    assert whole.allgather(comm.rank) == odd_first
    mixed = MPI.Intercomm.Create_from_groups(inter.group, 0, inter.remote_group, 0)
    assert mixed.Compare(inter) == MPI.CONGRUENT


BODIES = {
    body.__name__: body for body in (messages, buffers, scattered_sums, objects, more_of_them)
}
