"""Weighted max-min allocation of all active flows, from nothing."""

import numpy as np

from ubnet.jit import inner_kernel

from .active import set_rate
from .heaps import drop_top, sink_level
from .link_sums import leave_more
from .state import ACTIVE, BUSY_LINKS, EPOCH, I8, SAME_LEVEL, SUMS, TOP, TOUCHED, Int, Table

# Under this part of a link's weight, what subtraction left of it is too coarse: summed afresh.
FEW = 1e-3


@inner_kernel
def _freeze(flows: Table, hops: Table, links: Table, flow: Int, level: float, by: Int) -> None:
    """Stop a flow at a level; take its rate out of its links in doubled precision."""
    flows[flow].open_in = 0
    flows[flow].level = level
    flows[flow].stopped_by = by
    weight = flows[flow].weight
    rate = flows[flow].cap
    if by >= 0:
        rate = level * weight
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        link = np.int64(hops[h].link)
        share = hops[h].share
        leave_more(links, link, -rate * share)
        links[link].open_weight -= share * weight
        links[link].open_count -= 1


@inner_kernel
def _open_weight(flows: Table, hops: Table, links: Table, link: Int, epoch: Int) -> float:
    """Return the sum of share times weight of a link's flows that still rise."""
    total = 0.0
    h = links[link].first_hop
    while h >= 0:
        flow = hops[h].flow
        if flows[flow].open_in == epoch:
            total += hops[h].share * flows[flow].weight
        h = hops[h].next
    return total


@inner_kernel
def _open(clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table) -> Int:
    """Let all active flows rise; return how many levels (links, caps) wait in the heap."""
    for k in range(clock[BUSY_LINKS]):
        link = links[k].busy
        links[link].free = links[link].capacity
        links[link].free_low = 0.0
        links[link].weight = 0.0
        links[link].open_count = 0
        links[link].held = 0
        links[link].stop_level = np.inf
    waiting = np.int64(0)
    for k in range(clock[ACTIVE]):
        flow = lists[k].active
        weight = flows[flow].weight
        flows[flow].open_in = clock[EPOCH]
        for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
            links[hops[h].link].weight += hops[h].share * weight
            links[hops[h].link].open_count += 1
        if flows[flow].cap < np.inf:
            levels[waiting].level = flows[flow].cap / weight
            levels[waiting].of = -1 - flow
            waiting += 1
    for k in range(clock[BUSY_LINKS]):
        link = links[k].busy
        links[link].open_weight = links[link].weight
        levels[waiting].level = links[link].capacity / links[link].weight
        levels[waiting].of = link
        waiting += 1
    for k in range((waiting + 2) // 4 - 1, -1, -1):
        sink_level(levels, k, waiting)
    return waiting


@inner_kernel
def fill(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> None:
    """Give all active flows their weighted max-min levels.

    A link's level, its free capacity over its open weight, only rises while others freeze, so the
    levels in the heap are lower bounds: the top one is looked at again before it is believed.
    """
    clock[EPOCH] += 1
    clock[SUMS] += 1
    clock[TOUCHED] += clock[ACTIVE]
    epoch, rising, last = clock[EPOCH], clock[ACTIVE], 0.0
    waiting: Int = _open(clock, flows, hops, links, lists, levels)
    while rising > 0:
        of = levels[0].of
        if of < 0:
            if flows[-1 - of].open_in == epoch:
                last = max(last, levels[0].level)
                rising -= 1
                _freeze(flows, hops, links, -1 - of, last, np.int64(-1))
        elif links[of].open_count > 0:
            if links[of].open_weight < FEW * links[of].weight:
                links[of].open_weight = _open_weight(flows, hops, links, of, epoch)
            level = (links[of].free + links[of].free_low) / links[of].open_weight
            if level <= last * (1.0 + SAME_LEVEL):
                level = last
            if level > levels[0].level * (1.0 + SAME_LEVEL):
                levels[0].level = level
                sink_level(levels, TOP, waiting)
                continue
            last = level
            links[of].stop_level = level
            h = links[of].first_hop
            while h >= 0:
                flow = np.int64(hops[h].flow)
                if flows[flow].open_in == epoch:
                    rising -= 1
                    _freeze(flows, hops, links, flow, level, of)
                h = hops[h].next
        waiting = drop_top(levels, waiting)
    for k in range(clock[ACTIVE]):
        set_rate(clock, flows, links, lists, blocks, lists[k].active)
