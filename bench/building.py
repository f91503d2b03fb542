"""How long it takes to build and to time every algorithm of every operation on 768 ranks.

``python bench/building.py`` prints one table, CPU seconds of this process in its parts: building
the schedule, turning it into flows, running these; beside them the time that passes. ``--ranks``,
``--sizes``, ``--ops`` and ``--algo`` make it shorter. Two more rows are bars of the flow engine
itself: the direct all-to-all with 64 KiB a pair (589,056 flows, 0.5 s) and the ring all_reduce
(3 s), both the way that everybody does it. Exit status 1 where a case takes longer than is allowed:
3 s, or its bar.
"""

import argparse
import sys
import time

import numpy as np

from ubnet.collectives import OPERATIONS
from ubnet.collectives.choice import made
from ubnet.collectives.registry import Operation
from ubnet.errors import ScheduleError
from ubnet.fabric import Fabric, Ints
from ubnet.fabrics import load_fabric
from ubnet.flowsim import FlowSim
from ubnet.memory import capacity_with_memory
from ubnet.portions import Portions
from ubnet.timing import pick_transport, schedule_flows, time_schedule
from ubnet.units import format_size, parse_size

ALLOWED = 3.0
BARS = (("all_to_all", "mesh", 768 * 65536, 0.5), ("all_reduce", "ring", 1 << 20, 3.0))
"""Operation, algorithm, size and the seconds that it may take."""


class Watch:
    """CPU seconds since the last call."""

    def __init__(self) -> None:
        self.last = time.process_time()

    def __call__(self) -> float:
        before, self.last = self.last, time.process_time()
        return self.last - before


def parts(
    known: Operation, algorithm: str, fabric: Fabric, places: Ints, count: int
) -> tuple[int, list[float]]:
    """Build and time a case part by part: return its operations and the seconds of each part."""
    watch = Watch()
    schedule = made(known, algorithm, fabric, places, count)
    took = [watch()]
    transport, _ = pick_transport(schedule, fabric, places, 4)
    flows = schedule_flows(schedule, fabric, places, 4, transport)
    took.append(watch())
    Portions.of(flows).run(flows, FlowSim(capacity_with_memory(fabric)))
    took.append(watch())
    return len(schedule), took


def bar(op: str, algorithm: str, size: int, allowed: float, fabric: Fabric, places: Ints) -> bool:
    """Print the best of three runs of a case beside its bar; return whether it is met."""
    known, best = OPERATIONS[op], np.inf
    for _ in range(3):
        watch = Watch()
        schedule = made(known, algorithm, fabric, places, known.count_of(size, len(places), 4))
        time_schedule(schedule, fabric, places, 4)
        best = min(best, watch())
    print(f"{op} {algorithm} {format_size(size)}: {best:.2f} s, at most {allowed} s")
    return best <= allowed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=768)
    parser.add_argument("--ops", default=",".join(OPERATIONS))
    parser.add_argument("--algo", default="")
    parser.add_argument("--sizes", default="1KiB,1MiB,256MiB")
    given = parser.parse_args()
    fabric, places = load_fabric("cloudmatrix384"), np.arange(given.ranks)
    parts(OPERATIONS["all_reduce"], "ring", fabric, places[:8], 1000)  # loads the kernels
    heads = ("build", "flows", "run", "CPU s", "wall s")
    print(f"{'operation':17s}{'algorithm':20s}{'size':>8s}{'operations':>12s}", end="")
    print("".join(f"{head:>8s}" for head in heads))
    slow = []
    for op in given.ops.split(","):
        known = OPERATIONS[op]
        for algorithm in given.algo.split(",") if given.algo else known.algorithms:
            for size in given.sizes.split(",") if op != "barrier" else ["0"]:
                count = known.count_of(parse_size(size), given.ranks, 4)
                if algorithm not in known.algorithms or not (count or op == "barrier"):
                    continue
                begun = time.perf_counter()
                try:
                    operations, took = parts(known, algorithm, fabric, places, count)
                except ScheduleError:
                    continue  # not for so many ranks
                seconds = [*took, sum(took), time.perf_counter() - begun]
                print(f"{op:17s}{algorithm:20s}{size:>8s}{operations:12,d}", end="")
                print("".join(f"{second:8.2f}" for second in seconds), flush=True)
                slow += [f"{op} {algorithm} {size}"] * (sum(took) > ALLOWED)
    met = [bar(*row, fabric, places) for row in BARS if given.ranks == 768]
    print("longer than 3 s: " + (", ".join(slow) or "none"))
    sys.exit(bool(slow) or not all(met))


if __name__ == "__main__":
    main()
