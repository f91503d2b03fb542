"""Flows of rows end, and others start in rows."""

import numpy as np

from ubnet.jit import at, between, inner_kernel, lesser, merged_kernel, upto

from .ends import note_held
from .heaps import sort_rows
from .row_members import give_slots_back, join_row, leave_row, take_slots
from .rows import SNAPSHOT_BITS, STRIDE, UNPLACED, Dense, end_of
from .state import CRAMPED, MOST_SHARES, Int, Row, Table


@merged_kernel
def take_rows_due(
    clock: Row, posted: Table, flows: Table, hops: Table, lists: Table, dense: Dense
) -> Int:
    """Take flows whose time has come out of their rows; return how many are in the batch."""
    rows, place, steps, rising_then = dense.rows, dense.place, dense.steps, dense.rising_then
    n, now, slots, cells = np.int64(0), clock.now, dense.slots, dense.cells
    for k in upto(clock.steps):
        row_id = at(steps, k).row
        row = at(rows, row_id)
        if row.end_ps <= now:
            for j in between(row.slot, row.slot + row.used):
                slot = at(slots, j)
                if slot.row == row_id:
                    end = end_of(slot.target, row)
                    if end <= now:
                        note_held(clock, end)
                        at(lists, n).batch = at(flows, at(hops, slot.hop).flow).posted
                        n += 1
    sort_rows(lists, n)
    for k in upto(n):
        flow_id = np.int64(at(posted, at(lists, k).batch).flow)
        slot = at(slots, at(cells, at(flows, flow_id).first_hop).slot)
        step = place[slot.row]
        clock.lowest = lesser(clock.lowest, step)
        for h in between(at(flows, flow_id).first_hop, at(flows, flow_id).end_hop):
            cell = at(cells, h)
            for snapshot in upto((step >> SNAPSHOT_BITS) + 1):
                rising_then[snapshot * clock.columns + cell.column] -= cell.share
        leave_row(clock, dense, slot)
        give_slots_back(flows, dense, flow_id)
    return n


@inner_kernel
def _lower(clock: Row, flows: Table, hops: Table, links: Table, dense: Dense, flow_id: Int) -> None:
    """Lower `clock.lowest` to a snapshot before which one more flow fills none of its links."""
    rows, place, steps = dense.rows, dense.place, dense.steps
    free_then, rising_then = dense.free_then, dense.rising_then
    snapshot = clock.lowest >> SNAPSHOT_BITS
    for h in between(at(flows, flow_id).first_hop, at(flows, flow_id).end_hop):
        hop = at(hops, h)
        column = at(links, hop.link).column
        snapshot = lesser(snapshot, place[column] >> SNAPSHOT_BITS)
        while snapshot > 0:
            level = at(rows, at(steps, snapshot * STRIDE - 1).row).level
            then = snapshot * clock.columns + column
            if free_then[then] > level * (rising_then[then] + hop.share):
                break
            snapshot -= 1
    clock.lowest = lesser(clock.lowest, snapshot * STRIDE)


@inner_kernel
def _are_fit(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, dense: Dense, n: Int
) -> bool:
    """Count the shares of flows that start; say whether they can be in rows, or `clock.unfit`."""
    if clock.odd_flows > 0:  # whose shares may be more than a count of shares can hold
        clock.unfit = 1
        return False
    rows, rising_then = dense.rows, dense.rising_then
    for k in upto(n):
        flow_id = np.int64(at(lists, k).batch)
        for h in between(at(flows, flow_id).first_hop, at(flows, flow_id).end_hop):
            hop = at(hops, h)
            link = at(links, hop.link)
            column = link.column
            if column < 0:
                clock.unfit = 1
                continue
            row = at(rows, column)
            rising_then[column] += np.int64(hop.share)
            if rising_then[column] > MOST_SHARES:
                clock.unfit = 1
            elif row.slot + link.crowd > row.slot_end and clock.unfit == 0:
                clock.unfit = CRAMPED
    return bool(clock.unfit == 0)


@merged_kernel
def start_in_rows(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, dense: Dense, n: Int
) -> None:
    """Put flows that start into rows, or say that they are unfit for it."""
    if not _are_fit(clock, flows, hops, links, lists, dense, n):
        return
    place, steps, rising_then = dense.place, dense.steps, dense.rising_then
    for k in upto(n):
        flow_id = np.int64(at(lists, k).batch)
        flow = at(flows, flow_id)
        row_id = np.int64(at(links, at(hops, flow.first_hop).link).column)
        _lower(clock, flows, hops, links, dense, flow_id)
        for h in between(flow.first_hop, flow.end_hop):
            hop = at(hops, h)
            column = np.int64(at(links, hop.link).column)
            for snapshot in between(1, (clock.lowest >> SNAPSHOT_BITS) + 1):
                rising_then[snapshot * clock.columns + column] += np.int64(hop.share)
            if place[column] < place[row_id]:
                row_id = column
        if place[row_id] == UNPLACED:  # nothing there yet: into the order, at its end
            place[row_id] = clock.steps
            at(steps, clock.steps).row = row_id
            clock.steps += 1
        take_slots(flows, hops, links, dense, flow_id)
        slot = at(dense.slots, at(dense.cells, flow.first_hop).slot)
        join_row(clock, dense, slot, row_id, float(flow.volume))
