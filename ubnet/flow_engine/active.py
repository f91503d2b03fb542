"""Flows enter the network and leave it."""

import numpy as np

from ubnet.jit import inlined_kernel, inner_kernel

from .link_sums import count_own, discount_own, leave_more
from .state import (
    ACTIVE,
    BLOCK_BITS,
    BUSY_LINKS,
    CAPPED,
    CHANGED_LINKS,
    ELSEWHERE,
    HOPS,
    I8,
    LISTED_LINKS,
    NEVER,
    NOW,
    ODD_FLOWS,
    PS_PER_S,
    ROUND_UP,
    SUMS,
    SWEEP,
    SWEPT_FLOWS,
    Int,
    Table,
)


@inlined_kernel
def let_in(clock: I8, flows: Table, links: Table, lists: Table, flow: Int) -> None:
    """Note that a flow's rate may change."""
    if flows[flow].inside != clock[SWEEP]:
        flows[flow].inside = clock[SWEEP]
        lists[clock[SWEPT_FLOWS]].swept = flow
        clock[SWEPT_FLOWS] += 1
        if flows[flow].stopped_by >= 0:
            links[flows[flow].stopped_by].held -= 1


@inlined_kernel
def look_again(clock: I8, links: Table, link: Int) -> None:
    """Put a link on the list of those whose level is to be found anew."""
    if links[link].touched != clock[SWEEP]:
        links[link].touched = clock[SWEEP]
        links[link].stop_level = np.inf
        links[link].queued = np.inf
        links[link].listed = 0
    if links[link].listed == 0:
        links[link].listed = 1
        links[clock[LISTED_LINKS]].to_look_at = link
        clock[LISTED_LINKS] += 1


@inlined_kernel
def _set_due(lists: Table, blocks: Table, place: Int, due_ps: Int) -> None:
    """Set the end of the active flow at a place; its block is looked through if its first goes."""
    block = place >> BLOCK_BITS
    if lists[place].due_ps == blocks[block].first_ps and due_ps > blocks[block].first_ps:
        blocks[block].dirty = 1
    elif due_ps < blocks[block].first_ps:
        blocks[block].first_ps = due_ps
    lists[place].due_ps = due_ps


@inlined_kernel
def activate(
    clock: I8,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    blocks: Table,
    flow: Int,
    alone: bool,
) -> None:
    """Let a flow's bytes enter the network; it rises in the next sweep if it comes `alone`."""
    place = clock[ACTIVE]
    clock[ACTIVE] += 1
    flows[flow].since_ps = clock[NOW]
    flows[flow].position = place
    flows[flow].row = -1
    lists[place].active = flow
    if place & ((1 << BLOCK_BITS) - 1) == 0:
        blocks[place >> BLOCK_BITS].first_ps = NEVER
        blocks[place >> BLOCK_BITS].dirty = 0
    lists[place].due_ps = NEVER
    clock[ODD_FLOWS] += flows[flow].odd
    clock[CAPPED] += 1 if flows[flow].cap < np.inf else 0
    clock[HOPS] += flows[flow + 1].first_hop - flows[flow].first_hop
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        link = hops[h].link
        if links[link].crowd == 0:
            links[link].position = clock[BUSY_LINKS]
            links[clock[BUSY_LINKS]].busy = link
            clock[BUSY_LINKS] += 1
        links[link].crowd += 1
        after = links[link].first_hop
        hops[h].next = after
        hops[h].prev = -1
        hops[h].next_own = ELSEWHERE
        if after >= 0:
            hops[after].prev = h
        links[link].first_hop = h
    if alone:
        let_in(clock, flows, links, lists, flow)
        for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
            link = np.int64(hops[h].link)
            if links[link].summed == clock[SUMS]:
                links[link].open_count += 1
                count_own(hops, links, link, np.int64(h), hops[h].share * flows[flow].weight)
            look_again(clock, links, link)


@inlined_kernel
def deactivate(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, blocks: Table, flow: Int
) -> None:
    """Take a flow out of the network."""
    clock[ACTIVE] -= 1
    place = np.int64(flows[flow].position)
    last = lists[clock[ACTIVE]].active
    lists[place].active = last
    _set_due(lists, blocks, place, lists[clock[ACTIVE]].due_ps)
    _set_due(lists, blocks, clock[ACTIVE], np.int64(NEVER))
    flows[last].position = place
    flows[flow].position = -1
    clock[ODD_FLOWS] -= flows[flow].odd
    clock[CAPPED] -= 1 if flows[flow].cap < np.inf else 0
    clock[HOPS] -= flows[flow + 1].first_hop - flows[flow].first_hop
    if flows[flow].stopped_by >= 0:
        links[flows[flow].stopped_by].held -= 1
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        link = np.int64(hops[h].link)
        if links[link].summed == clock[SUMS]:
            weight = hops[h].share * flows[flow].weight
            if flows[flow].stopped_by == link:
                discount_own(links, link, weight)
            else:
                leave_more(links, link, weight * flows[flow].level)
        links[link].crowd -= 1
        if links[link].left_in != clock[SWEEP]:
            links[link].left_in = clock[SWEEP]
            links[clock[CHANGED_LINKS]].changed = link
            clock[CHANGED_LINKS] += 1
        before, after = hops[h].prev, hops[h].next
        if before >= 0:
            hops[before].next = after
        else:
            links[link].first_hop = after
        if after >= 0:
            hops[after].prev = before
        if links[link].crowd == 0:
            clock[BUSY_LINKS] -= 1
            moved = links[clock[BUSY_LINKS]].busy
            links[links[link].position].busy = moved
            links[moved].position = links[link].position


@inner_kernel
def deactivate_all(clock: I8, flows: Table, links: Table, lists: Table) -> None:
    """Take all flows out of the network."""
    for k in range(clock[ACTIVE]):
        flows[lists[k].active].position = -1
    for k in range(clock[BUSY_LINKS]):
        link = links[k].busy
        links[link].crowd = 0
        links[link].held = 0
        links[link].first_hop = -1
    clock[SUMS] += 1
    clock[ACTIVE] = 0
    clock[BUSY_LINKS] = 0
    clock[HOPS] = 0
    clock[ODD_FLOWS] = 0
    clock[CAPPED] = 0


@inlined_kernel
def set_rate(clock: I8, flows: Table, links: Table, lists: Table, blocks: Table, flow: Int) -> None:
    """Let a flow go on at its level from now on."""
    rate = flows[flow].cap
    if flows[flow].stopped_by >= 0:
        rate = flows[flow].level * flows[flow].weight
        links[flows[flow].stopped_by].held += 1
    if rate == flows[flow].rate:
        return
    now = clock[NOW]
    elapsed = float(now - flows[flow].since_ps)
    left = flows[flow].left - flows[flow].rate * elapsed / PS_PER_S
    if left < 0.0:
        left = 0.0
    flows[flow].left = left
    flows[flow].since_ps = now
    flows[flow].rate = rate
    duration = left / rate * PS_PER_S
    due_ps = now + int(duration + ROUND_UP) if duration < 4e18 else NEVER
    _set_due(lists, blocks, np.int64(flows[flow].position), due_ps)
