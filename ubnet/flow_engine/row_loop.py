"""The event loop of the dense regime."""

from typing import Any

import numpy as np

from ubnet.jit import inner_kernel, kernel

from .heaps import drop_top, sink_level
from .row_clocks import hold_back_rows, reallocate_rows, unpack_rows
from .row_events import end_rows_due, start_in_rows
from .row_members import join_row, take_slots
from .rows import END, LINK, MOVED, ORDER, PLACE, SLACK, SLOT, SLOT_END, SPARE_SLOTS, UNPLACED
from .starts import start_due
from .state import (
    ACTIVE,
    CRAMPED,
    CROWD,
    DENSE,
    I8,
    LOWEST,
    MISSES,
    NEVER,
    NEXT_END,
    NO_EVENT,
    NOW,
    PS_PER_S,
    REALLOCATIONS,
    REPORTED,
    SAME_LEVEL,
    STALE,
    STEPS,
    SUMS,
    TOLERANCE,
    UNFIT,
    WAIT,
    WAITING,
    WANTED,
    WATCHED_END,
    Int,
    Table,
)


@inner_kernel
def _build_rows(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, dense: Any
) -> None:
    """Sort the active flows into rows by what holds them back, and the rows by level."""
    _, reals, whole, free_then, open_then = dense[:5]
    now, n, slots = clock[NOW], len(reals[0]), np.int64(0)
    clock[CROWD] = clock[ACTIVE]
    clock[SUMS] += 1
    for k in range(len(links)):
        links[k].column = -1
    for k in range(n):
        link_id = np.int64(k if n == len(links) - 1 else links[k].busy)
        link = links[link_id]
        link.column = k
        whole[LINK, k] = link_id
        whole[PLACE, k] = UNPLACED
        whole[END, k] = NEVER
        whole[SLOT, k] = slots
        slots += link.crowd + link.crowd // 2 + SPARE_SLOTS
        whole[SLOT_END, k] = slots
        reals[SLACK, k] = SAME_LEVEL * link.capacity
        free_then[0, k] = link.capacity
        open_then[0, k] = 0.0
        h = link.first_hop
        while h >= 0:
            hop = hops[h]
            open_then[0, k] += hop.share
            h = hop.next
    for k in range(clock[ACTIVE]):
        flow_id = np.int64(lists[k].active)
        flow = flows[flow_id]
        take_slots(flows, hops, links, dense, flow_id)
        elapsed = float(now - flow.since_ps)
        left = max(0.0, flow.left - flow.rate * elapsed / PS_PER_S)
        row = np.int64(links[flow.stopped_by].column)
        join_row(clock, flows, dense, flow_id, row, left)
    rows: Int = np.int64(0)
    for k in range(n):
        if whole[MOVED, k] != 0:
            levels[rows].level = links[whole[LINK, k]].stop_level
            levels[rows].of = k
            rows += 1
    for k in range((rows + 2) // 4 - 1, -1, -1):
        sink_level(levels, k, rows)
    clock[STEPS] = rows
    for k in range(clock[STEPS]):
        whole[ORDER, k] = levels[0].of
        rows = drop_top(levels, rows)
    clock[LOWEST] = 0
    clock[STALE] = 1


@kernel
def settle_dense(engine: tuple[Any, ...], dense: tuple[Any, ...]) -> None:
    """Let the flows show their own rates and bytes left, as of when these last changed."""
    unpack_rows(engine[0], engine[1], engine[5], engine[8], dense)


@kernel
def work_dense(engine: tuple[Any, ...], dense: tuple[Any, ...], limit_ps: Int, until: Int) -> Int:
    """Do as `work` does while the dense regime pays; then the clock says DENSE no more."""
    clock, flows, hops, edges, links, lists, levels, recent, blocks, ends = engine
    if clock[DENSE] == 0:
        clock[DENSE] = 1
        clock[WANTED] = 0
        _build_rows(clock, flows, hops, links, lists, levels, dense)
        clock[REALLOCATIONS] -= 1  # the same instant once more
        reallocate_rows(clock, flows, hops, links, dense)
    clock[REPORTED] = 0
    while True:
        due = clock[WAITING] > 0 and lists[0].waiting_ps <= clock[NOW]
        if clock[STALE] != 0 and clock[NOW] == limit_ps and not due and until != NO_EVENT:
            return int(limit_ps)
        if clock[STALE] != 0 and not due:
            if clock[UNFIT] != 0 or 2 * clock[ACTIVE] < clock[CROWD]:
                break
            reallocate_rows(clock, flows, hops, links, dense)
        now = clock[NEXT_END]
        if clock[TOLERANCE] > 0 and now < NEVER:
            now = hold_back_rows(clock, lists, dense)
        if clock[WAITING] > 0:
            now = min(now, lists[0].waiting_ps)
        now = max(clock[NOW], now)  # ends that waited are not in the past
        if now > limit_ps or now == NEVER or until == NO_EVENT:
            return int(now)
        clock[NOW] = now
        clock[STALE] = 1
        if clock[NEXT_END] <= now:
            clock[NEXT_END] = NEVER
            end_rows_due(clock, flows, hops, edges, links, lists, recent, blocks, ends, dense)
        n = start_due(clock, flows, hops, edges, links, lists, recent, blocks, ends)
        start_in_rows(clock, flows, hops, links, lists, dense, n)
        if until == WATCHED_END and clock[REPORTED] > 0:
            return int(now)
        clock[REPORTED] = 0
    unpack_rows(clock, flows, lists, blocks, dense)
    for k in range(len(links)):
        links[k].held = 0  # the filling that comes next counts anew, but for busy links alone
    clock[DENSE] = 0
    clock[MISSES] = 0
    if clock[UNFIT] == CRAMPED:
        clock[MISSES] = 2  # the next sweep given up leads back
    elif clock[UNFIT] != 0:
        clock[MISSES] = -64  # such flows may well come again
    clock[UNFIT] = 0
    clock[WAIT] = 1  # a filling sets what sweeps need
    return 0
