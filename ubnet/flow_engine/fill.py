"""Weighted max-min allocation of all active flows, from nothing."""

import numpy as np

from ubnet.jit import at, between, greater, inner_kernel, merged_kernel, upto

from .active import set_rate
from .blocks import Blocks
from .heaps import drop_top, order_levels, sink_level
from .link_sums import leave_more
from .state import SAME_LEVEL, TOP, Int, Row, Table

# Under this part of a link's weight, what subtraction left of it is too coarse: summed afresh.
FEW = 1e-3


@inner_kernel
def _freeze(flows: Table, hops: Table, links: Table, flow_id: Int, level: float, by: Int) -> None:
    """Stop a flow at a level; take its rate out of its links in doubled precision."""
    flow = at(flows, flow_id)
    flow.open_in = 0
    flow.level = level
    flow.stopped_by = by
    weight = flow.weight
    rate = flow.cap
    if by >= 0:
        rate = level * weight
    for h in between(flow.first_hop, flow.end_hop):
        hop = at(hops, h)
        link = at(links, hop.link)
        share = hop.share
        leave_more(link, -rate * share)
        link.open_weight -= share * weight
        link.open_count -= 1


@merged_kernel
def _open_weight(flows: Table, hops: Table, link: Row, epoch: Int) -> float:
    """Return the sum of share times weight of a link's flows that still rise."""
    total = 0.0
    h = link.first_hop
    while h >= 0:
        hop = at(hops, h)
        flow = at(flows, hop.flow)
        if flow.open_in == epoch:
            total += hop.share * flow.weight
        h = hop.next
    return total


@merged_kernel
def _open(clock: Row, flows: Table, hops: Table, links: Table, lists: Table, levels: Table) -> Int:
    """Let all active flows rise; return how many levels (links, caps) wait in the heap."""
    for k in upto(clock.busy_links):
        link = at(links, at(links, k).busy)
        link.free = link.capacity
        link.free_low = 0.0
        link.weight = 0.0
        link.open_count = 0
        link.held = 0
        link.stop_level = np.inf
    waiting = np.int64(0)
    for k in upto(clock.active):
        flow_id = at(lists, k).active
        flow = at(flows, flow_id)
        flow.open_in = clock.epoch
        for h in between(flow.first_hop, flow.end_hop):
            hop = at(hops, h)
            link = at(links, hop.link)
            link.weight += hop.share * flow.weight
            link.open_count += 1
        if flow.cap < np.inf:
            at(levels, waiting).level = flow.cap / flow.weight
            at(levels, waiting).of = -1 - flow_id
            waiting += 1
    for k in upto(clock.busy_links):
        link = at(links, at(links, k).busy)
        link.open_weight = link.weight
        at(levels, waiting).level = link.capacity / link.weight
        at(levels, waiting).of = at(links, k).busy
        waiting += 1
    order_levels(levels, waiting)
    return waiting


@inner_kernel
def fill(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Blocks
) -> None:
    """Give all active flows their weighted max-min levels.

    A link's level, its free capacity over its open weight, only rises while others freeze, so the
    levels in the heap are lower bounds: the top one is looked at again before it is believed.
    """
    clock.epoch += 1
    clock.sums += 1
    clock.touched += clock.active
    epoch, rising, last = clock.epoch, clock.active, 0.0
    waiting: Int = _open(clock, flows, hops, links, lists, levels)
    lowest = at(levels, 0)
    while rising > 0:
        of = lowest.of
        if of < 0:
            if at(flows, -1 - of).open_in == epoch:
                last = greater(last, lowest.level)
                rising -= 1
                _freeze(flows, hops, links, -1 - of, last, np.int64(-1))
        elif at(links, of).open_count > 0:
            link = at(links, of)
            if link.open_weight < FEW * link.weight:
                link.open_weight = _open_weight(flows, hops, link, epoch)
            level = (link.free + link.free_low) / link.open_weight
            if level <= last * (1.0 + SAME_LEVEL):
                level = last
            if level > lowest.level * (1.0 + SAME_LEVEL):
                lowest.level = level
                sink_level(levels, TOP, waiting)
                continue
            last = level
            link.stop_level = level
            h = link.first_hop
            while h >= 0:
                flow_id = np.int64(at(hops, h).flow)
                if at(flows, flow_id).open_in == epoch:
                    rising -= 1
                    _freeze(flows, hops, links, flow_id, level, of)
                h = at(hops, h).next
        waiting = drop_top(levels, waiting)
    for k in upto(clock.active):
        set_rate(clock, at(flows, at(lists, k).active), links, blocks)
