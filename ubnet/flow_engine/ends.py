"""Flows end, and set others free."""

import numpy as np

from ubnet.jit import inlined_kernel, inner_kernel

from .state import BLOCK_BITS, I8, NEVER, Int, Row, Table
from .waiting import push_waiting


@inlined_kernel
def finish(
    clock: Row,
    flows: Table,
    hops: Table,
    edges: Table,
    links: Table,
    lists: Table,
    recent: Table,
    ends: I8,
    flow_id: Int,
) -> None:
    """End a flow and its equals now, and queue those that waited for one of them alone."""
    now = clock.now
    size = float(flows[flow_id].volume)
    for h in range(flows[flow_id].first_hop, flows[flow_id + 1].first_hop):
        hop = hops[h]
        links[hop.link].bytes += size * hop.share
    while flow_id >= 0:
        flow = flows[flow_id]
        ends[flow.number] = now
        clock.events += 1
        clock.unfinished -= 1
        if flow.watch != 0:
            lists[clock.reported].reported = flow.number
            clock.reported += 1
        e = flow.first_edge
        while e >= 0:
            edge = edges[e]
            waiter_id, ready = np.int64(edge.flow), now
            bytes_alone = waiter_id < 0
            if bytes_alone:
                waiter_id = -1 - waiter_id
            waiter = flows[waiter_id]
            if bytes_alone:
                ready -= waiter.startup_ps
            waiter.pending -= 1
            waiter.since_ps = max(waiter.since_ps, ready)
            if waiter.pending == 0:
                at_ps = waiter.since_ps + waiter.startup_ps
                push_waiting(clock, flows, lists, recent, waiter_id, at_ps)
            e = edge.next
        flow_id = np.int64(flow.equal)


@inlined_kernel
def find_next_end(clock: Row, lists: Table, blocks: Table) -> None:
    """Find the first end of all active flows at their present rates."""
    n = clock.active
    soonest, first_block, last_block = NEVER, 0, 0
    for b in range((n + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS):
        block = blocks[b]
        if block.dirty != 0:
            block.dirty = 0
            first = NEVER
            for k in range(b << BLOCK_BITS, min(n, (b + 1) << BLOCK_BITS)):
                first = min(first, lists[k].due_ps)
            block.first_ps = first
        if block.first_ps <= soonest:
            if block.first_ps < soonest:
                soonest, first_block = block.first_ps, b
            last_block = b
    clock.first_block = first_block
    clock.last_block = last_block
    clock.next_end = soonest


@inner_kernel
def latest_of(clock: Row, lists: Table) -> Int:
    """Return the latest time at which the flows that end next may end together.

    It is the first end and the tolerance, or the next start.
    """
    first = clock.next_end
    latest = first + int(float(first) * (float(clock.tolerance) * 1e-9))
    if clock.waiting > 0:  # what starts meanwhile starts at its own time
        latest = max(first, min(latest, lists[0].waiting_ps))
    return int(latest)


@inner_kernel
def hold_back(clock: Row, lists: Table, blocks: Table) -> Int:
    """Return when the flows that end next may end together: with the last of them."""
    latest, last, active = latest_of(clock, lists), clock.next_end, clock.active
    for block in range((active + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS):
        if blocks[block].first_ps <= latest:
            clock.first_block = min(clock.first_block, block)
            clock.last_block = max(clock.last_block, block)
            for k in range(block << BLOCK_BITS, min(active, (block + 1) << BLOCK_BITS)):
                if last < lists[k].due_ps <= latest:
                    last = lists[k].due_ps
    return int(last)


@inlined_kernel
def note_held(clock: Row, end: Int) -> None:
    """Count a flow that was held back, if its own end is before now."""
    if end < clock.now:
        clock.held_back += 1
        clock.longest_held = max(clock.longest_held, clock.now - end)


@inlined_kernel
def take_due(clock: Row, lists: Table, blocks: Table) -> Int:
    """Write the active flows whose time has come into the batch; return how many they are."""
    now, active, n = clock.now, clock.active, np.int64(0)
    for block in range(clock.first_block, clock.last_block + 1):
        if blocks[block].first_ps <= now:
            for k in range(block << BLOCK_BITS, min(active, (block + 1) << BLOCK_BITS)):
                if lists[k].due_ps <= now:
                    note_held(clock, lists[k].due_ps)
                    lists[n].batch = lists[k].active
                    n += 1
    return n
