"""Heat flows through a plate that ranks share: each step they exchange the edges of their parts.

Run it with `ubnet run -n 24 --place npu examples/halo_exchange.py`. It prints:

    24 ranks as 6 x 4, 16 x 16 cells each
    40 steps in 143.85 us, at most 92.55 us in exchanges
    same as one rank alone: True
    warmth: 18896.011
"""

import numpy as np
from mpi4py import MPI

import ubnet

ROWS, COLUMNS, STEPS = 96, 64, 40
CELL_SECONDS = 5e-9
"""What updating a cell takes, assumed."""


def neighbours(place: int, sides: tuple[int, int]) -> list[int]:
    """Return the ranks above, below, left and right; PROC_NULL beyond the edge."""
    rows, columns = sides
    row, column = divmod(place, columns)
    around = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
    return [
        r * columns + c if 0 <= r < rows and 0 <= c < columns else MPI.PROC_NULL for r, c in around
    ]


def exchange(comm: MPI.Intracomm, part: np.ndarray, around: list[int]) -> None:
    """Fill the halo of a part with the edges of the parts around it."""
    edges = (part[1, 1:-1], part[-2, 1:-1], part[1:-1, 1], part[1:-1, -2])
    halos = (part[0, 1:-1], part[-1, 1:-1], part[1:-1, 0], part[1:-1, -1])
    came = [np.empty_like(halo) for halo in halos]
    requests = [comm.Irecv(came[i], other, i ^ 1) for i, other in enumerate(around)]
    for i, other in enumerate(around):
        requests.append(comm.Isend(np.ascontiguousarray(edges[i]), other, i))
    MPI.Request.Waitall(requests)
    for halo, values, other in zip(halos, came, around, strict=True):
        if other != MPI.PROC_NULL:
            halo[:] = values


def update(part: np.ndarray) -> None:
    """Let every inner cell take the mean of those around it."""
    inside = part[:-2, 1:-1] + part[2:, 1:-1] + part[1:-1, :-2] + part[1:-1, 2:]
    part[1:-1, 1:-1] = inside / 4
    ubnet.compute(inside.size * CELL_SECONDS)


def main() -> None:
    """Heat the upper edge of a plate, and compare with one rank that has it all."""
    comm = MPI.COMM_WORLD
    rows, columns = MPI.Compute_dims(comm.size, 2)
    height, width = ROWS // rows, COLUMNS // columns
    part = np.zeros((height + 2, width + 2))
    around = neighbours(comm.rank, (rows, columns))
    if around[0] == MPI.PROC_NULL:
        part[0] = 100.0
    begin = MPI.Wtime()
    waited = 0.0
    for _ in range(STEPS):
        before = MPI.Wtime()
        exchange(comm, part, around)
        waited += MPI.Wtime() - before
        update(part)
    lasted = comm.reduce(MPI.Wtime() - begin, op=MPI.MAX)
    waited = comm.reduce(waited, op=MPI.MAX)
    parts = comm.gather(part[1:-1, 1:-1])
    if comm.rank == 0:
        whole = np.block([parts[r * columns : (r + 1) * columns] for r in range(rows)])
        alone = np.zeros((ROWS + 2, COLUMNS + 2))
        alone[0] = 100.0
        for _ in range(STEPS):
            update(alone)
        print(f"{comm.size} ranks as {rows} x {columns}, {height} x {width} cells each")
        print(f"{STEPS} steps in {1e6 * lasted:.2f} us, at most {1e6 * waited:.2f} us in exchanges")
        print(f"same as one rank alone: {bool((whole == alone[1:-1, 1:-1]).all())}")
        print(f"warmth: {whole.sum():.3f}")


if __name__ == "__main__":
    main()
