"""How much the automatic choice loses to the best single algorithm, over the whole grid.

``python bench/choice.py`` simulates every algorithm of every operation on 8, 64 and 768 ranks from
1 KiB to 256 MiB; ``--ranks 8,64`` and ``--factor 64`` make it shorter. Exit status 1 where auto is
worse than the best by more than 2 %. Also prints how long building and timing took at most.
"""

import argparse
import sys
import time

import numpy as np

from ubnet.collectives import OPERATIONS
from ubnet.collectives.choice import made
from ubnet.collectives.decision import weigh
from ubnet.fabrics import load_fabric
from ubnet.timing import time_schedule

ALLOWED = 1.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="8,64,768")
    parser.add_argument("--ops", default=",".join(OPERATIONS))
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--first", type=int, default=1 << 10)
    arguments = parser.parse_args()
    fabric = load_fabric("cloudmatrix384")
    worst, slowest, slowest_choice = (1.0, ""), (0.0, ""), (0.0, "")
    print("operation ranks bytes: chosen, its loss, seconds of the choice; best")
    for op in arguments.ops.split(","):
        known = OPERATIONS[op]
        for ranks in map(int, arguments.ranks.split(",")):
            places, size = np.arange(ranks), arguments.first
            while size <= 1 << 28:
                count = known.count_of(size, ranks, 4)
                if count or op == "barrier":
                    begun = time.process_time()
                    decision = weigh(op, fabric, places, count)
                    chosen = time.process_time() - begun
                    took = {}
                    for c in decision.candidates:
                        begun = time.process_time()
                        schedule = made(known, c.algorithm, fabric, places, count)
                        took[c.algorithm] = time_schedule(
                            schedule, fabric, places, 4, c.transport
                        ).time_ps
                        where = f"{op} {c.algorithm} {ranks} {size}"
                        slowest = max(slowest, (time.process_time() - begun, where))
                    best = min(took, key=lambda name: took[name])
                    loss = took[decision.algorithm] / took[best]
                    where = f"{op} {ranks} {size}"
                    worst = max(worst, (loss, where))
                    slowest_choice = max(slowest_choice, (chosen, where))
                    print(f"{where}: {decision.algorithm} {loss - 1:.1%} {chosen:.2f} s; {best}")
                    sys.stdout.flush()
                size = size * arguments.factor if op != "barrier" else 1 << 29
    print(f"worst loss {worst[0] - 1:.2%} at {worst[1]}")
    print(f"longest to build and time: {slowest[0]:.2f} s of CPU, {slowest[1]}")
    print(f"longest to choose: {slowest_choice[0]:.2f} s of CPU, {slowest_choice[1]}")
    sys.exit(worst[0] > ALLOWED)


if __name__ == "__main__":
    main()
