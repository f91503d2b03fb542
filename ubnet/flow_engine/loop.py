"""The event loop of the flow engine.

It takes all events of an instant, applies them, re-allocates once, and finds the next.
"""

from typing import Any

from ubnet.jit import inner_kernel, kernel

from .ends import end_due, find_next_end, hold_back
from .fill import fill
from .starts import start_due
from .state import (
    ACTIVE,
    BUSY_LINKS,
    CHANGED_LINKS,
    I8,
    LISTED_LINKS,
    MISSES,
    MOST_SHARES,
    NEVER,
    NEXT_END,
    NO_EVENT,
    NOW,
    ODD_FLOWS,
    REALLOCATIONS,
    REPORTED,
    STALE,
    SWEEP,
    SWEEPS,
    SWEPT_FLOWS,
    TOLERANCE,
    WAIT,
    WAITING,
    WANTED,
    WATCHED_END,
    Int,
    Table,
)
from .sweep import sweep

MOST_COLUMNS = 2048


@inner_kernel
def _want_dense(clock: I8, hops: Table, links: Table) -> None:
    """Ask for the tables of the dense regime where all active flows are fit for it."""
    columns = len(links) - 1
    if columns > MOST_COLUMNS:
        columns = clock[BUSY_LINKS]
    for k in range(clock[BUSY_LINKS]):
        link = links[links[k].busy]
        if link.crowd > MOST_SHARES:
            return
        total = 0.0
        h = link.first_hop
        while h >= 0:
            hop = hops[h]
            total += hop.share
            h = hop.next
        if total > MOST_SHARES:
            return
    if clock[ODD_FLOWS] == 0 and columns <= MOST_COLUMNS:
        clock[WANTED] = columns


@inner_kernel
def _reallocate(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> None:
    """Allocate rates anew, by a sweep where little seems to change, else all; find the next end."""
    clock[REALLOCATIONS] += 1
    clock[STALE] = 0
    changing = clock[SWEPT_FLOWS]
    for k in range(clock[CHANGED_LINKS]):  # whom a link held back that flows have left now rises
        changing += links[links[k].changed].held
    if clock[WAIT] > 0 or 4 * changing > clock[ACTIVE]:
        clock[WAIT] = max(0, clock[WAIT] - 1)
        fill(clock, flows, hops, links, lists, levels, blocks)
    elif sweep(clock, flows, hops, links, lists, levels, blocks):
        clock[SWEEPS] += 1
        clock[MISSES] = 0
    else:
        clock[MISSES] += 1
        clock[WAIT] = (1 << min(clock[MISSES] - 1, 5)) - 1
        fill(clock, flows, hops, links, lists, levels, blocks)
        if clock[MISSES] > 2:
            _want_dense(clock, hops, links)
    clock[SWEEP] += 1
    clock[SWEPT_FLOWS] = 0
    clock[LISTED_LINKS] = 0
    clock[CHANGED_LINKS] = 0
    find_next_end(clock, lists, blocks)


@kernel
def work(engine: tuple[Any, ...], limit_ps: Int, until: Int) -> Int:
    """Work off events up to ``limit_ps`` and return the time of the next, or NEVER.

    ``until`` is NO_EVENT (only look), ALL_EVENTS, or WATCHED_END: stop at the first instant at
    which watched flows end. Where the clock says WANTED, `work_dense` is to go on.
    """
    clock, flows, hops, edges, links, lists, levels, recent, blocks, ends = engine
    clock[REPORTED] = 0
    while True:
        # Flows that start at an instant already begun join it: allocation waits until all have.
        due = clock[WAITING] > 0 and lists[0].waiting_ps <= clock[NOW]
        if clock[STALE] != 0 and not due:
            if clock[NOW] == limit_ps and until != NO_EVENT:
                return int(limit_ps)  # more may be posted at this instant
            _reallocate(clock, flows, hops, links, lists, levels, blocks)
        now = clock[NEXT_END]
        if clock[TOLERANCE] > 0 and now < NEVER and not due:
            now = hold_back(clock, lists, blocks)
        if clock[WAITING] > 0:
            now = min(now, lists[0].waiting_ps)
        now = max(clock[NOW], now)  # ends that waited are not in the past
        if now > limit_ps or now == NEVER or until == NO_EVENT or clock[WANTED] > 0:
            return int(now)
        clock[NOW] = now
        clock[STALE] = 1
        if clock[NEXT_END] <= now:
            clock[NEXT_END] = NEVER
            end_due(clock, flows, hops, edges, links, lists, recent, blocks, ends)
        start_due(clock, flows, hops, edges, links, lists, recent, blocks, ends)
        if until == WATCHED_END and clock[REPORTED] > 0:
            return int(now)
        clock[REPORTED] = 0
