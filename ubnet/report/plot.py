"""A picture of a bench: latency and bus bandwidth against size, every series labelled in place."""

from collections.abc import Sequence
from errno import ENOENT
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ubnet.errors import OptionError
from ubnet.report.row import Row
from ubnet.report.whole_file import whole_file
from ubnet.units import short_size

COLOURS = ("#0b6e99", "#c4501b", "#4b7f2a", "#7a3e9d", "#8a6d00", "#b0336d", "#3d3d3d", "#009e8e")
"""Colours told apart in print and by most colour-blind readers, one a way of moving bytes."""

DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
"""Line styles, one a case."""

BOUND_COLOUR, BOUND_DASH = "#888888", (0, (1, 1))
"""The look of the line that nothing can cross."""

SUFFIXES = (".png", ".svg", ".pdf")
"""Formats of a picture."""

POOL = "pool"
"""The operation whose ranks are the readers of one block each."""

LABEL_GAP = 0.052
"""Smallest distance between two labels, as a part of the panel's height."""


class Series(NamedTuple):
    """The rows of one line of the picture."""

    label: str
    colour: str
    dash: Any
    across: list[int]
    times: list[float]
    rates: list[float]
    marker: str = "o"


def plot_rows(rows: Sequence[Row], path: Path, where: str = "") -> None:
    """Draw latency (left) and bus bandwidth (right) against size into a file.

    Where all rows have one size they are drawn against their ranks. Where all are of one operation
    and case a dotted line is the bound (`bound_of`).

    Parameters
    ----------
    rows : sequence of Row
        Rows of the same operation, case, algorithm, transport and plane become one line.
    path : Path
        Its suffix says the format: PNG, SVG or PDF.
    where : str
        The fabric, for the title; what all rows share is added.

    Raises
    ------
    OptionError
        If no row has a size and a time, or as `check_picture`.
    """
    figure_class = check_picture(path)
    lines = series_of(rows)
    if not lines:
        raise OptionError("nothing to draw: no row has a size and a time above zero")
    lines += bound_of(rows)
    height = max(4.6, 0.2 * len(lines) + 1)  # room for a label of each
    figure = figure_class(figsize=(11, height), dpi=140, layout="constrained")
    figure.suptitle(_title(rows, where), fontsize=11, x=0.01, ha="left")
    left, right = figure.subplots(1, 2)
    against = "size" if _against_size(rows) else "readers" if rows[0].op == POOL else "ranks"
    _panel(left, "latency (us, virtual)", against, [(s, s.times) for s in lines])
    _panel(right, "bus bandwidth (GB/s = 1e9 B/s)", against, [(s, s.rates) for s in lines])
    with whole_file(path) as draft:
        figure.savefig(draft)


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
        raise OptionError(
            "a picture needs matplotlib: pip install matplotlib, or, where ubnet's sources are, "
            'pip install ".[plot]"'
        ) from None
    return Figure


