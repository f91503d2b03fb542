"""The dense regime: rows of flows that one link holds back.

Flows of one bottleneck are a row: they share a clock, the bytes that each of them has received so
far, and a flow ends at a fixed reading of it. A matrix counts the flows of each row on each link,
so that filling freezes a row by one operation on all columns.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import inner_kernel

from .state import F8, I4, I8, NEVER, PS_PER_S, ROUND_UP, Int, Table

FREE = 0  # rows of `reals`, a column a link
OPEN = 1
SLACK = 2
LEVEL = 3
NEW_LEVEL = 4
SERVED = 5  # the row's clock at `SINCE`, and what rounding lost of it
SERVED_LOW = 6
TARGET = 7  # of the row's first flow to end
OWN = 8  # the matrix's diagonal: what the row's flows have of the link that holds them back
REALS = 9

LINK = 0  # rows of `whole`
ORDER = 1  # the rows in the order in which they froze
BEFORE = 2  # the same of the last filling
PLACE = 3  # of a row in that order
SINCE = 4
END = 5
FIRST = 6  # the row's first flow to end, or -1: to be looked for
MOVED = 7  # 1: flows have come or gone
FROZEN = 8  # flows frozen before each step
MEMBERS = 9  # its flows
SLOT = 10  # the link's first slot, how many are used, and where those of the next begin
USED = 11
SLOT_END = 12
WHOLE = 13

SPARE_SLOTS = 16  # of a link, for flows that start
STRIDE = 16  # steps between snapshots of FREE and OPEN
UNPLACED = 1 << 30
CELLS = [("slot", "i4"), ("column", "i2"), ("share", "i2")]


class Dense(NamedTuple):
    """The tables of the dense regime."""

    matrix: NDArray[np.int16]
    reals: F8
    whole: I8
    free: F8  # snapshots
    open: F8
    slot_hop: I4  # a slot for each flow on each link, those of a link side by side
    slot_row: I4  # the row that the flow is in
    slot_target: F8  # its target, right in the slot on the link that holds it back
    slot_begin: I4  # the flow's hops, and where they stop
    slot_stop: I4
    cells: Table  # of each hop


@inner_kernel
def read_clock(reals: F8, whole: I8, row: Int, now: Int) -> float:
    """Return what a row's clock shows now."""
    elapsed = float(now - whole[SINCE, row])
    return float(
        reals[SERVED, row] + (reals[SERVED_LOW, row] + reals[LEVEL, row] * elapsed / PS_PER_S)
    )


@inner_kernel
def end_of(target: float, served: float, low: float, level: float, since: Int) -> Int:
    """Return when a row's clock will show a target."""
    duration = float(max(0.0, (target - served) - low) / level * PS_PER_S)
    end: Int = since + int(duration + ROUND_UP) if duration < 4e18 else NEVER
    return end
