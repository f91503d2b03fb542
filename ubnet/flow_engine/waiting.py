"""The queue of flows that wait for their instant."""

import numpy as np

from ubnet.jit import at, inlined_kernel

from .state import RECENT, Int, Row, Table


@inlined_kernel
def push_waiting(
    clock: Row, posted: Table, lists: Table, recent: Table, row: Int, at_ps: Int
) -> None:
    """Queue a flow that enters the network at ``at_ps``; flows of one instant share a place."""
    entry, instant = at(posted, row), at(recent, at_ps & (RECENT - 1))
    if instant.bucket >= 0 and instant.at_ps == at_ps:
        opened_by = at(posted, instant.bucket)
        entry.next_waiting = opened_by.bucket
        opened_by.bucket = row
        return
    entry.next_waiting = -1
    entry.bucket = row
    instant.at_ps = at_ps
    instant.bucket = row
    k = clock.waiting
    clock.waiting = k + 1
    place = at(lists, k)
    while k > 0:
        k = (k - 1) >> 1
        above = at(lists, k)
        if above.waiting_ps <= at_ps:
            break
        place.waiting_ps = above.waiting_ps
        place.waiting = above.waiting
        place = above
    place.waiting_ps = at_ps
    place.waiting = row


@inlined_kernel
def pop_waiting(clock: Row, lists: Table, recent: Table) -> Int:
    """Take the first instant off the waiting queue and return its bucket."""
    place = at(lists, 0)
    bucket = place.waiting
    instant = at(recent, place.waiting_ps & (RECENT - 1))
    if instant.bucket == bucket:
        instant.bucket = -1
    n = clock.waiting - 1
    clock.waiting = n
    last_ps, last = at(lists, n).waiting_ps, at(lists, n).waiting
    child = 1
    while child < n:
        below = at(lists, child)
        if child + 1 < n and at(lists, child + 1).waiting_ps < below.waiting_ps:
            child += 1
            below = at(lists, child)
        if below.waiting_ps >= last_ps:
            break
        place.waiting_ps = below.waiting_ps
        place.waiting = below.waiting
        place = below
        child = 2 * child + 1
    place.waiting_ps = last_ps
    place.waiting = last
    return np.int64(bucket)
