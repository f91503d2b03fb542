"""What a mean hides: bytes and times of a dispatch or combine by rank, by peer and by expert."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ubnet.collectives.expert_parallel import ExpertParallel
from ubnet.collectives.staged import FusedTiming
from ubnet.fabric import Ints

BARS = " ▁▂▃▄▅▆▇█"
"""Eighths, for the picture of the experts' load."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over ranks, peers or experts: its least, mean, 99th percentile and largest.

    Examples
    --------
    >>> spread_of("sent", "kB", [1, 2, 3])
    Spread(what='sent', unit='kB', least=1.0, mean=2.0, p99=2.98, most=3.0, where=2)
    """

    what: str
    unit: str
    least: float
    mean: float
    p99: float
    most: float
    where: int


def spread_of(what: str, unit: str, values: ArrayLike) -> Spread:
    """Return the spread of some values; `where` is the first of the largest."""
    held = np.asarray(values, dtype=np.float64)
    if not len(held):
        return Spread(what, unit, 0.0, 0.0, 0.0, 0.0, -1)
    return Spread(
        what,
        unit,
        float(held.min()),
        float(held.mean()),
        float(np.percentile(held, 99)),
        float(held.max()),
        int(held.argmax()),
    )


def spreads(run: ExpertParallel, timing: FusedTiming) -> Iterator[Spread]:
    """Yield what `run` was like on its ranks, between its peers and for its experts.

    A rank's time is split into waiting (its own writes are done, others' are not yet here) and
    the rest: launching, moving, assembling or summing.
    """
    ranks = run.ranks
    total, waiting = timing.rank_time_ps / 1e6, timing.waiting_ps / 1e6
    yield spread_of("time of a rank", "us", total)
    yield spread_of("  of it waiting for others", "us", waiting)
    yield spread_of("  of it moving and computing", "us", total - waiting)
    yield spread_of("sent by a rank", "kB", timing.sent_bytes(ranks) / 1e3)
    yield spread_of("received by a rank", "kB", timing.received_bytes(ranks) / 1e3)
    yield spread_of("sent to a peer", "kB", timing.sent.nbytes / 1e3)
    start = timing.rank_start_ps[timing.sent.src]
    yield spread_of("arrival of a peer's last copy", "us", (timing.arrival_ps - start) / 1e6)
    yield spread_of("copies for an expert slot", "", run.plan.counts.sum(axis=0))
    yield spread_of("copies for a rank", "", run.plan.copies.sum(axis=0))


def load_picture(loads: Ints, width: int = 64) -> str:
    """Draw loads as a line of bars, the fullest of each group of neighbours.

    >>> load_picture(np.array([0, 4, 8, 4]))
    ' ▄█▄'
    """
    groups = np.array_split(loads, min(width, len(loads)))
    tops = np.array([group.max() for group in groups])
    most = max(1, int(tops.max()))
    return "".join(BARS[-(-int(top) * (len(BARS) - 1) // most)] for top in tops)
