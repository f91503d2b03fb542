"""Rows are frozen one after the other, in the order of their levels."""

import numpy as np

from ubnet.jit import at, between, greater, inner_kernel, lesser, skip, upto

from .row_members import gather
from .rows import SNAPSHOT_BITS, STRIDE, UNPLACED, Dense
from .state import NEVER, SAME_LEVEL, Column, Int, Row, Table

AT_ONCE = 64  # columns that are compared before any of them is looked at by itself
LOOK_AHEAD = 12  # rows of the last order that are compared for the next place
LOOK_FURTHER = 48  # where steps are checked, because links were passed over lately


@inner_kernel
def _count_lower(free: Column, rising: Column, slack: Column, n: Int, level: float) -> Int:
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
    free, rising, slots, cells = dense.free, dense.rising, dense.slots, dense.cells
    row = at(dense.rows, row_id)
    for k in between(row.slot, row.slot + row.used):
        slot = at(slots, k)
        if slot.row == row_id:
            for h in between(slot.begin, slot.stop):
                cell = at(cells, h)
                free[cell.column] -= level * float(cell.share)
                rising[cell.column] -= cell.share


@inner_kernel
def _copy_row(source: Column, target: Column, n: Int) -> None:
    """Copy a row of n."""
    for k in upto(n):
        target[k] = source[k]


@inner_kernel
def _next_row(free: Column, rising: Column, steps: Table, turn: Int, ahead: Int, most: Int) -> Int:
    """Return the lowest of the next few rows of the last filling's order; -1 if there is none."""
    column, seen = -1, 0
    for k in between(turn, ahead):
        other = at(steps, k).before
        if rising[other] > 0:
            if column < 0 or free[other] * rising[column] < free[column] * rising[other]:
                column = other
            seen += 1
            if seen == most:
                break
    return column


@inner_kernel
def _keep(dense: Dense, step: Int, n: Int) -> None:
    """Keep what is left before a step, for fillings that begin there."""
    then = (step >> SNAPSHOT_BITS) * n
    _copy_row(dense.free, skip(dense.free_then, then), n)
    _copy_row(dense.rising, skip(dense.rising_then, then), n)


@inner_kernel
def _go_back(clock: Row, dense: Dense, step: Int, end: Int, first: Int) -> float:
    """Go back to what was kept before a step; return the level of the step before it.

    The rows from there to ``end`` have no place any more. Steps before ``first`` stand from the
    last filling, and so do their levels.
    """
    rows, steps, then = dense.rows, dense.steps, (step >> SNAPSHOT_BITS) * clock.columns
    _copy_row(skip(dense.free_then, then), dense.free, clock.columns)
    _copy_row(skip(dense.rising_then, then), dense.rising, clock.columns)
    for k in between(step, end):
        dense.place[at(steps, k).row] = UNPLACED
    if step == 0:
        return 0.0
    below = at(rows, at(steps, step - 1).row)
    return float(below.level if step == first else below.new_level)


@inner_kernel
def _freeze(dense: Dense, column: Int, level: float, n: Int) -> None:
    """Take a row at a level out of all columns, in whichever way is faster."""
    row = at(dense.rows, column)
    if 100 * row.members + row.used < n:  # in the time of one column of the matrix
        _freeze_flows(dense, column, level)
    else:
        _freeze_row(skip(dense.matrix, column * n), dense.free, dense.rising, n, level)


@inner_kernel
def fill_rows(clock: Row, dense: Dense) -> Int:
    """Freeze rows in the order of their levels, from the last snapshot below all changes.

    The order of the last filling is tried first. A link that is passed over, although it would be
    full below the level of a row, stays below the levels that follow: so it is enough to look for
    such links at each snapshot, and to go back to the one before, one checked step at a time. Where
    one was found in the last steps, the next are checked at once. Return the first step that was
    done anew.
    """
    free, rising, slack, n = dense.free, dense.rising, dense.slack, clock.columns
    rows, place, steps = dense.rows, dense.place, dense.steps
    first: Int = lesser(clock.lowest, clock.steps) & -STRIDE
    ahead, turn = np.int64(0), np.int64(0)
    for k in between(first, clock.steps):
        at(steps, ahead).before = at(steps, k).row
        ahead += 1
    last = _go_back(clock, dense, first, clock.steps, first)
    frozen = at(steps, first).frozen
    step, begun = first, first  # the next step, and the last one gone back to
    checked_to, passed_over = first, False  # below this step each one is checked
    while True:
        snapshot = step & (STRIDE - 1) == 0
        if step > begun and (snapshot or frozen == clock.active):
            if step > checked_to and _count_lower(free, rising, slack, n, last) > 0:
                begun = (step - 1) & -STRIDE
                last = _go_back(clock, dense, begun, step, first)
                frozen, turn = at(steps, begun).frozen, np.int64(0)
                step, checked_to = begun, begun + STRIDE
            else:
                if snapshot:
                    _keep(dense, step, n)
                at(steps, step).frozen = frozen
                if passed_over:
                    checked_to, passed_over = step + STRIDE, False
        if frozen == clock.active:
            break
        while turn < ahead and rising[at(steps, turn).before] == 0:
            turn += 1
        most = np.int64(LOOK_FURTHER if step < checked_to else LOOK_AHEAD)
        column = _next_row(free, rising, steps, turn, ahead, most)
        if column < 0:
            column = _lowest(free, rising, n, np.int64(-1))
        elif step < checked_to:
            level = free[column] / rising[column]
            if _count_lower(free, rising, slack, n, level) > 0:
                column = _lowest(free, rising, n, column)
                passed_over = True
        level = greater(last, free[column] / rising[column])
        if level <= last * (1.0 + SAME_LEVEL):
            level = last
        row = at(rows, column)
        if row.own != rising[column]:
            gather(clock, dense, column)
        frozen += row.members
        _freeze(dense, column, level, n)
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
