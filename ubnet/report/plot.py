"""A picture of a bench: latency and bus bandwidth against size, every series labelled in place."""

from collections.abc import Sequence
from errno import ENOENT
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ubnet.errors import OptionError
from ubnet.report.row import Row
from ubnet.units import format_size

COLOURS = ("#0b6e99", "#c4501b", "#4b7f2a", "#7a3e9d", "#8a6d00", "#b0336d", "#3d3d3d", "#009e8e")
"""Colours told apart in print and by most colour-blind readers, one a way of moving bytes."""

DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
"""Line styles, one a case."""

SUFFIXES = (".png", ".svg", ".pdf")
"""Formats of a picture."""

LABEL_GAP = 0.052
"""Smallest distance between two labels, as a part of the panel's height."""


class Series(NamedTuple):
    """The rows of one line of the picture."""

    label: str
    colour: str
    dash: Any
    sizes: list[int]
    times: list[float]
    rates: list[float]


def plot_rows(rows: Sequence[Row], path: Path, title: str = "") -> None:
    """Draw latency (left) and bus bandwidth (right) against size into a file.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the same operation, case, algorithm, transport and plane become one line.
    path : Path
        Its suffix says the format: PNG, SVG or PDF.
    title : str
        What stands above the panels.

    Raises
    ------
    OptionError
        If no row has a size and a time, or as `check_picture`.
    """
    figure_class = check_picture(path)
    lines = series_of(rows)
    if not lines:
        raise OptionError("nothing to draw: no row has a size and a time above zero")
    figure = figure_class(figsize=(11, 4.6), dpi=140, layout="constrained")
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    left, right = figure.subplots(1, 2)
    _panel(left, "latency (us, virtual)", [(s, s.times) for s in lines])
    _panel(right, "bus bandwidth (GB/s = 1e9 B/s)", [(s, s.rates) for s in lines])
    figure.savefig(path)


def check_picture(path: Path) -> Any:
    """Return what draws a picture, if it can be drawn into a file of that name.

    Raises
    ------
    OptionError
        If matplotlib is not installed or the suffix is none of `SUFFIXES`.
    FileNotFoundError
        If the folder is not there.
    """
    if path.suffix not in SUFFIXES:
        raise OptionError(f"{path} is no picture: write FILE{', FILE'.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(path.parent))
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError('a picture needs matplotlib: pip install "ubnet[plot]"') from None
    return Figure


def series_of(rows: Sequence[Row]) -> list[Series]:
    """Sort rows into lines; a label names only what differs between the lines."""
    drawn = [r for r in rows if r.size_bytes > 0 and r.busbw_GBps]
    keys = list(dict.fromkeys(_key(r) for r in drawn))
    differs = [len({k[i] for k in keys}) > 1 for i in range(5)]
    cases = list(dict.fromkeys(k[:2] for k in keys))
    ways = list(dict.fromkeys(k[2:] for k in keys))
    found = []
    for key in keys:
        words = [word for word, told in zip(key, differs, strict=True) if told and word]
        mine = sorted((r for r in drawn if _key(r) == key), key=lambda r: r.size_bytes)
        found.append(
            Series(
                ", ".join(words) or " ".join(filter(None, key[:4])),
                COLOURS[ways.index(key[2:]) % len(COLOURS)],
                DASHES[cases.index(key[:2]) % len(DASHES)],
                [r.size_bytes for r in mine],
                [r.time_us for r in mine],
                [r.busbw_GBps or 0.0 for r in mine],
            )
        )
    return found


def spread_labels(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights in 0..1 apart until neighbours are `gap` apart, keeping their order.

    >>> [round(h, 3) for h in spread_labels([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    """
    order = np.argsort(np.asarray(heights), kind="stable")
    # Pool neighbours that are too close; a pool is centred on the mean of what it holds.
    pools: list[list[int]] = []
    for i in order:
        pools.append([int(i)])
        while len(pools) > 1 and _bottom(pools[-1], heights, gap) < _top(pools[-2], heights, gap):
            last = pools.pop()
            pools[-1] += last
    placed = [0.0] * len(heights)
    for pool in pools:
        start = _bottom(pool, heights, gap) + gap / 2
        for k, i in enumerate(pool):
            placed[i] = start + k * gap
    return placed


def _bottom(pool: Sequence[int], heights: Sequence[float], gap: float) -> float:
    middle = sum(heights[i] for i in pool) / len(pool)
    return float(middle - len(pool) * gap / 2)


def _top(pool: Sequence[int], heights: Sequence[float], gap: float) -> float:
    return _bottom(pool, heights, gap) + len(pool) * gap


def _key(row: Row) -> tuple[str, str, str, str, str]:
    return row.op, row.case, row.algorithm, row.transport, row.plane


def _panel(axes: Any, title: str, lines: list[tuple[Series, list[float]]]) -> None:
    """Draw one panel: log axes, sizes in binary units, a label at the end of each line."""
    for series, values in lines:
        axes.plot(
            series.sizes,
            values,
            color=series.colour,
            linestyle=series.dash,
            marker="o",
            markersize=3,
            linewidth=1.6,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("size")
    ticks = _size_ticks(sorted({size for series, _ in lines for size in series.sizes}))
    axes.set_xticks(ticks, [format_size(t) for t in ticks], fontsize=8)
    axes.minorticks_on()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(axis="y", labelsize=8)
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _label_ends(axes, lines)


def _size_ticks(sizes: list[int]) -> list[int]:
    """Choose at most seven of the sizes, the last one among them."""
    step = -(-len(sizes) // 7)
    return sizes[::-1][::step][::-1]


def _label_ends(axes: Any, lines: list[tuple[Series, list[float]]]) -> None:
    """Label every line at the end where the lines lie further apart."""
    axes.autoscale_view()
    first, last = (_heights(axes, lines, end) for end in (0, -1))
    left = _told_apart(first) > _told_apart(last)
    if left:
        low, high = np.log2(axes.get_xlim())
        longest = max(len(series.label) for series, _ in lines)
        axes.set_xlim(2 ** (low - (high - low) * 0.018 * longest), 2**high)
    end, heights = (0, first) if left else (-1, last)
    for (series, values), height in zip(lines, spread_labels(heights, LABEL_GAP), strict=True):
        point = (series.sizes[end], values[end])
        across = _part(axes, point)[0] - 0.03 if left else 1.03
        axes.annotate(
            series.label,
            xy=point,
            xytext=(across, height),
            textcoords="axes fraction",
            color=series.colour,
            fontsize=8,
            ha="right" if left else "left",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": series.colour, "linewidth": 0.6},
        )


def _heights(axes: Any, lines: list[tuple[Series, list[float]]], end: int) -> list[float]:
    return [_part(axes, (series.sizes[end], values[end]))[1] for series, values in lines]


def _part(axes: Any, point: tuple[float, float]) -> tuple[float, float]:
    """Return where a point lies, in parts of the panel's width and height."""
    across, up = (axes.transScale + axes.transLimits).transform(point)
    return float(across), float(up)


def _told_apart(heights: Sequence[float]) -> float:
    """Measure how far apart labels at these heights stand; what overlaps counts less."""
    return float(np.minimum(np.diff(np.sort(heights)), LABEL_GAP).sum())
