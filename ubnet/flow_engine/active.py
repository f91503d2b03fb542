"""Flows enter the network and leave it."""

import numpy as np

from ubnet.jit import at, between, greater, inlined_kernel, inner_kernel, merged_kernel, upto

from .blocks import Blocks, open_place, set_due
from .free_rows import take_row
from .link_sums import count_own, discount_own, leave_more, take_off_own
from .state import (
    ELSEWHERE,
    MOST_EQUAL,
    MOST_NUMBERED,
    NEVER,
    PS_PER_S,
    ROUND_UP,
    Int,
    Row,
    Table,
)


@inlined_kernel
def let_in(clock: Row, flow: Row, links: Table, lists: Table, flow_id: Int) -> None:
    """Note that a flow's rate may change."""
    if flow.inside != clock.sweep:
        flow.inside = clock.sweep
        at(lists, clock.swept_flows).swept = flow_id
        clock.swept_flows += 1
        if flow.stopped_by >= 0:
            at(links, flow.stopped_by).held -= 1


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
        at(links, clock.listed_links).to_look_at = link_id
        clock.listed_links += 1


@inner_kernel
def _number_anew(clock: Row, flows: Table, links: Table) -> None:
    """Count sweeps, fillings and sums from the first again, and forget the former ones."""
    clock.sweep = 1
    clock.epoch = 1
    clock.sums = 1
    for k in upto(clock.flow_rows):
        at(flows, k).inside = 0
        at(flows, k).open_in = 0
    for k in upto(clock.links):
        link = at(links, k)
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
    if greater(clock.sweep, greater(clock.epoch, clock.sums)) > MOST_NUMBERED:
        _number_anew(clock, flows, links)


@merged_kernel
def _count_equals(posted: Table, row: Int) -> Int:
    """Return how many flows the one in a row stands for, itself included."""
    equals = np.int64(0)
    while row >= 0:
        equals += 1
        row = np.int64(at(posted, row).equal)
    return equals


@inlined_kernel
def activate(
    clock: Row,
    posted: Table,
    kinds: Table,
    routes: Table,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    blocks: Blocks,
    row: Int,
    to_sweep: bool,
) -> Int:
    """Let a flow's bytes enter the network; it rises in the next sweep where a sweep is to come.

    Return its row among the flows that move. It has the shares of all flows that are equal to it.
    """
    kind, equals = at(kinds, at(posted, row).kind), _count_equals(posted, row)
    flow_id = take_row(clock, flows, np.int64(kind.hops))
    flow, place = at(flows, flow_id), clock.active
    at(posted, row).flow = flow_id
    clock.active += 1
    clock.events += equals
    clock.hops += kind.hops
    flow.level = 0.0
    flow.weight = kind.weight
    flow.rate = 0.0
    flow.stopped_by = -1
    flow.inside = 0
    flow.open_in = 0
    flow.position = place
    flow.posted = row
    flow.left = float(kind.volume)
    flow.since_ps = clock.now
    flow.volume = kind.volume
    flow.in_rows = 0
    at(lists, place).active = flow_id
    open_place(blocks, place)
    if to_sweep:
        let_in(clock, flow, links, lists, flow_id)
    cap, odd = kind.cap, False
    for k in upto(kind.hops):
        stop, h = at(routes, kind.first_stop + k), flow.first_hop + k
        hop, link, share = at(hops, h), at(links, stop.link), stop.share * float(equals)
        after = link.first_hop
        hop.link = stop.link
        hop.flow = flow_id
        hop.share = share
        hop.next = after
        hop.prev = -1
        hop.next_own = ELSEWHERE
        link.first_hop = h
        link.crowd += 1
        if cap * share >= link.capacity:
            cap = np.inf
        odd = odd or not (share <= MOST_EQUAL and share == float(np.int64(share)))
        if after < 0:
            link.position = clock.busy_links
            at(links, clock.busy_links).busy = hop.link
            clock.busy_links += 1
            continue
        at(hops, after).prev = h
        if to_sweep and link.summed == clock.sums:
            link.open_count += 1
            count_own(hops, hop, link, h, share * flow.weight)
    flow.cap = cap
    flow.odd = 1 if odd or flow.weight != 1.0 or cap < np.inf else 0
    clock.odd_flows += flow.odd
    clock.capped += 1 if cap < np.inf else 0
    return flow_id


@inlined_kernel
def deactivate(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, blocks: Blocks, flow_id: Int
) -> None:
    """Take a flow out of the network."""
    flow = at(flows, flow_id)
    clock.active -= 1
    place = np.int64(flow.position)
    last = at(lists, clock.active).active
    at(lists, place).active = last
    set_due(clock, blocks, place, blocks.due_ps[clock.active])
    set_due(clock, blocks, clock.active, np.int64(NEVER))
    at(flows, last).position = place
    flow.position = -1
    clock.odd_flows -= flow.odd
    clock.capped -= 1 if flow.cap < np.inf else 0
    clock.hops -= flow.end_hop - flow.first_hop
    if flow.stopped_by >= 0:
        at(links, flow.stopped_by).held -= 1
    for h in between(flow.first_hop, flow.end_hop):
        hop = at(hops, h)
        link_id = np.int64(hop.link)
        link = at(links, link_id)
        link.crowd -= 1
        if link.crowd == 0:
            link.first_hop = -1
            link.summed = 0  # there is nothing to keep sums of
            clock.busy_links -= 1
            moved = at(links, clock.busy_links).busy
            at(links, link.position).busy = moved
            at(links, moved).position = link.position
            continue
        if link.summed == clock.sums:
            weight = hop.share * flow.weight
            if flow.stopped_by == link_id:
                discount_own(link, weight)
            else:
                leave_more(link, weight * flow.level)
            if hop.next_own != ELSEWHERE:
                take_off_own(hops, hop, link)
        if link.left_in != clock.sweep:
            link.left_in = clock.sweep
            at(links, clock.changed_links).changed = link_id
            clock.changed_links += 1
        before, after = hop.prev, hop.next
        if before >= 0:
            at(hops, before).next = after
        else:
            link.first_hop = after
        if after >= 0:
            at(hops, after).prev = before


@inlined_kernel
def count_bytes(flow: Row, hops: Table, links: Table) -> None:
    """Count what a flow that ends has carried over each of its links."""
    size = float(flow.volume)
    for h in between(flow.first_hop, flow.end_hop):
        hop = at(hops, h)
        at(links, hop.link).bytes += size * hop.share


@inner_kernel
def deactivate_all(clock: Row, flows: Table, links: Table, lists: Table) -> None:
    """Take all flows out of the network."""
    for k in upto(clock.active):
        at(flows, at(lists, k).active).position = -1
    for k in upto(clock.busy_links):
        link = at(links, at(links, k).busy)
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
def set_rate(clock: Row, flow: Row, links: Table, blocks: Blocks) -> None:
    """Let a flow go on at its level from now on."""
    rate = flow.cap
    if flow.stopped_by >= 0:
        rate = flow.level * flow.weight
        at(links, flow.stopped_by).held += 1
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
    duration = float(left) / float(rate) * PS_PER_S
    due_ps = now + np.int64(duration + ROUND_UP) if duration < 4e18 else NEVER
    set_due(clock, blocks, np.int64(flow.position), due_ps)
