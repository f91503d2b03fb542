"""Wildcard receives, polling loops and collectives in one program; each rank prints a line."""

import numpy as np
import shared
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
heard = []
for turn in range(3):
    collector = turn * 5 % size
    if rank == collector:
        for _ in range(size - 1):
            status = MPI.Status()
            if turn % 2:
                while not comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG):
                    pass
            data = np.zeros(40_000)
            comm.Recv(data, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            heard.append((status.source, status.tag, int(data[0])))
    else:
        length = 40_000 if rank % 3 == 0 else 10 * rank
        comm.Send(np.full(max(length, 1), float(rank)), collector, tag=turn)
    total = np.zeros(1000)
    comm.Allreduce(np.full(1000, rank + 1.0), total)
    assert (total == size * (size + 1) / 2).all()
    request = comm.irecv(source=(rank - 1) % size, tag=9)
    comm.send(rank, (rank + 1) % size, tag=9)
    while not request.test()[0]:
        pass
everything = comm.gather(heard, root=0)
half = comm.Split(rank % 2)
print(rank, half.allreduce(rank), comm.scan(rank), shared.rank, f"{MPI.Wtime() * 1e6:.6f}")
if rank == 0:
    print(everything)