def series_of(rows: Sequence[Row]) -> list[Series]:
    """Sort rows into lines; a label names only what differs between the lines."""
    sized = _against_size(rows)
    drawn = [r for r in rows if r.size_bytes > 0 and r.busbw_GBps]
    by_ranks = sized and len({r.ranks for r in drawn}) > 1
    keys = list(dict.fromkeys(_key(r, by_ranks) for r in drawn))
    differs = [len({k[i] for k in keys}) > 1 for i in range(5)]
    # A transport says its plane, unless it stands on two.
    differs[4] = len({k[:4] for k in keys}) < len(keys)
    cases = list(dict.fromkeys(k[:2] for k in keys))
    ways = list(dict.fromkeys(k[2:] for k in keys))
    found = []
    for key in keys:
        words = [word for word, told in zip(key, differs, strict=True) if told and word]
        mine = [(r.size_bytes if sized else r.ranks, r) for r in drawn if _key(r, by_ranks) == key]
        mine.sort(key=lambda pair: pair[0])
        found.append(
            Series(
                ", ".join(words) or " ".join(filter(None, key[:4])),
                COLOURS[ways.index(key[2:]) % len(COLOURS)],
                # A colour that comes again has another dash.
                DASHES[(cases.index(key[:2]) + ways.index(key[2:]) // len(COLOURS)) % len(DASHES)],
                [across for across, _ in mine],
                [r.time_us for _, r in mine],
                [r.busbw_GBps or 0.0 for _, r in mine],
            )
        )
    return found


def bound_of(rows: Sequence[Row]) -> list[Series]:
    """Return the line that no row can cross, if they are of one operation and case.

    A row's efficiency is its bound over its time: the need of the fullest resource for the bytes
    that it moves. Of the rows of one size the smallest bound is drawn, that of the algorithm and
    transport which load their fullest resource least.
    """
    drawn = [r for r in rows if r.size_bytes > 0 and r.busbw_GBps and r.efficiency > 0]
    sizes = sorted({r.size_bytes for r in drawn})
    if len({(*_key(r, by_ranks=False)[:2], r.ranks) for r in drawn}) != 1:
        return []
    best = [
        min((r for r in drawn if r.size_bytes == size), key=lambda r: r.time_us * r.efficiency)
        for size in sizes
    ]
    times = [r.time_us * r.efficiency for r in best]
    rates = [(r.busbw_GBps or 0.0) / r.efficiency for r in best]
    return [Series("bound", BOUND_COLOUR, BOUND_DASH, sizes, times, rates, "")]


def spread_labels(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights in 0..1 apart until neighbours are `gap` apart, keeping their order.

    >>> [round(h, 3) for h in spread_labels([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    >>> [round(h, 3) for h in spread_labels([0.0, 0.0, 1.0], 0.1)]
    [0.05, 0.15, 0.95]
    """
    # Pool neighbours that are too close; a pool is centred on the mean of what it holds.
    pools: list[list[int]] = []
    for i in np.argsort(np.asarray(heights), kind="stable"):
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
    return float(min(max(middle - len(pool) * gap / 2, 0.0), 1.0 - len(pool) * gap))


def _top(pool: Sequence[int], heights: Sequence[float], gap: float) -> float:
    return _bottom(pool, heights, gap) + len(pool) * gap


def _key(row: Row, by_ranks: bool) -> tuple[str, str, str, str, str]:
    # The case of a MoE row is its ranks, that of a KV row its size: places on a line, no lines.
    # That of a row of the pool is a block and its readers, of which the block is the line.
    case = row.case if row.op == "p2p" else f"{row.ranks} ranks" if by_ranks else ""
    if row.op == POOL:
        case = row.case.partition(",")[0]
    return row.op, case, row.algorithm, row.transport, row.plane


def _against_size(rows: Sequence[Row]) -> bool:
    """Say whether size is what changes along the lines, rather than the number of ranks."""
    if rows and rows[0].op == POOL:
        return False
    sizes: dict[tuple[str, ...], set[int]] = {}
    for row in rows:
        sizes.setdefault(_key(row, by_ranks=True), set()).add(row.size_bytes)
    return len({row.ranks for row in rows}) == 1 or max(map(len, sizes.values()), default=0) > 1


def _title(rows: Sequence[Row], where: str) -> str:
    """Say what all rows share."""
    columns = [[row.op for row in rows], [row.algorithm for row in rows]]
    columns += [[row.transport for row in rows], [f"plane {row.plane}" for row in rows]]
    columns += [[short_size(row.size_bytes) for row in rows]]
    columns += [[f"{row.ranks} ranks" for row in rows], [where] * len(rows)]
    return ", ".join(c[0] for c in columns if len(set(c)) == 1 and c[0])


def _panel(axes: Any, title: str, against: str, lines: list[tuple[Series, list[float]]]) -> None:
    """Draw one panel: log axes, sizes in binary units, a label at the end of each line."""
    for series, values in lines:
        axes.plot(
            series.across,
            values,
            color=series.colour,
            linestyle=series.dash,
            marker=series.marker,
            markersize=3,
            linewidth=1.6,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(against)
    ticks = _few(sorted({place for series, _ in lines for place in series.across}))
    names = [short_size(t) if against == "size" else str(t) for t in ticks]
    axes.set_xticks(ticks, names, fontsize=8)
    axes.minorticks_on()
    low, high = axes.get_ylim()
    if high < 30 * low:
        from matplotlib.ticker import LogLocator

        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    axes.tick_params(axis="y", labelsize=8)
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _label_ends(axes, lines)


def _few(places: list[int]) -> list[int]:
    """Choose at most seven, the last one among them."""
    step = -(-len(places) // 7)
    return places[::-1][::step][::-1]


def _label_ends(axes: Any, lines: list[tuple[Series, list[float]]]) -> None:
    """Label every line at the end where the lines lie further apart."""
    axes.autoscale_view()
    first, last = (_heights(axes, lines, end) for end in (0, -1))
    left = _told_apart(first) > _told_apart(last)
    if left:
        low, high = np.log2(axes.get_xlim())
        longest = max(len(series.label) for series, _ in lines)
        part = min(0.03 + 0.021 * longest, 0.6)
        axes.set_xlim(2 ** (low - (high - low) * part / (1 - part)), 2**high)
    end, heights = (0, first) if left else (-1, last)
    placed = spread_labels(heights, min(LABEL_GAP, 1 / len(lines)))
    for (series, values), height in zip(lines, placed, strict=True):
        point = (series.across[end], values[end])
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
            arrowprops={
                "arrowstyle": "-",
                "color": series.colour,
                "linewidth": 0.6,
                "relpos": (1.0 if left else 0.0, 0.5),
            },
        )


def _heights(axes: Any, lines: list[tuple[Series, list[float]]], end: int) -> list[float]:
    return [_part(axes, (series.across[end], values[end]))[1] for series, values in lines]


def _part(axes: Any, point: tuple[float, float]) -> tuple[float, float]:
    """Return where a point lies, in parts of the panel's width and height."""
    across, up = (axes.transScale + axes.transLimits).transform(point)
    return float(across), float(up)


def _told_apart(heights: Sequence[float]) -> float:
    """Measure how far apart labels at these heights stand; what overlaps counts less."""
    return float(np.minimum(np.diff(np.sort(heights)), LABEL_GAP).sum())
