"""A token goes around a ring of ranks: what a hop costs, and where the slow ones are.

Run it with `ubnet run -n 32 examples/ring_latency.py`. It prints:

    # 32 ranks, 10 rounds; a hop is one message to the next rank
       bytes  a round (us)  a hop (us)              slowest hop
           8        49.213       1.538       4.001 from rank 31
        1024        49.388       1.543       4.007 from rank 15
       65536        60.499       1.891       4.400 from rank 15
     1048576       229.996       7.187      10.394 from rank 15
"""

import numpy as np
from mpi4py import MPI

ROUNDS = 10


def main() -> None:
    """Send tokens of several sizes around, and take the time of each hop."""
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    if rank == 0:
        print(f"# {size} ranks, {ROUNDS} rounds; a hop is one message to the next rank")
        print(f"{'bytes':>8} {'a round (us)':>13} {'a hop (us)':>11} {'slowest hop':>24}")
    for nbytes in (8, 1024, 65536, 1 << 20):
        token = np.zeros(nbytes, np.uint8)
        hop, begin = 0.0, MPI.Wtime()
        for _ in range(ROUNDS):
            if rank == 0:
                comm.Send(token, right)
                comm.Recv(token, left)
            else:
                comm.Recv(token, left)
                token += 1
                sent = MPI.Wtime()
                comm.Ssend(token, right)
                hop = max(hop, MPI.Wtime() - sent)
        lasted = (MPI.Wtime() - begin) / ROUNDS
        assert rank > 0 or token[0] == (ROUNDS * (size - 1)) % 256
        slowest, where = comm.reduce((hop, -rank), op=MPI.MAX) or (0.0, 0)
        if rank == 0:
            hop_us, far = 1e6 * lasted / size, f"{1e6 * slowest:.3f} from rank {-where}"
            print(f"{nbytes:>8} {1e6 * lasted:>13.3f} {hop_us:>11.3f} {far:>24}")


if __name__ == "__main__":
    main()
