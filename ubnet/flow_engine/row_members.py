"""Flows join rows and leave them."""

import numpy as np

from ubnet.jit import at, between, inner_kernel

from .rows import NOT_FOUND, UNPLACED, Dense, read_clock
from .state import Int, Row, Table


@inner_kernel
def take_slots(flows: Table, hops: Table, links: Table, dense: Dense, flow_id: Int) -> None:
    """Give a flow a slot on each of its links."""
    rows, slots, cells = dense.rows, dense.slots, dense.cells
    flow = at(flows, flow_id)
    begin, stop = flow.first_hop, flow.end_hop
    flow.in_rows = 1
    for h in between(begin, stop):
        hop, cell = at(hops, h), at(cells, h)
        column = at(links, hop.link).column
        its = at(rows, column)
        cell.slot = its.slot + its.used
        cell.column = column
        cell.share = np.int64(hop.share)
        its.used += 1
        slot = at(slots, cell.slot)
        slot.hop = h
        slot.row = -1
        slot.begin = begin
        slot.stop = stop


@inner_kernel
def give_slots_back(flows: Table, dense: Dense, flow_id: Int) -> None:
    """Let the last slot of each of a flow's links take the place of its own."""
    rows, slots, cells = dense.rows, dense.slots, dense.cells
    for h in between(at(flows, flow_id).first_hop, at(flows, flow_id).end_hop):
        cell = at(cells, h)
        its = at(rows, cell.column)
        its.used -= 1
        last, slot = at(slots, its.slot + its.used), at(slots, cell.slot)
        slot.target = last.target
        slot.hop = last.hop
        slot.row = last.row
        slot.begin = last.begin
        slot.stop = last.stop
        at(cells, slot.hop).slot = cell.slot


@inner_kernel
def join_row(clock: Row, dense: Dense, slot: Row, row_id: Int, left: float) -> None:
    """Put the flow of a slot, with some bytes left, into a row."""
    matrix, rows, slots, cells = dense.matrix, dense.rows, dense.slots, dense.cells
    row = at(rows, row_id)
    if row.members == 0:
        row.served = 0.0
        row.served_low = 0.0
        row.level = 0.0
        row.target = np.inf
        row.since_ps = clock.now
    target = read_clock(row, clock.now) + left
    row.moved = 1
    row.members += 1
    if target < row.target:
        row.target = target
    for h in between(slot.begin, slot.stop):
        cell = at(cells, h)
        matrix[row_id * clock.columns + cell.column] += cell.share
        at(slots, cell.slot).row = row_id
        at(slots, cell.slot).target = target
        if cell.column == row_id:
            row.own += cell.share


@inner_kernel
def leave_row(clock: Row, dense: Dense, slot: Row) -> None:
    """Take the flow of a slot out of its row."""
    matrix, rows, cells = dense.matrix, dense.rows, dense.cells
    row_id = np.int64(slot.row)
    row = at(rows, row_id)
    row.moved = 1
    row.members -= 1
    if slot.target == row.target:
        row.target = NOT_FOUND
    for h in between(slot.begin, slot.stop):
        cell = at(cells, h)
        matrix[row_id * clock.columns + cell.column] -= cell.share
        if cell.column == row_id:
            row.own -= cell.share


@inner_kernel
def gather(clock: Row, dense: Dense, column: Int) -> None:
    """Move the rising flows of a link that are in other rows to its own."""
    rising, rows, place = dense.rising, dense.rows, dense.place
    slots, cells = dense.slots, dense.cells
    its = at(rows, column)
    missing = rising[column] - its.own
    for k in between(its.slot, its.slot + its.used):
        if missing == 0:
            break
        slot = at(slots, k)
        if slot.row != column and place[slot.row] == UNPLACED:
            clock.touched += 1
            missing -= at(cells, slot.hop).share
            left = slot.target - read_clock(at(rows, slot.row), clock.now)
            leave_row(clock, dense, slot)
            join_row(clock, dense, slot, column, left)
