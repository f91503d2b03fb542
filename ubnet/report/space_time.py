"""A picture of one run: ranks down, time across, coloured by step; and the load of each tier."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import Fabric
from ubnet.memory import capacity_with_memory
from ubnet.report.plot import check_picture
from ubnet.report.whole_file import whole_file
from ubnet.schedule import Schedule
from ubnet.timing import Timing

PS_PER_US = 1e6

MOST_LINES = 60_000
"""Transfers that are drawn: of more, an even sample."""


def plot_run(
    schedule: Schedule, timing: Timing, fabric: Fabric, path: Path, title: str = ""
) -> None:
    """Draw when every rank sends (left), and how full each tier was (right), into a file.

    A line is a transfer on the row of its source, from where all that it waits for has ended to its
    own end, so it holds the start-up, the wire, and a reduction.

    Parameters
    ----------
    schedule : Schedule
        What was done.
    timing : Timing
        When, as `ubnet.timing.time_schedule` says.
    fabric : Fabric
        Where.
    path : Path
        Its suffix says the format: PNG, SVG or PDF.
    title : str
        What stands above.

    Raises
    ------
    OptionError
        If the picture cannot be drawn (`ubnet.report.plot.check_picture`).
    """
    figure = check_picture(path)(figsize=(12, 5), dpi=140, layout="constrained")
    figure.suptitle(title or schedule.name, fontsize=11, x=0.01, ha="left")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    _lines(left, figure, schedule, timing)
    _tiers(right, timing, fabric)
    with whole_file(path) as draft:
        figure.savefig(draft)


def starts_us(schedule: Schedule, timing: Timing) -> NDArray[np.float64]:
    """Return when each operation could begin: the latest end of what it waits for."""
    ready = np.zeros(len(schedule), dtype=np.int64)
    operation = np.repeat(np.arange(len(schedule)), np.diff(schedule.dep_ptr))
    np.maximum.at(ready, operation, timing.op_end_ps[schedule.dep])
    return ready / PS_PER_US


def tier_loads(timing: Timing, fabric: Fabric) -> list[tuple[str, float, float]]:
    """Return name, mean and largest utilisation of every tier that carried something.

    The mean is over the resources of the tier that were used at all.
    """
    capacity = capacity_with_memory(fabric)
    names = [*fabric.resource_tiers, *["memory"] * (len(capacity) - len(fabric.resource_tiers))]
    seconds = max(timing.time_ps, 1) * 1e-12
    used = timing.resource_bytes / capacity / seconds
    found = []
    for tier in dict.fromkeys(names):
        mine = used[np.array([name == tier for name in names])]
        if mine.max(initial=0.0) > 0:
            found.append((tier, float(mine[mine > 0].mean()), float(mine.max())))
    return found


def _lines(axes: Any, figure: Any, schedule: Schedule, timing: Timing) -> None:
    from matplotlib.collections import LineCollection

    moved = np.flatnonzero(schedule.transfers)
    moved = moved[:: -(-len(moved) // MOST_LINES) or 1]
    begin, end = starts_us(schedule, timing)[moved], timing.op_end_ps[moved] / PS_PER_US
    row = schedule.src[moved]
    ends = np.stack([np.stack([begin, row], axis=-1), np.stack([end, row], axis=-1)], axis=1)
    lines = LineCollection(
        list(ends), array=schedule.step[moved], cmap="viridis", linewidths=1.2, rasterized=True
    )
    axes.add_collection(lines)
    axes.set_xlim(0, max(timing.time_ps / PS_PER_US, 1e-6))
    axes.set_ylim(schedule.ranks - 0.5, -0.5)
    axes.set_xlabel("time (us, virtual)")
    axes.set_ylabel("rank that sends")
    axes.spines[["top", "right"]].set_visible(False)
    if len(moved) and np.ptp(schedule.step[moved]):
        figure.colorbar(lines, ax=axes, label="step", fraction=0.03, pad=0.01)


def _tiers(axes: Any, timing: Timing, fabric: Fabric) -> None:
    loads = tier_loads(timing, fabric)
    place = np.arange(len(loads))
    axes.barh(place, [most for _, _, most in loads], color="#c9d8e0", label="fullest")
    axes.barh(place, [mean for _, mean, _ in loads], height=0.45, color="#0b6e99", label="mean")
    axes.set_yticks(place, [name for name, _, _ in loads], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_title("load of each tier, of those used", loc="left", fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
