"""A ring all_reduce of 1 GiB on 768 dies: bus bandwidth by chunks a step, against 135 GB/s.

``python bench/ring.py``. 135 GB/s is what the write engine gives between nodes [P Table 1].
"""

import time

import numpy as np

from ubnet.collectives import build
from ubnet.fabrics import load_fabric
from ubnet.timing import time_schedule

RANKS, SIZE, ENGINE = 768, 1 << 30, 135e9


def main() -> None:
    fabric, places = load_fabric("cloudmatrix384"), np.arange(RANKS)
    print("chunks a step   time us   busbw GB/s   of 135 GB/s   efficiency   CPU s")
    for chunks in (1, 2):
        begun = time.process_time()
        schedule = build("all_reduce", RANKS, SIZE // 4, algorithm="ring", chunks=chunks)
        timing = time_schedule(schedule, fabric, places, 4, "aiv")
        busbw = 2 * (RANKS - 1) / RANKS * SIZE / (timing.time_ps * 1e-12)
        print(
            f"{chunks:13d} {timing.time_ps / 1e6:9.1f} {busbw / 1e9:12.2f} {busbw / ENGINE:13.1%} "
            f"{timing.efficiency:12.3f} {time.process_time() - begun:7.1f}"
        )


if __name__ == "__main__":
    main()
