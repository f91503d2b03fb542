"""Print what calls cost in real time: ubnet's ranks in one process beside the real mpi4py's.

    python -m bench.calls [CASE ...] [--no-real]

Every figure is the least of many short runs: others on the machine only add to it. Beside the wall
time stands the CPU time, which is the same where nobody else wants the cores. The real one needs
mpirun beside this Python, as the extra `mpi` brings it; it has a process for each rank, and where
these are more than the cores its figure is that of the scheduler.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
MPIRUN = Path(sys.executable).with_name("mpirun")
RUNS = 60
MOST_PROCESSES = 8

Step = Callable[[Any], Callable[[], Any]]


def pair(comm: Any) -> Callable[[], Any]:
    """Return one message of 8 bytes: a blocking send and its receive."""
    data = np.zeros(8, dtype=np.uint8)
    return (lambda: comm.Send(data, 1)) if comm.rank == 0 else (lambda: comm.Recv(data, 0))


def pair_of_objects(comm: Any) -> Callable[[], Any]:
    """Return one message that is an int."""
    return (lambda: comm.send(1, 1)) if comm.rank == 0 else (lambda: comm.recv(source=0))


def ping_pong(comm: Any) -> Callable[[], Any]:
    """Return a message of 8 bytes there and another back: two pairs."""
    data, other = np.zeros(8, dtype=np.uint8), 1 - comm.rank

    def step() -> None:
        if comm.rank == 0:
            comm.Send(data, other)
            comm.Recv(data, other)
        else:
            comm.Recv(data, other)
            comm.Send(data, other)

    return step


def all_reduce(comm: Any) -> Callable[[], Any]:
    """Return a sum of one double on all ranks."""
    mine, total = np.ones(1), np.zeros(1)
    return lambda: comm.Allreduce(mine, total)


def barrier(comm: Any) -> Callable[[], Any]:
    """Return a barrier."""
    return lambda: comm.Barrier()


def halo(comm: Any) -> Callable[[], Any]:
    """Return an exchange of 1 KiB with both neighbours on a ring."""
    sent, got = np.zeros(1024, dtype=np.uint8), np.zeros(1024, dtype=np.uint8)
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size

    def step() -> None:
        comm.Sendrecv(sent, right, 0, got, left, 0)
        comm.Sendrecv(sent, left, 1, got, right, 1)

    return step


# Name: ranks, steps a run, what a step is, the most microseconds that it may take.
CASES: dict[str, tuple[int, int, Step, int | None]] = {
    "send and recv of 8 bytes": (2, 100, pair, 25),
    "send and recv of an int": (2, 100, pair_of_objects, None),
    "ping-pong of 8 bytes": (2, 50, ping_pong, 50),
    "all_reduce of 1 double, 8 ranks": (8, 10, all_reduce, 300),
    "barrier, 8 ranks": (8, 10, barrier, None),
    "halo exchange of 1 KiB, 8 ranks": (8, 10, halo, None),
    "all_reduce of 1 double, 64 ranks": (64, 2, all_reduce, None),
    "halo exchange of 1 KiB, 64 ranks": (64, 2, halo, None),
}


def seconds(comm: Any, name: str) -> tuple[float, float]:
    """Return the least wall time of a step and the least CPU time, as this rank sees them."""
    _, steps, make, _ = CASES[name]
    step = make(comm)
    wall, cpu = [], []
    for _ in range(RUNS):
        comm.Barrier()
        begun, used = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        comm.Barrier()
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    return min(wall) / steps, min(cpu) / steps


def virtual(name: str) -> tuple[float, float]:
    """Return what a step costs on ubnet's ranks."""
    import ubnet

    found: tuple[float, float] = ubnet.run(seconds, CASES[name][0], args=(name,)).values[0]
    return found


def real(name: str) -> float | None:
    """Return the wall time on real processes, None where they cannot be started."""
    if not MPIRUN.exists():
        return None
    command = [str(MPIRUN), "--allow-run-as-root", "--oversubscribe", "-n", str(CASES[name][0])]
    shown = subprocess.run(
        [*command, sys.executable, "-m", "bench.calls", "--one", name],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return float(json.loads(shown.stdout)) if shown.returncode == 0 else None


def one(name: str) -> None:
    """Be one of the real processes: the first prints the figure."""
    from mpi4py import MPI

    wall, _ = seconds(MPI.COMM_WORLD, name)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(wall))


def _micro(found: float | None) -> str:
    return "" if found is None else f"{1e6 * found:.1f}"


def main() -> None:
    """Measure each case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help=f"of: {'; '.join(CASES)}")
    parser.add_argument("--no-real", action="store_true", help="leave the real mpi4py out")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one)
        return
    heads = ["wall us", "CPU us", "at most us", "mpi4py wall us"]
    table = Table("call", *heads, title=f"{os.cpu_count()} cores")
    for name in given.names or CASES:
        ranks, _, _, most = CASES[name]
        beside = None if given.no_real or ranks > MOST_PROCESSES else real(name)
        wall, cpu = virtual(name)
        table.add_row(
            name, _micro(wall), _micro(cpu), "" if most is None else str(most), _micro(beside)
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
