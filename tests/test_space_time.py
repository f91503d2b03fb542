"""The picture of a run: when transfers begin, how full each tier is, and that a file is drawn."""

import numpy as np
import pytest

from ubnet.collectives import build
from ubnet.fabrics import load_fabric
from ubnet.report.space_time import plot_run, starts_us, tier_loads
from ubnet.timing import time_schedule

FABRIC = load_fabric("cloudmatrix384")


@pytest.mark.parametrize("algorithm", ["mesh", "ring", "nhr"])
def test_times_and_loads(algorithm, tmp_path):
    schedule = build("all_reduce", 32, 32_000, algorithm=algorithm)
    timing = time_schedule(schedule, FABRIC, np.arange(32), 4, "aiv")
    moved = schedule.transfers
    begin, end = starts_us(schedule, timing), timing.op_end_ps / 1e6
    assert (begin[moved] < end[moved]).all()
    assert begin.min() == 0
    loads = {name: (mean, most) for name, mean, most in tier_loads(timing, FABRIC)}
    assert {"memory", "write engine"} <= set(loads)
    assert max(most for _, most in loads.values()) == pytest.approx(timing.busiest_utilisation)
    assert all(0 < mean <= most + 1e-9 <= 1 + 1e-8 for mean, most in loads.values())
    plot_run(schedule, timing, FABRIC, tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_nothing_to_draw(tmp_path):
    schedule = build("all_reduce", 4, 0)
    timing = time_schedule(schedule, FABRIC, np.arange(4), 4, "aiv")
    plot_run(schedule, timing, FABRIC, tmp_path / "run.svg")
