"""Rows are frozen one after the other, in the order of their levels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import inner_kernel

from .first_rows import at
from .row_members import gather
from .rows import STRIDE, UNPLACED, Dense
from .state import F8, I4, NEVER, SAME_LEVEL, Int, Row, Table

LOOK_AHEAD = 8  # rows of the last order that are compared for the next place


@inner_kernel
def _is_lower(free: F8, rising: I4, slack: F8, level: float) -> Int:
    """Return how many links would be full below a level."""
    lower = 0
    for k in range(len(free)):
        lower += 1 if free[k] + slack[k] < level * rising[k] else 0
    return lower


@inner_kernel
def _lowest(free: F8, rising: I4) -> Int:
    """Return the column with the lowest level; -1 where nothing rises any more."""
    best = -1
    for k in range(len(free)):
        if rising[k] > 0 and (best < 0 or free[k] * rising[best] < free[best] * rising[k]):
            best = k
    return best


@inner_kernel
def _freeze_row(row: NDArray[np.int16], free: F8, rising: I4, level: float) -> None:
    """Take a row at a level out of all columns."""
    for k in range(len(free)):
        free[k] -= level * float(row[k])
        rising[k] -= row[k]


@inner_kernel
def _freeze_flows(dense: Dense, row_id: Int, free: F8, rising: I4, level: float) -> None:
    """Do what `_freeze_row` does, flow by flow."""
    rows, slots, cells = dense.rows, dense.slots, dense.cells
    for k in range(at(rows, row_id).slot, at(rows, row_id).slot + at(rows, row_id).used):
        slot = at(slots, k)
        if slot.row == row_id:
            for h in range(slot.begin, slot.stop):
                cell = at(cells, h)
                free[cell.column] -= level * float(cell.share)
                rising[cell.column] -= cell.share


@inner_kernel
def _copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy a row."""
    for k in range(len(source)):
        target[k] = source[k]


@inner_kernel
def _next_row(free: F8, rising: I4, steps: Table, turn: Int, ahead: Int) -> Int:
    """Return the lowest of the next few rows of the last filling's order; -1 if there is none."""
    column, seen = -1, 0
    for k in range(turn, ahead):
        other = at(steps, k).before
        if rising[other] > 0:
            if column < 0 or free[other] * rising[column] < free[column] * rising[other]:
                column = other
            seen += 1
            if seen == LOOK_AHEAD:
                break
    return column


@inner_kernel
def fill_rows(clock: Row, flows: Table, hops: Table, dense: Dense) -> Int:
    """Freeze rows in the order of their levels, from the last snapshot below all changes.

    The order of the last filling is tried first. A link that is passed over, although it would be
    full below the level of a row, stays below the levels that follow: so it is enough to look for
    such links at each snapshot, and to go back to the one before, one checked step at a time.
    Return the first step that was done anew.
    """
    matrix, free, rising, slack, rows, place, steps, free_then, rising_then, _, _ = dense
    first: Int = min(clock.lowest, clock.steps) // STRIDE * STRIDE
    ahead = np.int64(0)
    for k in range(first, clock.steps):
        at(steps, ahead).before = at(steps, k).row
        ahead += 1
    step, end, turn = first, clock.steps, np.int64(0)
    checked_to = first  # below this step each one is checked
    back = True
    frozen, last = 0, 0.0
    while True:
        if back:
            _copy(free_then[step // STRIDE], free)
            _copy(rising_then[step // STRIDE], rising)
            for k in range(step, end):
                place[at(steps, k).row] = UNPLACED
            frozen = at(steps, step).frozen
            last = 0.0
            if step > 0:
                below = at(rows, at(steps, step - 1).row)
                last = below.level if step == first else below.new_level
            turn = np.int64(0)
            back = False
        elif step % STRIDE == 0 or frozen == clock.active:
            if step > checked_to and _is_lower(free, rising, slack, last) > 0:
                end = step
                step = (step - 1) // STRIDE * STRIDE
                checked_to = step + STRIDE
                back = True
                continue
            if step % STRIDE == 0:
                _copy(free, free_then[step // STRIDE])
                _copy(rising, rising_then[step // STRIDE])
            at(steps, step).frozen = frozen
        if frozen == clock.active:
            break
        while turn < ahead and rising[at(steps, turn).before] == 0:
            turn += 1
        column = int(_next_row(free, rising, steps, turn, ahead))
        if column >= 0 and step < checked_to:
            level = free[column] / rising[column]
            column = -1 if _is_lower(free, rising, slack, level) > 0 else column
        if column < 0:
            column = int(_lowest(free, rising))
        level = max(last, free[column] / rising[column])
        if level <= last * (1.0 + SAME_LEVEL):
            level = last
        row = at(rows, column)
        if row.own != rising[column]:
            gather(clock, flows, hops, dense, column)
        frozen += row.members
        if 100 * row.members + row.used < len(free):  # in the time of one column of the matrix
            _freeze_flows(dense, column, free, rising, level)
        else:
            _freeze_row(matrix[column], free, rising, level)
        place[column] = step
        row.new_level = level
        at(steps, step).row = column
        last = level
        step += 1
    for k in range(ahead):
        row_id = at(steps, k).before
        if place[row_id] == UNPLACED:
            at(rows, row_id).level = 0.0
            at(rows, row_id).end_ps = NEVER
    clock.steps = step
    clock.touched += step - first
    return first
