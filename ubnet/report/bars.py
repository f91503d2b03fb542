"""A picture of a few figures that are no line: horizontal bars, each with its value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ubnet.errors import OptionError
from ubnet.report.plot import COLOURS, check_picture
from ubnet.report.whole_file import whole_file


@dataclass(frozen=True, slots=True)
class Bars:
    """A panel of the picture.

    Attributes
    ----------
    title : str
        What the values are, with their unit.
    names : sequence of str
        What each group of bars stands for, from the top.
    values : mapping of str to sequence of (float or None)
        Label of a kind of bar, and its value in each group; None: no bar.
    """

    title: str
    names: Sequence[str]
    values: Mapping[str, Sequence[float | None]]


def plot_bars(panels: Sequence[Bars], path: Path, title: str) -> None:
    """Draw panels of bars side by side into a file.

    Parameters
    ----------
    panels : sequence of Bars
        All with the same names; the first one alone shows them.
    path : Path
        Its suffix says the format: PNG, SVG or PDF.
    title : str
        What stands above.

    Raises
    ------
    OptionError
        If there is nothing to draw, or as `check_picture`.
    """
    figure_class = check_picture(path)
    if not panels or not panels[0].names:
        raise OptionError("nothing to draw: there are no rows")
    height = 1.6 + 0.28 * len(panels[0].names) * max(len(p.values) for p in panels)
    figure = figure_class(figsize=(11, max(height, 3.0)), dpi=140, layout="constrained")
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for number, (each, panel) in enumerate(zip(axes, panels, strict=True)):
        _panel(each, panel)
        if number:
            each.set_yticklabels([])
    with whole_file(path) as draft:
        figure.savefig(draft)


def _panel(axes: Any, panel: Bars) -> None:
    thick = 0.8 / len(panel.values)
    place = np.arange(len(panel.names))
    for k, (label, values) in enumerate(panel.values.items()):
        lengths = [value or 0.0 for value in values]
        centre = place + (k - (len(panel.values) - 1) / 2) * thick
        drawn = axes.barh(centre, lengths, height=thick * 0.9, color=COLOURS[k], label=label)
        axes.bar_label(drawn, [_shown(v) for v in values], padding=3, fontsize=8)
    axes.set_yticks(place, panel.names, fontsize=8)
    axes.invert_yaxis()
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.margins(x=0.18)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if len(panel.values) > 1:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"
