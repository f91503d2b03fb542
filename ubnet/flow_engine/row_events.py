"""Flows of rows end, and others start in rows."""

from typing import Any

import numpy as np

from ubnet.jit import inner_kernel

from .active import deactivate
from .ends import finish, note_held
from .heaps import sort_ids
from .row_members import give_slots_back, join_row, leave_row, take_slots
from .rows import (
    END,
    LEVEL,
    ORDER,
    PLACE,
    SERVED,
    SERVED_LOW,
    SINCE,
    SLOT,
    SLOT_END,
    STRIDE,
    UNPLACED,
    USED,
    end_of,
)
from .state import CRAMPED, I8, MOST_SHARES, Int, Row, Table


@inner_kernel
def end_rows_due(
    clock: Row,
    flows: Table,
    hops: Table,
    edges: Table,
    links: Table,
    lists: Table,
    recent: Table,
    blocks: Table,
    ends: I8,
    dense: Any,
) -> None:
    """End the flows whose time has come."""
    reals, whole, open_then, slot_hop, slot_row, slot_target, cells = (
        dense[1],
        dense[2],
        dense[4],
        dense[5],
        dense[6],
        dense[7],
        dense[10],
    )
    n, now = np.int64(0), clock.now
    for k in range(clock.steps):
        row = whole[ORDER, k]
        if whole[END, row] > now:
            continue
        served, low, level = reals[SERVED, row], reals[SERVED_LOW, row], reals[LEVEL, row]
        for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
            if slot_row[slot] == row:
                end = end_of(slot_target[slot], served, low, level, whole[SINCE, row])
                if end <= now:
                    note_held(clock, end)
                    lists[n].batch = hops[slot_hop[slot]].flow
                    n += 1
    sort_ids(lists.batch, n)
    for k in range(n):
        flow_id = np.int64(lists[k].batch)
        place = whole[PLACE, flows[flow_id].row]
        clock.lowest = min(clock.lowest, place)
        for h in range(flows[flow_id].first_hop, flows[flow_id + 1].first_hop):
            cell = cells[h]
            for snapshot in range(place // STRIDE + 1):
                open_then[snapshot, cell.column] -= cell.share
        leave_row(flows, dense, flow_id)
        give_slots_back(flows, dense, flow_id)
        deactivate(clock, flows, hops, links, lists, blocks, flow_id)
        finish(clock, flows, hops, edges, links, lists, recent, ends, flow_id)


@inner_kernel
def _lower(clock: Row, flows: Table, hops: Table, links: Table, dense: Any, flow_id: Int) -> None:
    """Lower `LOWEST` to a snapshot before which one more flow fills none of its links."""
    _, reals, whole, free_then, open_then = dense[:5]
    snapshot = clock.lowest // STRIDE
    for h in range(flows[flow_id].first_hop, flows[flow_id + 1].first_hop):
        hop = hops[h]
        column = links[hop.link].column
        snapshot = min(snapshot, whole[PLACE, column] // STRIDE)
        while snapshot > 0:
            level = reals[LEVEL, whole[ORDER, snapshot * STRIDE - 1]]
            if free_then[snapshot, column] > level * (open_then[snapshot, column] + hop.share):
                break
            snapshot -= 1
    clock.lowest = min(clock.lowest, snapshot * STRIDE)


@inner_kernel
def start_in_rows(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, dense: Any, n: Int
) -> None:
    """Put flows that start into rows, or say that they are unfit for it."""
    whole, open_then = dense[2], dense[4]
    for k in range(n):
        flow_id = np.int64(lists[k].batch)
        for h in range(flows[flow_id].first_hop, flows[flow_id + 1].first_hop):
            hop = hops[h]
            link = links[hop.link]
            column = link.column
            if column < 0:
                clock.unfit = 1
                continue
            open_then[0, column] += hop.share
            if open_then[0, column] > MOST_SHARES:
                clock.unfit = 1
            elif whole[SLOT, column] + link.crowd > whole[SLOT_END, column]:
                clock.unfit = CRAMPED if clock.unfit == 0 else clock.unfit
    if clock.odd_flows > 0:
        clock.unfit = 1
    if clock.unfit != 0:
        return
    for k in range(n):
        flow_id = np.int64(lists[k].batch)
        flow = flows[flow_id]
        row = np.int64(links[hops[flow.first_hop].link].column)
        _lower(clock, flows, hops, links, dense, flow_id)
        for h in range(flow.first_hop, flows[flow_id + 1].first_hop):
            hop = hops[h]
            column = links[hop.link].column
            for snapshot in range(1, clock.lowest // STRIDE + 1):
                open_then[snapshot, column] += hop.share
            if whole[PLACE, column] < whole[PLACE, row]:
                row = column
        if whole[PLACE, row] == UNPLACED:  # nothing there yet: into the order, at its end
            whole[PLACE, row] = clock.steps
            whole[ORDER, clock.steps] = row
            clock.steps += 1
        take_slots(flows, hops, links, dense, flow_id)
        join_row(clock, flows, dense, flow_id, row, float(flow.volume))
