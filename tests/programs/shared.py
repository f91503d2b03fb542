"""A module of the program's own: each rank has its copy."""

from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
MPI.COMM_WORLD.Barrier()
