"""The clocks of rows, and when their flows end."""

from typing import Any

import numpy as np

from ubnet.jit import inner_kernel

from .ends import latest_of
from .row_filling import fill_rows
from .rows import (
    END,
    FIRST,
    LEVEL,
    LINK,
    MOVED,
    NEW_LEVEL,
    ORDER,
    SERVED,
    SERVED_LOW,
    SINCE,
    SLOT,
    TARGET,
    USED,
    end_of,
)
from .state import BLOCK_BITS, NEVER, PS_PER_S, Int, Row, Table


@inner_kernel
def _first_of_row(hops: Table, dense: Any, row: Int) -> None:
    """Look for the flow of a row that will end first."""
    reals, whole, slot_hop, slot_row, slot_target = dense[1], dense[2], dense[5], dense[6], dense[7]
    best, first = np.inf, -1
    for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
        if slot_row[slot] == row and slot_target[slot] < best:
            best, first = slot_target[slot], slot
    reals[TARGET, row] = best
    whole[FIRST, row] = hops[slot_hop[first]].flow


@inner_kernel
def reallocate_rows(clock: Row, flows: Table, hops: Table, links: Table, dense: Any) -> None:
    """Fill the rows anew; set the clocks of those whose level changed; find the next end."""
    reals, whole = dense[1:3]
    now = clock.now
    clock.reallocations += 1
    clock.stale = 0
    first = fill_rows(clock, flows, hops, links, dense)
    for k in range(first, clock.steps):
        row = whole[ORDER, k]
        level = reals[NEW_LEVEL, row]
        if level == reals[LEVEL, row] and whole[MOVED, row] == 0:
            continue
        served = reals[SERVED, row]
        more = reals[LEVEL, row] * float(now - whole[SINCE, row]) / PS_PER_S
        total = served + more
        part = total - served
        reals[SERVED_LOW, row] += (served - (total - part)) + (more - part)
        reals[SERVED, row] = total
        reals[LEVEL, row] = level
        whole[SINCE, row] = now
        whole[MOVED, row] = 0
        if whole[FIRST, row] < 0:
            _first_of_row(hops, dense, row)
        whole[END, row] = end_of(reals[TARGET, row], total, reals[SERVED_LOW, row], level, now)
    soonest = NEVER
    for k in range(clock.steps):
        soonest = min(soonest, whole[END, whole[ORDER, k]])
    clock.next_end = soonest
    clock.lowest = clock.steps
    clock.sweep += 1
    clock.swept_flows = 0
    clock.listed_links = 0
    clock.changed_links = 0


@inner_kernel
def unpack_rows(clock: Row, flows: Table, lists: Table, blocks: Table, dense: Any) -> None:
    """Write each active flow's own rate, bytes left and end."""
    reals, whole = dense[1:3]
    for k in range(clock.active):
        flow = flows[lists[k].active]
        row = flow.row
        if row < 0:
            continue  # it has just started
        served, low, level = reals[SERVED, row], reals[SERVED_LOW, row], reals[LEVEL, row]
        flow.rate = level
        flow.stopped_by = whole[LINK, row]
        flow.since_ps = whole[SINCE, row]
        flow.left = max(0.0, (flow.target - served) - low)
        lists[k].due_ps = NEVER
        if level > 0.0:
            lists[k].due_ps = end_of(flow.target, served, low, level, whole[SINCE, row])
        blocks[k >> BLOCK_BITS].dirty = 1


@inner_kernel
def hold_back_rows(clock: Row, lists: Table, dense: Any) -> Int:
    """Do as `hold_back` does, with rows."""
    reals, whole, slot_row, slot_target = dense[1], dense[2], dense[6], dense[7]
    latest, last = latest_of(clock, lists), clock.next_end
    for k in range(clock.steps):
        row = whole[ORDER, k]
        if whole[END, row] > latest:
            continue
        served, low, level = reals[SERVED, row], reals[SERVED_LOW, row], reals[LEVEL, row]
        for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
            if slot_row[slot] == row:
                end = end_of(slot_target[slot], served, low, level, whole[SINCE, row])
                if last < end <= latest:
                    last = end
    return int(last)
