"""Flows end, and set others free."""

import numpy as np

from ubnet.jit import at, between, greater, inlined_kernel, inner_kernel, lesser, upto

from .blocks import BITS, SIZE, Blocks
from .state import Column, Int, Row, Table
from .waiting import push_waiting


@inlined_kernel
def finish(
    clock: Row,
    posted: Table,
    kinds: Table,
    edges: Table,
    lists: Table,
    recent: Table,
    ends: Column,
    row: Int,
) -> None:
    """End a flow and its equals now, and queue those that waited for one of them alone."""
    now = clock.now
    while row >= 0:
        entry = at(posted, row)
        ends[entry.number] = now
        clock.events += 1
        clock.unfinished -= 1
        if entry.watch != 0:
            at(lists, clock.reported).reported = entry.number
            clock.reported += 1
        e = entry.first_edge
        while e >= 0:
            edge = at(edges, e)
            waiter_row, ready = np.int64(edge.flow), now
            bytes_alone = waiter_row < 0
            if bytes_alone:
                waiter_row = -1 - waiter_row
            waiter = at(posted, waiter_row)
            startup_ps = at(kinds, waiter.kind).startup_ps
            if bytes_alone:
                ready -= startup_ps
            waiter.pending -= 1
            waiter.since_ps = greater(waiter.since_ps, ready)
            if waiter.pending == 0:
                at_ps = waiter.since_ps + startup_ps
                push_waiting(clock, posted, lists, recent, waiter_row, at_ps)
            e = edge.next
        row = np.int64(entry.equal)


@inner_kernel
def latest_of(clock: Row, lists: Table) -> Int:
    """Return the latest time at which the flows that end next may end together.

    It is the first end and the tolerance, or the next start.
    """
    first = clock.next_end
    latest: Int = first + np.int64(float(first) * (float(clock.tolerance) * 1e-9))
    if clock.waiting > 0:  # what starts meanwhile starts at its own time
        latest = greater(first, lesser(latest, at(lists, 0).waiting_ps))
    return latest


@inner_kernel
def hold_back(clock: Row, lists: Table, blocks: Blocks) -> Int:
    """Return when the flows that end next may end together: with the last of them."""
    latest, active = latest_of(clock, lists), clock.active
    last: Int = clock.next_end
    for block in upto((active + SIZE - 1) >> BITS):
        if blocks.first_ps[block] <= latest:
            clock.first_block = lesser(clock.first_block, block)
            clock.last_block = greater(clock.last_block, block)
            for k in between(block << BITS, lesser(active, (block + 1) << BITS)):
                if last < blocks.due_ps[k] <= latest:
                    last = blocks.due_ps[k]
    return last


@inlined_kernel
def note_held(clock: Row, end: Int) -> None:
    """Count a flow that was held back, if its own end is before now."""
    if end < clock.now:
        clock.held_back += 1
        clock.longest_held = greater(clock.longest_held, clock.now - end)


@inlined_kernel
def take_due(clock: Row, flows: Table, lists: Table, blocks: Blocks) -> Int:
    """Write the rows of the flows whose time has come into the batch; return how many they are."""
    now, active, n = clock.now, clock.active, np.int64(0)
    for block in between(clock.first_block, clock.last_block + 1):
        if blocks.first_ps[block] <= now:
            for k in between(block << BITS, lesser(active, (block + 1) << BITS)):
                if blocks.due_ps[k] <= now:
                    note_held(clock, blocks.due_ps[k])
                    at(lists, n).batch = at(flows, at(lists, k).active).posted
                    n += 1
    return n
