"""Flows enter the network and leave it."""

import numpy as np

from ubnet.jit import inlined_kernel, inner_kernel

from .link_sums import count_own, discount_own, leave_more
from .state import BLOCK_BITS, ELSEWHERE, MOST_NUMBERED, NEVER, PS_PER_S, ROUND_UP, Int, Row, Table


@inlined_kernel
def let_in(clock: Row, flow: Row, links: Table, lists: Table, flow_id: Int) -> None:
    """Note that a flow's rate may change."""
    if flow.inside != clock.sweep:
        flow.inside = clock.sweep
        lists[clock.swept_flows].swept = flow_id
        clock.swept_flows += 1
        if flow.stopped_by >= 0:
            links[flow.stopped_by].held -= 1


@inlined_kernel
def look_again(clock: Row, links: Table, link: Row, link_id: Int) -> None:
    """Put a link on the list of those whose level is to be found anew."""
    if link.touched != clock.sweep:
        link.touched = clock.sweep
        link.stop_level = np.inf
        link.queued = np.inf
        link.listed = 0
    if link.listed == 0:
        link.listed = 1
        links[clock.listed_links].to_look_at = link_id
        clock.listed_links += 1


@inner_kernel
def _number_anew(clock: Row, flows: Table, links: Table) -> None:
    """Count sweeps, fillings and sums from the first again, and forget the former ones."""
    clock.sweep = 1
    clock.epoch = 1
    clock.sums = 1
    for row in range(clock.rows):
        flows[row].inside = 0
        flows[row].open_in = 0
    for k in range(len(links)):
        link = links[k]
        link.touched = 0
        link.left_in = 0
        link.summed = 0


@inlined_kernel
def end_allocation(clock: Row, flows: Table, links: Table) -> None:
    """Note that all rates are right: what comes from now on is for the next sweep."""
    clock.sweep += 1
    clock.swept_flows = 0
    clock.listed_links = 0
    clock.changed_links = 0
    if max(clock.sweep, clock.epoch, clock.sums) > MOST_NUMBERED:
        _number_anew(clock, flows, links)


@inlined_kernel
def _set_due(lists: Table, blocks: Table, place: Int, due_ps: Int) -> None:
    """Set the end of the active flow at a place; its block is looked through if its first goes."""
    entry, block = lists[place], blocks[place >> BLOCK_BITS]
    if entry.due_ps == block.first_ps and due_ps > block.first_ps:
        block.dirty = 1
    elif due_ps < block.first_ps:
        block.first_ps = due_ps
    entry.due_ps = due_ps


@inlined_kernel
def activate(
    clock: Row,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    blocks: Table,
    flow_id: Int,
    to_sweep: bool,
) -> None:
    """Let a flow's bytes enter the network; it rises in the next sweep where a sweep is to come."""
    flow = flows[flow_id]
    begin, end = flow.first_hop, flows[flow_id + 1].first_hop
    place = clock.active
    clock.active += 1
    flow.since_ps = clock.now
    flow.position = place
    flow.row = -1
    entry, block = lists[place], blocks[place >> BLOCK_BITS]
    entry.active = flow_id
    entry.due_ps = NEVER
    if place & ((1 << BLOCK_BITS) - 1) == 0:
        block.first_ps = NEVER
        block.dirty = 0
    clock.odd_flows += flow.odd
    clock.capped += 1 if flow.cap < np.inf else 0
    clock.hops += end - begin
    if to_sweep:
        let_in(clock, flow, links, lists, flow_id)
    for h in range(begin, end):
        hop = hops[h]
        link = links[hop.link]
        after = link.first_hop
        hop.next = after
        hop.prev = -1
        hop.next_own = ELSEWHERE
        link.first_hop = h
        link.crowd += 1
        if after < 0:
            link.position = clock.busy_links
            links[clock.busy_links].busy = hop.link
            clock.busy_links += 1
            continue
        hops[after].prev = h
        if to_sweep and link.summed == clock.sums:
            link.open_count += 1
            count_own(hop, link, np.int64(h), hop.share * flow.weight)


@inlined_kernel
def deactivate(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, blocks: Table, flow_id: Int
) -> None:
    """Take a flow out of the network."""
    flow = flows[flow_id]
    begin, end = flow.first_hop, flows[flow_id + 1].first_hop
    clock.active -= 1
    place = np.int64(flow.position)
    last = lists[clock.active].active
    lists[place].active = last
    _set_due(lists, blocks, place, lists[clock.active].due_ps)
    _set_due(lists, blocks, clock.active, np.int64(NEVER))
    flows[last].position = place
    flow.position = -1
    clock.odd_flows -= flow.odd
    clock.capped -= 1 if flow.cap < np.inf else 0
    clock.hops -= end - begin
    if flow.stopped_by >= 0:
        links[flow.stopped_by].held -= 1
    for h in range(begin, end):
        hop = hops[h]
        link_id = np.int64(hop.link)
        link = links[link_id]
        link.crowd -= 1
        if link.crowd == 0:
            link.first_hop = -1
            link.summed = 0  # there is nothing to keep sums of
            clock.busy_links -= 1
            moved = links[clock.busy_links].busy
            links[link.position].busy = moved
            links[moved].position = link.position
            continue
        if link.summed == clock.sums:
            weight = hop.share * flow.weight
            if flow.stopped_by == link_id:
                discount_own(link, weight)
            else:
                leave_more(link, weight * flow.level)
        if link.left_in != clock.sweep:
            link.left_in = clock.sweep
            links[clock.changed_links].changed = link_id
            clock.changed_links += 1
        before, after = hop.prev, hop.next
        if before >= 0:
            hops[before].next = after
        else:
            link.first_hop = after
        if after >= 0:
            hops[after].prev = before


@inner_kernel
def deactivate_all(clock: Row, flows: Table, links: Table, lists: Table) -> None:
    """Take all flows out of the network."""
    for k in range(clock.active):
        flows[lists[k].active].position = -1
    for k in range(clock.busy_links):
        link = links[links[k].busy]
        link.crowd = 0
        link.held = 0
        link.first_hop = -1
    clock.sums += 1
    clock.active = 0
    clock.busy_links = 0
    clock.hops = 0
    clock.odd_flows = 0
    clock.capped = 0


@inlined_kernel
def set_rate(clock: Row, flow: Row, links: Table, lists: Table, blocks: Table) -> None:
    """Let a flow go on at its level from now on."""
    rate = flow.cap
    if flow.stopped_by >= 0:
        rate = flow.level * flow.weight
        links[flow.stopped_by].held += 1
    if rate == flow.rate:
        return
    now = clock.now
    elapsed = float(now - flow.since_ps)
    left = flow.left - flow.rate * elapsed / PS_PER_S
    if left < 0.0:
        left = 0.0
    flow.left = left
    flow.since_ps = now
    flow.rate = rate
    duration = left / rate * PS_PER_S
    due_ps = now + int(duration + ROUND_UP) if duration < 4e18 else NEVER
    _set_due(lists, blocks, np.int64(flow.position), due_ps)
