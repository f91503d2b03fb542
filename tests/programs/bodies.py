"""Every body of the tests of messages, collectives and windows as one program."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import bodies_collectives
import bodies_intercomm
import bodies_p2p
import bodies_windows
from mpi4py import MPI

comm = MPI.COMM_WORLD
ALL = {**bodies_p2p.BODIES, **bodies_collectives.BODIES, **bodies_windows.BODIES}
if comm.size > 1:
    ALL |= bodies_intercomm.BODIES
for name, body in ALL.items():
    body(comm.Dup())
    comm.Barrier()
    if comm.rank == 0:
        print(f"{name} at {MPI.Wtime() * 1e6:.6f} us")
