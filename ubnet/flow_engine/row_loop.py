"""The event loop of the dense regime."""

from typing import Any

import numpy as np

from ubnet.jit import borrowing_kernel, inner_kernel

from .blocks import Blocks
from .first_rows import at, first_row
from .heaps import drop_top, sink_level
from .instant import pass_instant
from .row_clocks import hold_back_rows, reallocate_rows, unpack_rows
from .row_events import start_in_rows, take_rows_due
from .row_members import join_row, take_slots
from .rows import SPARE_SLOTS, UNPLACED, Dense, dense_of
from .state import (
    CRAMPED,
    NEVER,
    NO_EVENT,
    PATIENCE,
    PS_PER_S,
    SAME_LEVEL,
    WATCHED_END,
    Engine,
    Int,
    Row,
    Table,
)


@inner_kernel
def _build_rows(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, dense: Dense
) -> None:
    """Sort the active flows into rows by what holds them back, and the rows by level."""
    _, _, _, slack, rows, place, steps, free_then, rising_then, _, _ = dense
    n, slots_given = len(slack), np.int64(0)
    clock.crowd = clock.active
    clock.sums += 1
    for k in range(clock.links):
        at(links, k).column = -1
    for k in range(n):
        link_id = np.int64(k if n == clock.links else at(links, k).busy)
        link, row = at(links, link_id), at(rows, k)
        link.column = k
        row.link = link_id
        place[k] = UNPLACED
        row.end_ps = NEVER
        row.slot = slots_given
        slots_given += link.crowd + link.crowd // 2 + SPARE_SLOTS
        row.slot_end = slots_given
        slack[k] = SAME_LEVEL * link.capacity
        free_then[0, k] = link.capacity
        rising_then[0, k] = 0
        h = link.first_hop
        while h >= 0:
            hop = at(hops, h)
            rising_then[0, k] += int(hop.share)
            h = hop.next
    for k in range(clock.active):
        flow_id = np.int64(at(lists, k).active)
        flow = at(flows, flow_id)
        take_slots(flows, hops, links, dense, flow_id)
        elapsed = float(clock.now - flow.since_ps)
        left = max(0.0, flow.left - flow.rate * elapsed / PS_PER_S)
        join_row(clock, flows, dense, flow_id, np.int64(at(links, flow.stopped_by).column), left)
    used: Int = np.int64(0)
    for k in range(n):
        if at(rows, k).moved != 0:
            at(levels, used).level = at(links, at(rows, k).link).stop_level
            at(levels, used).of = k
            used += 1
    for k in range((used + 2) // 4 - 1, -1, -1):
        sink_level(levels, k, used)
    clock.steps = used
    for k in range(clock.steps):
        at(steps, k).row = at(levels, 0).of
        used = drop_top(levels, used)
    clock.lowest = 0
    clock.stale = 1


@borrowing_kernel
def settle_dense(engine: tuple[Any, ...], tables: tuple[Any, ...]) -> None:
    """Let the flows show their own rates and bytes left, as of when these last changed."""
    given = Engine(*engine)
    clock, flows, lists = first_row(given.clock), first_row(given.flows), first_row(given.lists)
    blocks = Blocks(given.due_ps, given.first_ps, given.unknown)
    unpack_rows(at(clock, 0), flows, lists, blocks, dense_of(tables))


@borrowing_kernel
def work_dense(engine: tuple[Any, ...], tables: tuple[Any, ...], limit_ps: Int, until: Int) -> Int:
    """Do as `work` does while the dense regime pays; then `clock.dense` is 0."""
    given = Engine(*engine)
    clock, dense = at(first_row(given.clock), 0), dense_of(tables)
    posted, kinds, routes = first_row(given.posted), first_row(given.kinds), first_row(given.routes)
    flows, hops, edges = first_row(given.flows), first_row(given.hops), first_row(given.edges)
    links, lists, levels = first_row(given.links), first_row(given.lists), first_row(given.levels)
    recent, ends = first_row(given.recent), given.ends
    blocks = Blocks(given.due_ps, given.first_ps, given.unknown)
    if clock.dense == 0:
        clock.dense = 1
        clock.wanted = 0
        _build_rows(clock, flows, hops, links, lists, levels, dense)
        clock.reallocations -= 1  # the same instant once more
        reallocate_rows(clock, flows, hops, links, dense)
    clock.reported = 0
    while True:
        due = clock.waiting > 0 and at(lists, 0).waiting_ps <= clock.now
        if clock.stale != 0 and clock.now == limit_ps and not due and until != NO_EVENT:
            return int(limit_ps)
        if clock.stale != 0 and not due:
            if clock.unfit != 0 or 2 * clock.active < clock.crowd:
                break
            reallocate_rows(clock, flows, hops, links, dense)
        now = clock.next_end
        if clock.tolerance > 0 and now < NEVER:
            now = hold_back_rows(clock, lists, dense)
        if clock.waiting > 0:
            now = min(now, at(lists, 0).waiting_ps)
        now = max(clock.now, now)  # ends that waited are not in the past
        if now > limit_ps or now == NEVER or until == NO_EVENT:
            return int(now)
        clock.now = now
        clock.stale = 1
        ending: Int = np.int64(0)
        if clock.next_end <= now:
            clock.next_end = NEVER
            ending = take_rows_due(clock, posted, flows, hops, lists, dense)
        n = pass_instant(
            clock,
            posted,
            kinds,
            routes,
            flows,
            hops,
            edges,
            links,
            lists,
            recent,
            blocks,
            ends,
            ending,
        )
        start_in_rows(clock, flows, hops, links, lists, dense, n)
        if until == WATCHED_END and clock.reported > 0:
            return int(now)
        clock.reported = 0
    unpack_rows(clock, flows, lists, blocks, dense)
    for k in range(clock.links):
        at(links, k).held = 0  # the filling that comes next counts anew, but for busy links alone
    clock.dense = 0
    clock.misses = 0
    if clock.unfit == CRAMPED:
        clock.misses = 2  # the next sweep given up leads back
    elif clock.unfit != 0:
        clock.misses = -PATIENCE  # such flows may well come again
    clock.unfit = 0
    clock.wait = 1  # a filling sets what sweeps need
    return 0
