"""A seeded random program: staggered ranks, collectives of groups, messages, polls."""

import sys

import numpy as np
from mpi4py import MPI

import ubnet

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
dice = np.random.default_rng(int(sys.argv[1]))  # the same on every rank


def message():
    source, dest = dice.choice(ranks, 2, replace=False)
    size = int(dice.choice([0, 1, 500, 9000, 20_000]))
    if rank == source:
        data = np.full(size, float(rank))
        comm.Send(data, dest, tag=size)
        data[:] = -1
    elif rank == dest:
        if size % 2:
            while not comm.Iprobe(MPI.ANY_SOURCE, size):
                pass
        got = np.zeros(size)
        comm.Recv(got, MPI.ANY_SOURCE, size)
        assert (got == source).all()


def group_sum():
    members = np.sort(dice.choice(ranks, int(dice.integers(1, ranks + 1)), replace=False))
    group = comm.Split(0 if rank in members else MPI.UNDEFINED, rank)
    if rank in members:
        assert group.allreduce(rank) == members.sum()
        group.Free()


def reduction():
    root, count = int(dice.integers(ranks)), int(dice.choice([0, 1, 7, 3000]))
    mine, out = np.full(count, float(rank)), np.zeros(count)
    comm.Reduce(mine, out, root=root)
    assert rank != root or (out == ranks * (ranks - 1) / 2).all()
    mine[:] = -1


def exchange():
    mine = np.arange(2.0 * ranks) + 100 * rank
    out = np.zeros(2 * ranks)
    comm.Alltoall(mine, out)
    assert (out[::2] == 100 * np.arange(ranks) + 2 * rank).all()
    mine[:] = -1


CALLS = (message, message, group_sum, reduction, exchange)
for _ in range(25):
    delays = dice.exponential(20e-6, ranks)
    ubnet.compute(float(delays[rank]))
    CALLS[dice.integers(len(CALLS))]()
print(rank, MPI.Wtime())
