"""The event loop of the flow engine.

It takes all events of an instant, applies them, re-allocates once, and finds the next.
"""

import numpy as np

from ubnet.jit import (
    at,
    borrowing_kernel,
    greater,
    inlined_kernel,
    inner_kernel,
    lesser,
    merged_kernel,
    upto,
)

from .active import end_allocation
from .blocks import Blocks, blocks_of, find_next_end
from .ends import hold_back, take_due
from .fill import fill
from .instant import fetch_next, pass_instant
from .row_clocks import hold_back_rows, reallocate_rows
from .row_events import start_in_rows, take_rows_due
from .row_regime import enter_rows, leave_rows
from .rows import dense_of
from .state import (
    I8,
    MOST_SHARES,
    NEVER,
    NO_EVENT,
    PATIENCE,
    WATCHED_END,
    Int,
    Row,
    Table,
    engine_of,
)
from .sweep import settle_alone, sweep

MOST_COLUMNS = 2048


@inner_kernel
def _want_dense(clock: Row, hops: Table, links: Table) -> None:
    """Ask for the tables of the dense regime where all active flows are fit for it."""
    columns = clock.links
    if columns > MOST_COLUMNS:
        columns = clock.busy_links
    if clock.odd_flows > 0 or columns > MOST_COLUMNS:
        return
    for k in upto(clock.busy_links):
        link = at(links, at(links, k).busy)
        if link.crowd > MOST_SHARES:
            return
        total = 0.0
        h = link.first_hop
        while h >= 0:
            hop = at(hops, h)
            total += hop.share
            h = hop.next
        if total > MOST_SHARES:
            return
    clock.wanted = columns


@inlined_kernel
def _changes_little(clock: Row, links: Table) -> bool:
    """Say whether so few rates seem to change that a sweep pays, and none was given up lately."""
    changing = clock.swept_flows
    for k in upto(clock.changed_links):  # whom a link held back that flows have left now rises
        changing += at(links, at(links, k).changed).held
    return bool(clock.wait == 0 and 4 * changing <= clock.active)


@merged_kernel
def _reallocate(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Blocks
) -> None:
    """Allocate rates anew: by a sweep where little seems to change, else all."""
    if not _changes_little(clock, links):
        clock.wait = greater(0, clock.wait - 1)
        fill(clock, flows, hops, links, lists, levels, blocks)
    elif settle_alone(clock, flows, hops, links, lists, blocks) or sweep(
        clock, flows, hops, links, lists, levels, blocks
    ):
        clock.sweeps += 1
        clock.misses = 0
    else:
        clock.misses += 1
        misses = clock.misses if clock.misses > 0 else clock.misses + PATIENCE
        clock.wait = (1 << lesser(misses - 1, 5)) - 1
        fill(clock, flows, hops, links, lists, levels, blocks)
        if clock.misses > 2:
            _want_dense(clock, hops, links)


@borrowing_kernel
def work(where: I8, where_dense: I8, limit_ps: Int, until: Int) -> Int:
    """Work off events up to ``limit_ps`` and return the time of the next, or NEVER.

    ``until`` is NO_EVENT (only look), ALL_EVENTS, or WATCHED_END: stop at the first instant at
    which watched flows end. Where `clock.wanted` is set, this is to be called again with tables of
    the dense regime for so many columns; else these count only while `clock.dense` is set.
    """
    given = engine_of(where)
    clock, posted, kinds, routes = at(given.clock, 0), given.posted, given.kinds, given.routes
    flows, hops, edges, links = given.flows, given.hops, given.edges, given.links
    lists, levels, recent, ends = given.lists, given.levels, given.recent, given.ends
    blocks, dense = blocks_of(given), dense_of(where_dense)
    if clock.wanted > 0:
        enter_rows(clock, flows, hops, links, lists, levels, dense)
    clock.reported = 0
    while True:
        # Flows that start at an instant already begun join it: allocation waits until all have.
        due = clock.waiting > 0 and at(lists, 0).waiting_ps <= clock.now
        if clock.stale != 0 and not due:
            if clock.now == limit_ps and until != NO_EVENT:
                return limit_ps  # more may be posted at this instant
            clock.stale = 0
            clock.reallocations += 1
            if clock.dense != 0 and (clock.unfit != 0 or 2 * clock.active < clock.crowd):
                leave_rows(clock, flows, links, lists, blocks, dense)
            if clock.dense != 0:
                reallocate_rows(clock, dense)
            else:
                _reallocate(clock, flows, hops, links, lists, levels, blocks)
                find_next_end(clock, blocks)
                fetch_next(clock, posted, lists)
            end_allocation(clock, flows, links)
        now: Int = clock.next_end
        if clock.tolerance > 0 and now < NEVER and not due:
            if clock.dense != 0:
                now = hold_back_rows(clock, lists, dense)
            else:
                now = hold_back(clock, lists, blocks)
        if clock.waiting > 0:
            now = lesser(now, at(lists, 0).waiting_ps)
        now = greater(clock.now, now)  # ends that waited are not in the past
        if now > limit_ps or now == NEVER or until == NO_EVENT or clock.wanted > 0:
            return now
        clock.now = now
        clock.stale = 1
        ending: Int = np.int64(0)
        if clock.next_end <= now:
            clock.next_end = NEVER
            if clock.dense != 0:
                ending = take_rows_due(clock, posted, flows, hops, lists, dense)
            else:
                ending = take_due(clock, flows, lists, blocks)
        entered = pass_instant(
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
        if clock.dense != 0:
            start_in_rows(clock, flows, hops, links, lists, dense, entered)
        if until == WATCHED_END and clock.reported > 0:
            return now
        clock.reported = 0
