"""Print one table of the engine's workloads: time, peak memory, ratio to the naive twin, work.

    python -m bench.engine_table [NAME ...] [--repeat 3] [--twin]

Every workload runs in a process of its own, one thread; times are medians of CPU seconds and
include building the engine's tables. The first row is the first run after an installation, which
compiles all kernels of the engine; the processes of the others load them, as every later run does.
Memory is the peak of the process when it has run the workload once, with Python, Numba and the
workload's own arrays. ``--twin`` also runs the refill-everything kernel of tests/naive.py, compiled
by Numba, on those workloads that it ends within about a minute.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.instances import all_to_all, poisson
from tests.naive import compiled, naive_flows
from ubnet.bounds import lower_bounds
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim

Workload = dict[str, Any]


def direct_all_to_all() -> Workload:
    """Return 64 KiB from each to each of 768 dies: 589,056 flows over in, out and engine."""
    n = 768
    src, dst = (index.ravel() for index in np.indices((n, n)))
    src, dst = src[src != dst], dst[src != dst]
    return {
        "capacity": np.concatenate([np.full(2 * n, 196e9), np.full(n, 137e9)]),
        "start_ps": 0,
        "nbytes": 65536,
        "route_ptr": 3 * np.arange(len(src) + 1),
        "route_link": np.stack([src, n + dst, 2 * n + src], 1).ravel(),
    }


def ring() -> Workload:
    """Return a ring all_reduce of 768 ranks: 1.2 million flows that wait for each other."""
    n, steps = 768, 2 * 767
    rank = np.arange(n)
    waits = np.arange(n * (steps - 1))
    before = waits // n * n + (waits % n - 1) % n
    return {
        "capacity": np.concatenate([np.full(2 * n, 196e9), np.full(n, 137e9)]),
        "start_ps": 0,
        "nbytes": 1 << 17,
        "route_ptr": 3 * np.arange(n + 1),
        "route_link": np.stack([rank, n + (rank + 1) % n, 2 * n + rank], 1).ravel(),
        "dep_ptr": np.concatenate([np.zeros(n, np.int64), 2 * np.arange(len(waits) + 1)]),
        "dep": np.stack([waits, before], 1).ravel(),
        "startup_ps": 1000,
        "kind": np.tile(rank.astype(np.int32), steps),
    }


# Name: inputs, and the tolerance.
WORKLOADS: dict[str, tuple[Callable[[], Workload], float]] = {
    "a2a_uni_dmodk_384": (lambda: all_to_all("uni", "dmodk", 384), 0.0),
    "a2a_uni_ecmp_192": (lambda: all_to_all("uni", "ecmp", 192), 0.0),
    "a2a_uni_ecmp_384": (lambda: all_to_all("uni", "ecmp", 384), 0.0),
    "a2a_moe_ecmp_48": (lambda: all_to_all("moe", "ecmp", 48), 0.0),
    "a2a_moe_ecmp_96": (lambda: all_to_all("moe", "ecmp", 96), 0.0),
    "a2a_moe_ecmp_192": (lambda: all_to_all("moe", "ecmp", 192), 0.0),
    "a2a_moe_ecmp_384": (lambda: all_to_all("moe", "ecmp", 384), 0.0),
    "a2a_moe_ecmp_384 at 1e-3": (lambda: all_to_all("moe", "ecmp", 384), 1e-3),
    "poisson_10000_load50_384": (lambda: poisson(10_000, 0.5), 0.0),
    "poisson_10000_load90_384": (lambda: poisson(10_000, 0.9), 0.0),
    "poisson_100000_load50_384": (lambda: poisson(100_000, 0.5), 0.0),
    "poisson_100000_load90_384": (lambda: poisson(100_000, 0.9), 0.0),
    "direct a2a, 768 dies": (direct_all_to_all, 0.0),
    "ring all_reduce, 768 ranks": (ring, 0.0),
}
FIRST_RUN = "first run: compiles"
TWIN = ("a2a_uni_ecmp_192", "a2a_moe_ecmp_48", "a2a_moe_ecmp_96", "poisson_10000_load50_384")
MOST_S = 5.0  # a run that takes longer is not repeated


def measure(name: str, repeat: int, twin: bool) -> dict[str, Any]:
    """Run one workload and return its figures."""
    began = time.process_time()
    simulate_flows(**all_to_all("moe", "ecmp", 16))  # loads, or compiles
    if name == FIRST_RUN:
        compile_the_rest()
        return {"seconds": time.process_time() - began, "memory_MB": peak_mb()}
    make, tolerance = WORKLOADS[name]
    workload = make()
    columns = {key: value for key, value in workload.items() if key != "capacity"}
    seconds: list[float] = []
    memory_mb = 0.0
    while not seconds or (len(seconds) < repeat and seconds[-1] < MOST_S):
        began = time.process_time()
        sim = FlowSim(workload["capacity"], tolerance)
        sim.post(**columns)
        sim.run()
        seconds.append(time.process_time() - began)
        memory_mb = memory_mb or peak_mb()
    ends = sim.finish_ps
    bound_ps = lower_bounds(**workload).ps
    figures = {
        "seconds": statistics.median(seconds),
        "memory_MB": memory_mb,
        "makespan_ms": float(ends.max() / 1e9),
        "mean_us": float((ends - workload["start_ps"]).mean() / 1e6),
        "efficiency": bound_ps / int(ends.max()),
        "held_back": sim.held_back[0],
        **sim.counters,
    }
    if twin and name in TWIN:
        runner = compiled()
        naive_flows(**all_to_all("uni", "ecmp", 16), runner=runner)
        began = time.process_time()
        naive_flows(**workload, runner=runner)
        figures["twin_seconds"] = time.process_time() - began
    return figures


def compile_the_rest() -> None:
    """Call the kernels once that no workload needs: reports, clearing out, circles, bounds."""
    small = {"nbytes": [1, 1], "route_ptr": [0, 1, 2], "route_link": [0, 0]}
    waits = {"dep_ptr": [0, 1, 1], "dep": [1]}
    lower_bounds([1e9], 0, **small, **waits)
    crowd = all_to_all("moe", "ecmp", 24)
    sim = FlowSim(crowd.pop("capacity"))
    sim.post(**crowd)
    sim.run_until(300_000_000)
    sim.link_rate()  # of flows in rows
    sim.run()
    while sim.size < 2 * len(crowd["nbytes"]) + 2:  # rows of ended flows are needed again
        sim.post(**small)
        sim.run()


def peak_mb() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure each workload in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads; default all")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--one", action="store_true", help="this process; prints JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.names[0], given.repeat, given.twin)))
        return
    heads = "CPU s,MB,x twin,makespan ms,mean us,efficiency,events,reallocations,touched"
    table = Table("workload", *heads.split(","))
    options = [f"--repeat={given.repeat}", *(["--twin"] if given.twin else [])]
    with TemporaryDirectory() as compiled_code:
        for name in [FIRST_RUN, *(given.names or WORKLOADS)]:
            shown = subprocess.run(
                [sys.executable, "-m", "bench.engine_table", name, "--one", *options],
                capture_output=True,
                text=True,
                check=True,
                env=os.environ | {"NUMBA_CACHE_DIR": compiled_code},
            )
            table.add_row(name, *cells(json.loads(shown.stdout)))
    Console(width=150).print(table)


def cells(f: dict[str, Any]) -> list[str]:
    """Return a row of the table, as far as there are figures."""
    begun = [f"{f['seconds']:.3f}", f"{f['memory_MB']:.0f}"]
    if "makespan_ms" not in f:
        return begun
    return [
        *begun,
        f"{f['twin_seconds'] / f['seconds']:.1f}" if "twin_seconds" in f else "",
        f"{f['makespan_ms']:.9f}",
        f"{f['mean_us']:.6f}",
        f"{f['efficiency']:.3f}",
        *(f"{f[key]:,}" for key in ("events", "reallocations", "touched")),
    ]


if __name__ == "__main__":
    main()
