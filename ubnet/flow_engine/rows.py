"""The dense regime: rows of flows that one link holds back.

Flows of one bottleneck are a row: they share a clock, the bytes that each of them has received so
far, and a flow ends at a fixed reading of it. A matrix counts the flows of each row on each link,
so that filling freezes a row by one operation on all columns.
"""

from typing import NamedTuple

import numpy as np

from ubnet.jit import greater, inner_kernel, together

from .state import NEVER, PS_PER_S, ROUND_UP, Column, Int, Row, Table

SPARE_SLOTS = 16  # of a link, for flows that start
SNAPSHOT_BITS = 4
STRIDE = 1 << SNAPSHOT_BITS  # steps between snapshots of `free` and `rising`
UNPLACED = 1 << 30
NOT_FOUND = -1.0  # instead of the first target of a row's flows: nobody is before it
ROWS = [  # of each link: its row, and its slots
    ("level", "f8"),
    ("new_level", "f8"),
    ("served", "f8"),  # the row's clock at `since_ps`, and what rounding lost of it
    ("served_low", "f8"),
    ("target", "f8"),  # of the row's first flow to end, or NOT_FOUND: to be looked for
    ("since_ps", "i8"),
    ("end_ps", "i8"),
    ("moved", "i4"),  # 1: flows have come or gone
    ("members", "i4"),  # its flows, and their shares of the link: the diagonal of the matrix
    ("own", "i4"),
    ("link", "i4"),
    ("slot", "i4"),  # the link's first slot, how many are used, and where those of the next begin
    ("used", "i4"),
    ("slot_end", "i4"),
]
STEPS = [  # the rows in the order in which they froze
    ("row", "i4"),
    ("before", "i4"),  # that of the last filling
    ("frozen", "i8"),  # flows frozen before
]
SLOTS = [  # one for each flow on each link, those of a link side by side
    ("target", "f8"),  # the reading of the clock of its row at which the flow ends
    ("hop", "i4"),
    ("row", "i4"),  # that the flow is in
    ("begin", "i4"),  # the flow's hops, and where they stop
    ("stop", "i4"),
]
CELLS = [("slot", "i4"), ("column", "i2"), ("share", "i2")]


class Dense(NamedTuple):
    """The tables of the dense regime; a row of the matrix, or a snapshot, has `clock.columns`."""

    matrix: Column
    free: Column  # of each link: what its frozen flows leave
    rising: Column  # shares of the other flows
    slack: Column  # what counts as nothing
    rows: Table
    place: Column  # the step of each row, or UNPLACED
    steps: Table
    free_then: Column  # snapshots
    rising_then: Column
    slots: Table
    cells: Table  # of each hop


DENSE_ROWS = Dense(
    matrix=np.dtype(np.int16),
    free=np.dtype(np.float64),
    rising=np.dtype(np.int32),
    slack=np.dtype(np.float64),
    rows=np.dtype(ROWS, align=True),
    place=np.dtype(np.int32),
    steps=np.dtype(STEPS, align=True),
    free_then=np.dtype(np.float64),
    rising_then=np.dtype(np.int32),
    slots=np.dtype(SLOTS, align=True),
    cells=np.dtype(CELLS, align=True),
)
dense_of = together(DENSE_ROWS)


@inner_kernel
def read_clock(row: Row, now: Int) -> float:
    """Return what a row's clock shows now."""
    elapsed = float(now - row.since_ps)
    return float(row.served + (row.served_low + row.level * elapsed / PS_PER_S))


@inner_kernel
def end_of(target: float, row: Row) -> Int:
    """Return when a row's clock will show a target."""
    left = (target - row.served) - row.served_low
    duration = float(greater(0.0, left)) / float(row.level) * PS_PER_S
    end: Int = row.since_ps + np.int64(duration + ROUND_UP) if duration < 4e18 else NEVER
    return end
