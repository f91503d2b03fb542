"""Rows are frozen one after the other, in the order of their levels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import inner_kernel

from .row_members import gather
from .rows import (
    BEFORE,
    END,
    FREE,
    FROZEN,
    LEVEL,
    MEMBERS,
    NEW_LEVEL,
    OPEN,
    ORDER,
    OWN,
    PLACE,
    SLACK,
    SLOT,
    STRIDE,
    UNPLACED,
    USED,
)
from .state import F8, I8, NEVER, SAME_LEVEL, Int, Row, Table

LOOK_AHEAD = 8  # rows of the last order that are compared for the next place


@inner_kernel
def _is_lower(free: F8, rising: F8, slack: F8, level: float) -> Int:
    """Return how many links would be full below a level."""
    lower = 0
    for k in range(len(free)):
        lower += 1 if free[k] + slack[k] < level * rising[k] else 0
    return lower


@inner_kernel
def _lowest(free: F8, rising: F8) -> Int:
    """Return the column with the lowest level; -1 where nothing rises any more."""
    best = -1
    for k in range(len(free)):
        if rising[k] > 0.0 and (best < 0 or free[k] * rising[best] < free[best] * rising[k]):
            best = k
    return best


@inner_kernel
def _freeze_row(row: NDArray[np.int16], free: F8, rising: F8, level: float) -> None:
    """Take a row at a level out of all columns."""
    for k in range(len(free)):
        count = float(row[k])
        free[k] -= level * count
        rising[k] -= count


@inner_kernel
def _freeze_flows(dense: Any, row: Int, free: F8, rising: F8, level: float) -> None:
    """Do what `_freeze_row` does, flow by flow."""
    whole, slot_row, begin, stop, cells = dense[2], dense[6], dense[8], dense[9], dense[10]
    for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
        if slot_row[slot] == row:
            for h in range(begin[slot], stop[slot]):
                cell = cells[h]
                share = float(cell.share)
                free[cell.column] -= level * share
                rising[cell.column] -= share


@inner_kernel
def _copy(source: F8, target: F8) -> None:
    """Copy a row."""
    for k in range(len(source)):
        target[k] = source[k]


@inner_kernel
def _next_row(reals: F8, whole: I8, at: Int, ahead: Int) -> Int:
    """Return the lowest of the next few rows of the last filling's order; -1 if there is none."""
    column, seen = -1, 0
    for k in range(at, ahead):
        other = whole[BEFORE, k]
        rising = reals[OPEN, other]
        if rising > 0.0:
            if (
                column < 0
                or reals[FREE, other] * reals[OPEN, column] < reals[FREE, column] * rising
            ):
                column = other
            seen += 1
            if seen == LOOK_AHEAD:
                break
    return column


@inner_kernel
def fill_rows(clock: Row, flows: Table, hops: Table, links: Table, dense: Any) -> Int:
    """Freeze rows in the order of their levels, from the last snapshot below all changes.

    The order of the last filling is tried first. A link that is passed over, although it would be
    full below the level of a row, stays below the levels that follow: so it is enough to look for
    such links at each snapshot, and to go back to the one before, one checked step at a time.
    Return the first step that was done anew.
    """
    matrix, reals, whole, free_then, open_then = dense[:5]
    free, rising, slack = reals[FREE], reals[OPEN], reals[SLACK]
    first: Int = min(clock.lowest, clock.steps) // STRIDE * STRIDE
    ahead = np.int64(0)
    for k in range(first, clock.steps):
        whole[BEFORE, ahead] = whole[ORDER, k]
        ahead += 1
    step, end, at = first, clock.steps, np.int64(0)
    checked_to = first  # below this step each one is checked
    back = True
    frozen, last = 0, 0.0
    while True:
        if back:
            _copy(free_then[step // STRIDE], free)
            _copy(open_then[step // STRIDE], rising)
            for k in range(step, end):
                whole[PLACE, whole[ORDER, k]] = UNPLACED
            frozen = whole[FROZEN, step]
            last = 0.0
            if step > 0:
                below = whole[ORDER, step - 1]
                last = reals[LEVEL, below] if step == first else reals[NEW_LEVEL, below]
            at = np.int64(0)
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
                _copy(rising, open_then[step // STRIDE])
            whole[FROZEN, step] = frozen
        if frozen == clock.active:
            break
        while at < ahead and rising[whole[BEFORE, at]] == 0.0:
            at += 1
        column = int(_next_row(reals, whole, at, ahead))
        if column >= 0 and step < checked_to:
            level = free[column] / rising[column]
            column = -1 if _is_lower(free, rising, slack, level) > 0 else column
        if column < 0:
            column = int(_lowest(free, rising))
        level = max(last, free[column] / rising[column])
        if level <= last * (1.0 + SAME_LEVEL):
            level = last
        if reals[OWN, column] != rising[column]:
            gather(clock, flows, hops, dense, column)
        own = whole[MEMBERS, column]
        frozen += own
        if 100 * own + whole[USED, column] < len(free):  # in the time of one column of the matrix
            _freeze_flows(dense, column, free, rising, level)
        else:
            _freeze_row(matrix[column], free, rising, level)
        whole[PLACE, column] = step
        whole[ORDER, step] = column
        reals[NEW_LEVEL, column] = level
        last = level
        step += 1
    for k in range(ahead):
        column = whole[BEFORE, k]
        if whole[PLACE, column] == UNPLACED:
            reals[LEVEL, column] = 0.0
            whole[END, column] = NEVER
    clock.steps = step
    clock.touched += step - first
    return first
