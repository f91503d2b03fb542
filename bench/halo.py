"""The program that `bench.processes` runs: sums over all ranks, and exchanges with neighbours.

`ubnet run -n 768 bench/halo.py [STEPS]` runs it alone. Each step is an all-reduce of one double and
a halo exchange of 1 KiB with both neighbours on a ring. Every 192nd rank says at its end what its
process has used up to there, as a line of JSON on stderr.
"""

import json
import os
import sys
import time

import numpy as np
from mpi4py import MPI

TELLS = 192


def main() -> None:
    """Run the steps, and check what they have brought."""
    comm = MPI.COMM_WORLD
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    mine, total = np.ones(1), np.zeros(1)
    sent, got = np.full(1024, comm.rank % 251, dtype=np.uint8), np.zeros(1024, dtype=np.uint8)
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    comm.Barrier()
    begun = time.perf_counter()
    for _ in range(steps):
        comm.Allreduce(mine, total)
        comm.Sendrecv(sent, right, 0, got, left, 0)
        comm.Sendrecv(sent, left, 1, got, right, 1)
    comm.Barrier()
    assert total[0] == comm.size
    assert (got == right % 251).all()
    if comm.rank % TELLS == 0:
        wall, cpu = time.perf_counter() - begun, time.process_time()
        told = {"process": os.getpid(), "rank": comm.rank, "wall": wall, "cpu": cpu}
        print(json.dumps(told), file=sys.stderr)


if __name__ == "__main__":
    main()
