"""What a sweep knows of a link: its own flows, and what the others leave."""

import numpy as np

from ubnet.jit import inner_kernel

from .state import ELSEWHERE, EPOCH, I8, LOOKED, SUMS, Int, Table


@inner_kernel
def leave_more(links: Table, link: Int, rate: float) -> None:
    """Let a link have a rate more left for others, in doubled precision."""
    free = links[link].free
    rest = free + rate
    part = rest - free
    links[link].free_low += (free - (rest - part)) + (rate - part)
    links[link].free = rest


@inner_kernel
def _weigh(links: Table, link: Int, weight: float) -> None:
    """Let a link have more weight of its own, in doubled precision."""
    old = links[link].open_weight
    new = old + weight
    part = new - old
    links[link].open_low += (old - (new - part)) + (weight - part)
    links[link].open_weight = new
    links[link].weight = max(links[link].weight, new)


@inner_kernel
def count_own(hops: Table, links: Table, link: Int, h: Int, weight: float) -> None:
    """Count a flow among a link's own: those that it holds back and those that rise."""
    _weigh(links, link, weight)
    links[link].own_count += 1
    if hops[h].next_own == ELSEWHERE:
        hops[h].next_own = links[link].first_own
        links[link].first_own = h


@inner_kernel
def discount_own(links: Table, link: Int, weight: float) -> None:
    """Count a flow among a link's own no more; `first_own` takes it off the list in time."""
    _weigh(links, link, -weight)
    links[link].own_count -= 1


@inner_kernel
def first_own(clock: I8, flows: Table, hops: Table, links: Table, link: Int) -> Int:
    """Return the first hop of a link's own flows; take those off the list that are no more."""
    h, before = links[link].first_own, -1
    while h >= 0:
        after, flow = hops[h].next_own, hops[h].flow
        rises = flows[flow].open_in == clock[EPOCH]
        clock[LOOKED] += 1
        if flows[flow].position >= 0 and (rises or flows[flow].stopped_by == link):
            before = h
        else:
            hops[h].next_own = ELSEWHERE
            if before < 0:
                links[link].first_own = after
            else:
                hops[before].next_own = after
        h = after
    return np.int64(links[link].first_own)


@inner_kernel
def sum_up(clock: I8, flows: Table, hops: Table, links: Table, link: Int) -> None:
    """Sum up what a sweep keeps of a link."""
    links[link].summed = clock[SUMS]
    links[link].free = links[link].capacity
    links[link].free_low = 0.0
    links[link].open_weight = 0.0
    links[link].open_low = 0.0
    links[link].weight = 0.0
    links[link].own_count = 0
    links[link].open_count = 0
    links[link].most = 0.0
    links[link].first_own = -1
    clock[LOOKED] += links[link].crowd
    h = np.int64(links[link].first_hop)
    while h >= 0:
        flow = hops[h].flow
        hops[h].next_own = ELSEWHERE
        weight = hops[h].share * flows[flow].weight
        if flows[flow].open_in == clock[EPOCH]:
            links[link].open_count += 1
            count_own(hops, links, link, np.int64(h), weight)
        elif flows[flow].stopped_by == link:
            links[link].held_level = flows[flow].level
            count_own(hops, links, link, np.int64(h), weight)
        else:
            links[link].most = max(links[link].most, flows[flow].level)
            leave_more(links, link, -weight * flows[flow].level)
        h = np.int64(hops[h].next)
