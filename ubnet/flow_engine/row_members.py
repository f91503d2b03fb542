"""Flows join rows and leave them."""

from typing import Any

import numpy as np

from ubnet.jit import inner_kernel

from .rows import (
    FIRST,
    LEVEL,
    MEMBERS,
    MOVED,
    OWN,
    PLACE,
    SERVED,
    SERVED_LOW,
    SINCE,
    SLOT,
    TARGET,
    UNPLACED,
    USED,
    read_clock,
)
from .state import Int, Row, Table


@inner_kernel
def take_slots(flows: Table, hops: Table, links: Table, dense: Any, flow_id: Int) -> None:
    """Give a flow a slot on each of its links."""
    whole, slot_hop, slot_row, begin, stop, cells = (
        dense[2],
        dense[5],
        dense[6],
        dense[8],
        dense[9],
        dense[10],
    )
    first, end = flows[flow_id].first_hop, flows[flow_id + 1].first_hop
    for h in range(first, end):
        hop, cell = hops[h], cells[h]
        column = links[hop.link].column
        slot = whole[SLOT, column] + whole[USED, column]
        whole[USED, column] += 1
        slot_hop[slot] = h
        slot_row[slot] = -1
        begin[slot], stop[slot] = first, end
        cell.slot = slot
        cell.column = column
        cell.share = int(hop.share)


@inner_kernel
def give_slots_back(flows: Table, dense: Any, flow_id: Int) -> None:
    """Let the last slot of each of a flow's links take the place of its own."""
    whole, slot_hop, slot_row, slot_target = dense[2], dense[5], dense[6], dense[7]
    begin, stop, cells = dense[8:11]
    for h in range(flows[flow_id].first_hop, flows[flow_id + 1].first_hop):
        cell = cells[h]
        column, slot = cell.column, cell.slot
        whole[USED, column] -= 1
        last = whole[SLOT, column] + whole[USED, column]
        slot_hop[slot] = slot_hop[last]
        slot_row[slot] = slot_row[last]
        slot_target[slot] = slot_target[last]
        begin[slot], stop[slot] = begin[last], stop[last]
        cells[slot_hop[slot]].slot = slot


@inner_kernel
def join_row(clock: Row, flows: Table, dense: Any, flow_id: Int, row: Int, left: float) -> None:
    """Put a flow with some bytes left into a row."""
    matrix, reals, whole, slot_row, slot_target, cells = (
        dense[0],
        dense[1],
        dense[2],
        dense[6],
        dense[7],
        dense[10],
    )
    if whole[MEMBERS, row] == 0:
        reals[SERVED, row] = 0.0
        reals[SERVED_LOW, row] = 0.0
        reals[LEVEL, row] = 0.0
        reals[TARGET, row] = np.inf
        whole[FIRST, row] = -1
        whole[SINCE, row] = clock.now
    target = read_clock(reals, whole, row, clock.now) + left
    flow = flows[flow_id]
    flow.row = row
    flow.target = target
    whole[MOVED, row] = 1
    whole[MEMBERS, row] += 1
    if target < reals[TARGET, row]:
        reals[TARGET, row] = target
        whole[FIRST, row] = flow_id
    for h in range(flow.first_hop, flows[flow_id + 1].first_hop):
        cell = cells[h]
        matrix[row, cell.column] += cell.share
        slot_row[cell.slot] = row
        if cell.column == row:
            slot_target[cell.slot] = target
            reals[OWN, row] += cell.share


@inner_kernel
def leave_row(flows: Table, dense: Any, flow_id: Int) -> None:
    """Take a flow out of its row."""
    matrix, reals, whole, cells = dense[0], dense[1], dense[2], dense[10]
    row = np.int64(flows[flow_id].row)
    whole[MOVED, row] = 1
    whole[MEMBERS, row] -= 1
    if whole[FIRST, row] == flow_id:
        whole[FIRST, row] = -1
        reals[TARGET, row] = -1.0  # until it is looked for, nobody is before it
    for h in range(flows[flow_id].first_hop, flows[flow_id + 1].first_hop):
        cell = cells[h]
        matrix[row, cell.column] -= cell.share
        if cell.column == row:
            reals[OWN, row] -= cell.share


@inner_kernel
def gather(clock: Row, flows: Table, hops: Table, dense: Any, column: Int) -> None:
    """Move the rising flows of a link that are in other rows to its own."""
    reals, whole, slot_hop, slot_row = dense[1], dense[2], dense[5], dense[6]
    for slot in range(whole[SLOT, column], whole[SLOT, column] + whole[USED, column]):
        row = np.int64(slot_row[slot])
        if row != column and whole[PLACE, row] == UNPLACED:
            clock.touched += 1
            flow_id = np.int64(hops[slot_hop[slot]].flow)
            left = flows[flow_id].target - read_clock(reals, whole, row, clock.now)
            leave_row(flows, dense, flow_id)
            join_row(clock, flows, dense, flow_id, column, left)
