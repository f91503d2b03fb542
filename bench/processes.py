"""Print what a world costs in one process and in several: wall time, CPU time, and its digest.

    python -m bench.processes [--processes 1 2 4] [--ranks 768] [--steps 100] [--rounds 3]

The program is `bench/halo.py`, started as a user starts it: `mpirun -n P ubnet run -n 768 ...`. The
commands of a round run one after the other, so that what else the machine does falls on all of them
alike. `wall` is the time of the whole command, `steps` that of the program's steps alone; both are
the least of all rounds, as are the CPU times, of the process that holds the clock and of that which
comes next. The ratios are to the first number of processes: of the least times, and the middle one
of the ratios of each round. Where others want the cores, as many processes as cores get less of
them each than one alone does, and the ratios say that. Virtual time and digest must be the same for
all; if they are not the status is 1.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
MPIRUN = Path(sys.executable).with_name("mpirun")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: seconds of the command and of the steps, CPU of each process, what it printed."""

    wall: float
    steps: float
    cpu: list[float]
    printed: str


def measure(processes: int, ranks: int, steps: int) -> Run:
    """Run the program once."""
    command = [str(MPIRUN), "--allow-run-as-root", "--oversubscribe", "-n", str(processes)]
    command += [sys.executable, "-m", "ubnet", "run", "-n", str(ranks), "--digest"]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    begun = time.perf_counter()
    done = subprocess.run(
        [*command, "bench/halo.py", str(steps)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=variables,
    )
    wall = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(done.stderr)
    told: list[dict[str, Any]] = [
        json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")
    ]
    told.sort(key=lambda line: line["rank"])
    cpu: dict[int, float] = {}
    for line in told:
        cpu[line["process"]] = max(line["cpu"], cpu.get(line["process"], 0.0))
    return Run(wall, told[0]["wall"], list(cpu.values()), done.stdout)


def main() -> None:
    """Measure in rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2, 4], help="how many; ratios to the first"
    )
    parser.add_argument("--ranks", type=int, default=768)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    counts = given.processes
    runs: dict[int, list[Run]] = {count: [] for count in counts}
    for _ in range(given.rounds):
        for count in counts:
            runs[count].append(measure(count, given.ranks, given.steps))
    title = f"{given.ranks} ranks, {given.steps} steps, {os.cpu_count()} cores"
    heads = ["wall s", "ratio", "each round", "steps s", "ratio", "clock CPU s", "next CPU s"]
    table = Table("processes", *heads, title=title)
    for count in counts:
        table.add_row(str(count), *_cells(runs[count], runs[counts[0]]))
    console = Console(width=100)
    console.print(table)
    printed = sorted({run.printed for rows in runs.values() for run in rows})
    console.print("".join(printed).rstrip(), highlight=False)
    if len(printed) > 1:
        raise SystemExit("virtual times or digests differ")


def _cells(runs: list[Run], alone: list[Run]) -> list[str]:
    wall, steps = min(run.wall for run in runs), min(run.steps for run in runs)
    each = statistics.median(a.wall / b.wall for a, b in zip(runs, alone, strict=True))
    whole = wall / min(run.wall for run in alone)
    inner = steps / min(run.steps for run in alone)
    cpu = [min(times) for times in zip(*(run.cpu for run in runs), strict=True)]
    row = [f"{wall:.2f}", f"{whole:.2f}", f"{each:.2f}", f"{steps:.2f}", f"{inner:.2f}"]
    return [*row, f"{cpu[0]:.2f}", f"{cpu[1]:.2f}" if len(cpu) > 1 else ""]


if __name__ == "__main__":
    main()
