"""The clocks of rows, and when their flows end."""

import numpy as np

from ubnet.jit import at, between, greater, inner_kernel, lesser, merged_kernel, upto

from .blocks import Blocks, forget_all
from .ends import latest_of
from .row_filling import fill_rows
from .rows import NOT_FOUND, Dense, end_of
from .state import NEVER, PS_PER_S, Int, Row, Table


@inner_kernel
def _find_first(slots: Table, row: Row, row_id: Int) -> None:
    """Look for the flow of a row that will end first."""
    row.target = np.inf
    for k in between(row.slot, row.slot + row.used):
        slot = at(slots, k)
        if slot.row == row_id and slot.target < row.target:
            row.target = slot.target


@merged_kernel
def reallocate_rows(clock: Row, dense: Dense) -> None:
    """Fill the rows anew; set the clocks of those whose level changed; find the next end."""
    rows, steps, slots = dense.rows, dense.steps, dense.slots
    now = clock.now
    first = fill_rows(clock, dense)
    for k in between(first, clock.steps):
        row = at(rows, at(steps, k).row)
        if row.new_level == row.level and row.moved == 0:
            continue
        more = row.level * float(now - row.since_ps) / PS_PER_S
        total = row.served + more
        part = total - row.served
        row.served_low += (row.served - (total - part)) + (more - part)
        row.served = total
        row.level = row.new_level
        row.since_ps = now
        row.moved = 0
        if row.target == NOT_FOUND:
            _find_first(slots, row, np.int64(at(steps, k).row))
        row.end_ps = end_of(row.target, row)
    soonest = NEVER
    for k in upto(clock.steps):
        soonest = lesser(soonest, at(rows, at(steps, k).row).end_ps)
    clock.next_end = soonest
    clock.lowest = clock.steps


@inner_kernel
def unpack_rows(clock: Row, flows: Table, lists: Table, blocks: Blocks, dense: Dense) -> None:
    """Write each active flow's own rate, bytes left and end."""
    rows, slots, cells = dense.rows, dense.slots, dense.cells
    for k in upto(clock.active):
        flow = at(flows, at(lists, k).active)
        if flow.in_rows == 0:
            continue  # it has just started
        slot = at(slots, at(cells, flow.first_hop).slot)
        row = at(rows, slot.row)
        flow.rate = row.level
        flow.stopped_by = row.link
        flow.since_ps = row.since_ps
        flow.left = greater(0.0, (slot.target - row.served) - row.served_low)
        blocks.due_ps[k] = NEVER
        if row.level > 0.0:
            blocks.due_ps[k] = end_of(slot.target, row)
    forget_all(clock, blocks)


@inner_kernel
def hold_back_rows(clock: Row, lists: Table, dense: Dense) -> Int:
    """Do as `hold_back` does, with rows."""
    rows, steps, slots = dense.rows, dense.steps, dense.slots
    latest = latest_of(clock, lists)
    last: Int = clock.next_end
    for k in upto(clock.steps):
        row_id = at(steps, k).row
        row = at(rows, row_id)
        if row.end_ps <= latest:
            for j in between(row.slot, row.slot + row.used):
                slot = at(slots, j)
                if slot.row == row_id:
                    end = end_of(slot.target, row)
                    if last < end <= latest:
                        last = end
    return last
