"""What a sweep knows of a link: its own flows, and what the others leave."""

import numpy as np

from ubnet.jit import at, greater, inlined_kernel, inner_kernel, merged_kernel

from .state import ELSEWHERE, Int, Row, Table


@inner_kernel
def leave_more(link: Row, rate: float) -> None:
    """Let a link have a rate more left for others, in doubled precision."""
    free = link.free
    rest = free + rate
    part = rest - free
    link.free_low += (free - (rest - part)) + (rate - part)
    link.free = rest


@inner_kernel
def _weigh(link: Row, weight: float) -> None:
    """Let a link have more weight of its own, in doubled precision."""
    old = link.open_weight
    new = old + weight
    part = new - old
    link.open_low += (old - (new - part)) + (weight - part)
    link.open_weight = new
    link.weight = greater(link.weight, new)


@inner_kernel
def count_own(hops: Table, hop: Row, link: Row, h: Int, weight: float) -> None:
    """Count a flow among a link's own: those that it holds back and those that rise."""
    _weigh(link, weight)
    link.own_count += 1
    if hop.next_own == ELSEWHERE:
        hop.next_own = link.first_own
        hop.prev_own = -1
        if link.first_own >= 0:
            at(hops, link.first_own).prev_own = h
        link.first_own = h


@inlined_kernel
def take_off_own(hops: Table, hop: Row, link: Row) -> None:
    """Take a hop off the list of a link's own flows."""
    before, after = hop.prev_own, hop.next_own
    hop.next_own = ELSEWHERE
    if before >= 0:
        at(hops, before).next_own = after
    else:
        link.first_own = after
    if after >= 0:
        at(hops, after).prev_own = before


@inner_kernel
def discount_own(link: Row, weight: float) -> None:
    """Count a flow among a link's own no more; `first_own` takes it off the list in time."""
    _weigh(link, -weight)
    link.own_count -= 1


@inner_kernel
def first_own(clock: Row, flows: Table, hops: Table, links: Table, link_id: Int) -> Int:
    """Return the first hop of a link's own flows; take those off the list that are no more."""
    link = at(links, link_id)
    h = link.first_own
    while h >= 0:
        hop = at(hops, h)
        after, flow = hop.next_own, at(flows, hop.flow)
        clock.looked += 1
        if flow.open_in != clock.epoch and flow.stopped_by != link_id:
            take_off_own(hops, hop, link)
        h = after
    return np.int64(link.first_own)


@merged_kernel
def sum_up(clock: Row, flows: Table, hops: Table, links: Table, link_id: Int) -> None:
    """Sum up what a sweep keeps of a link."""
    link = at(links, link_id)
    link.summed = clock.sums
    link.free = link.capacity
    link.free_low = 0.0
    link.open_weight = 0.0
    link.open_low = 0.0
    link.weight = 0.0
    link.own_count = 0
    link.open_count = 0
    link.most = 0.0
    link.first_own = -1
    clock.looked += link.crowd
    h = np.int64(link.first_hop)
    while h >= 0:
        hop = at(hops, h)
        flow = at(flows, hop.flow)
        hop.next_own = ELSEWHERE
        weight = hop.share * flow.weight
        if flow.open_in == clock.epoch:
            link.open_count += 1
            count_own(hops, hop, link, h, weight)
        elif flow.stopped_by == link_id:
            link.held_level = flow.level
            count_own(hops, hop, link, h, weight)
        else:
            link.most = greater(link.most, flow.level)
            leave_more(link, -weight * flow.level)
        h = np.int64(hop.next)
