"""Run mpi4py's demonstrations on ubnet's ranks, unchanged: OSU's benchmarks, the book's examples.

python tests/mpi4py_demos.py              # all in full, which takes minutes
python tests/mpi4py_demos.py --short osu  # OSU's scripts with few repetitions
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import mpi4py_suite as judge

OSU = {
    **{"osu_latency": 2, "osu_bw": 2, "osu_bibw": 2, "osu_multi_lat": 4, "osu_barrier": 8},
    **{"osu_bcast": 8, "osu_gather": 8, "osu_scatter": 8, "osu_allgather": 8},
    **{"osu_alltoall": 8, "osu_alltoallv": 8},
}
"""OSU's scripts, and at how many ranks each is run."""

BOOK = "mpi-ref-v1"
BOOK_SCRIPTS = 19


def scripts() -> dict[Path, int]:
    """Return the scripts and at how many ranks each is run; the book's say so themselves."""
    folder = judge.suite().parent / "demo"
    of_book = sorted((folder / BOOK).glob("ex-*.py"))
    return {folder / f"{name}.py": ranks for name, ranks in OSU.items()} | {
        path: int((re.findall(r"mpiexec -n (\d+)", path.read_text()) or [1])[0]) for path in of_book
    }


def arguments(
    script: Path, ranks: int, *options: str, short: bool = False, largest: int | None = None
) -> list[str]:
    """Return what follows ``ubnet`` on the command line; `largest` bounds a short run's sizes."""
    program = [str(script)]
    if short and script.stem in OSU:
        program.insert(0, str(Path(__file__).parent / "short_demo.py"))
        program += [] if largest is None else [str(largest)]
    return ["run", "-n", str(ranks), *options, *program]


def table(printed: str) -> dict[int, float]:
    """Return the figure of each size that a script of OSU's printed.

    >>> table("# Size [B]  Latency [us]\\n         8                2.07\\n")
    {8: 2.07}
    """
    rows = [line.split() for line in printed.splitlines() if not line.startswith("#")]
    return {int(size): float(figure) for size, figure in rows}


def main(names: Sequence[str] | None = None) -> int:
    """Run scripts one by one and print how each ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of scripts' names; by default all")
    parser.add_argument("--short", action="store_true", help="OSU's with few repetitions")
    parser.add_argument("--show", action="store_true", help="print what they print")
    chosen = parser.parse_args(names)
    failed = 0
    for script, ranks in scripts().items():
        if chosen.names and not script.name.startswith(tuple(chosen.names)):
            continue
        apart = ("--place", "node") if script.stem in OSU else ()
        command = [sys.executable, "-m", "ubnet"]
        command += arguments(script, ranks, *apart, short=chosen.short)
        begun = time.monotonic()
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(judge.ROOT)},
            cwd=script.parent,
            capture_output=True,
            text=True,
        )
        failed += done.returncode != 0
        ended = "held" if done.returncode == 0 else f"ended with {done.returncode}"
        print(f"{script.name:18} {ranks:3} ranks {ended} in {time.monotonic() - begun:.0f} s")
        if chosen.show or done.returncode:
            print(done.stdout + done.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
