"""Every collective with every rank late in turn: results, and buffers that are one's own again."""

import numpy as np
from mpi4py import MPI

import ubnet

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size


def reduce(mine, out, root):
    comm.Reduce(mine, out, MPI.SUM, root)


def own_reduce(mine, out, root):
    def add(left, right, datatype):
        np.frombuffer(right, "f8")[:] += np.frombuffer(left, "f8") + 0 * comm.rank

    op = MPI.Op.Create(add, commute=False)
    comm.Reduce(mine, out, op, root)
    op.Free()


def broadcast(mine, out, root):
    comm.Bcast(mine, root)
    out[:] = mine


def gather(mine, out, root):
    comm.Gather(mine[:3].copy(), out if rank == root else None, root)


def scatter(mine, out, root):
    comm.Scatter(mine if rank == root else None, out[:3], root)


def all_gather(mine, out, root):
    comm.Allgather(mine[:3].copy(), out)


def started(mine, out, root):
    request = comm.Iallreduce(mine, out)
    ubnet.compute(rank * 1e-6)
    request.Wait()


CALLS = [
    reduce,
    own_reduce,
    broadcast,
    gather,
    scatter,
    all_gather,
    started,
    lambda mine, out, root: comm.Allreduce(mine, out),
    lambda mine, out, root: comm.Alltoall(mine, out),
    lambda mine, out, root: comm.Reduce_scatter_block(mine, out[:3]),
    lambda mine, out, root: comm.Scan(mine, out),
    lambda mine, out, root: comm.Barrier(),
]

seen = []
for late in range(ranks):
    for root, call in enumerate(CALLS):
        mine, out = np.arange(3.0 * ranks) + rank, np.zeros(3 * ranks)
        if rank == late:
            ubnet.compute(1e-4)
        call(mine, out, root % ranks)
        seen.append(out.sum())
        mine[:], out[:] = -7, -9
print(rank, [float(s) for s in seen], MPI.Wtime())
