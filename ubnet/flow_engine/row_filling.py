"""Rows are frozen one after the other, in the order of their levels."""

import numpy as np

from ubnet.jit import at, between, greater, inner_kernel, lesser, skip, upto

from .row_members import gather
from .rows import BITS, STRIDE, UNPLACED, Dense
from .state import NEVER, SAME_LEVEL, Column, Int, Row, Table

AT_ONCE = 64  # columns
LOOK_AHEAD = 16  # rows of the last order that are compared for the next place


@inner_kernel
def _is_lower(free: Column, rising: Column, slack: Column, n: Int, level: float) -> Int:
    """Return how many of n links would be full below a level."""
    lower = 0
    for k in upto(n):
        lower += 1 if free[k] + slack[k] < level * rising[k] else 0
    return lower


@inner_kernel
def _lowest(free: Column, rising: Column, n: Int, best: Int) -> Int:
    """Return a column with the lowest level; -1 where nothing rises any more.

    ``best`` is one that rises, or -1. Many columns are compared at once with the lowest so far, and
    those alone one by one among which there is a lower.
    """
    if best < 0:
        best = 0
        while best < n and rising[best] == 0:
            best += 1
        if best == n:
            return -1
    first = np.int64(0)
    while first < n:
        end, lower = lesser(first + AT_ONCE, n), 0
        its_free, its_rising = free[best], float(rising[best])
        for k in between(first, end):
            lower += 1 if free[k] * its_rising < its_free * rising[k] else 0
        if lower > 0:
            for k in between(first, end):
                if rising[k] > 0 and free[k] * rising[best] < free[best] * rising[k]:
                    best = k
        first = end
    return best


@inner_kernel
def _freeze_row(row: Column, free: Column, rising: Column, n: Int, level: float) -> None:
    """Take a row at a level out of all n columns."""
    for k in upto(n):
        free[k] -= level * float(row[k])
        rising[k] -= row[k]


@inner_kernel
def _freeze_flows(dense: Dense, row_id: Int, level: float) -> None:
    """Do what `_freeze_row` does, flow by flow."""
    _, free, rising, _, rows, _, _, _, _, slots, cells = dense
    for k in between(at(rows, row_id).slot, at(rows, row_id).slot + at(rows, row_id).used):
        slot = at(slots, k)
        if slot.row == row_id:
            for h in between(slot.begin, slot.stop):
                cell = at(cells, h)
                free[cell.column] -= level * float(cell.share)
                rising[cell.column] -= cell.share


@inner_kernel
def _copy(source: Column, target: Column, n: Int) -> None:
    """Copy a row of n."""
    for k in upto(n):
        target[k] = source[k]


@inner_kernel
def _next_row(free: Column, rising: Column, steps: Table, turn: Int, ahead: Int) -> Int:
    """Return the lowest of the next few rows of the last filling's order; -1 if there is none."""
    column, seen = -1, 0
    for k in between(turn, ahead):
        other = at(steps, k).before
        if rising[other] > 0:
            if column < 0 or free[other] * rising[column] < free[column] * rising[other]:
                column = other
            seen += 1
            if seen == LOOK_AHEAD:
                break
    return column


@inner_kernel
def fill_rows(clock: Row, dense: Dense) -> Int:
    """Freeze rows in the order of their levels, from the last snapshot below all changes.

    The order of the last filling is tried first. A link that is passed over, although it would be
    full below the level of a row, stays below the levels that follow: so it is enough to look for
    such links at each snapshot, and to go back to the one before, one checked step at a time. Where
    one was found in the last steps, the next are checked at once. Return the first step that was
    done anew.
    """
    matrix, free, rising, slack, rows, place, steps, free_then, rising_then, _, _ = dense
    n = clock.columns
    first: Int = lesser(clock.lowest, clock.steps) & -STRIDE
    ahead = np.int64(0)
    for k in between(first, clock.steps):
        at(steps, ahead).before = at(steps, k).row
        ahead += 1
    step, end, turn = first, clock.steps, np.int64(0)
    checked_to = first  # below this step each one is checked
    back, found = True, False
    frozen, last = 0, 0.0
    while True:
        if back:
            then = (step >> BITS) * n
            _copy(skip(free_then, then), free, n)
            _copy(skip(rising_then, then), rising, n)
            for k in between(step, end):
                place[at(steps, k).row] = UNPLACED
            frozen = at(steps, step).frozen
            last = 0.0
            if step > 0:
                below = at(rows, at(steps, step - 1).row)
                last = below.level if step == first else below.new_level
            turn = np.int64(0)
            back = False
        elif step & (STRIDE - 1) == 0 or frozen == clock.active:
            if step > checked_to and _is_lower(free, rising, slack, n, last) > 0:
                end = step
                step = (step - 1) & -STRIDE
                checked_to = step + STRIDE
                back = True
                continue
            if found:
                checked_to = step + STRIDE
                found = False
            if step & (STRIDE - 1) == 0:
                then = (step >> BITS) * n
                _copy(free, skip(free_then, then), n)
                _copy(rising, skip(rising_then, then), n)
            at(steps, step).frozen = frozen
        if frozen == clock.active:
            break
        while turn < ahead and rising[at(steps, turn).before] == 0:
            turn += 1
        column = _next_row(free, rising, steps, turn, ahead)
        if column >= 0 and step < checked_to:
            level = free[column] / rising[column]
            if _is_lower(free, rising, slack, n, level) > 0:
                column = _lowest(free, rising, n, column)
                found = True
        if column < 0:
            column = _lowest(free, rising, n, np.int64(-1))
        level = greater(last, free[column] / rising[column])
        if level <= last * (1.0 + SAME_LEVEL):
            level = last
        row = at(rows, column)
        if row.own != rising[column]:
            gather(clock, dense, column)
        frozen += row.members
        if 100 * row.members + row.used < n:  # in the time of one column of the matrix
            _freeze_flows(dense, column, level)
        else:
            _freeze_row(skip(matrix, column * n), free, rising, n, level)
        place[column] = step
        row.new_level = level
        at(steps, step).row = column
        last = level
        step += 1
    for k in upto(ahead):
        row_id = at(steps, k).before
        if place[row_id] == UNPLACED:
            at(rows, row_id).level = 0.0
            at(rows, row_id).end_ps = NEVER
    clock.steps = step
    clock.touched += step - first
    return first
