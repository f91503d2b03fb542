"""Weighted max-min allocation where flows have come or gone: what they change, and no more."""

import numpy as np

from ubnet.jit import (
    at,
    between,
    greater,
    inlined_kernel,
    inner_kernel,
    lesser,
    merged_kernel,
    upto,
)

from .active import let_in, look_again, set_rate
from .blocks import Blocks
from .heaps import drop_top, raise_level, sink_level
from .levels import is_in_question, own_level
from .link_sums import count_own, discount_own, first_own, leave_more
from .state import LET_RISE, LIFT, SAME_LEVEL, STOP, TOP, Int, Row, Table

# Where rows could be filled instead, a sweep may look at one hop for every FIELDS_A_HOP fields of
# their matrix, which take as long, and at FEW_HOPS in any case.
FIELDS_A_HOP = 64
FEW_HOPS = 512


@inner_kernel
def _settle(
    clock: Row,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    flow_id: Int,
    level: float,
    by: Int,
) -> None:
    """Give a flow a level, and look again at the links that it crosses."""
    flow = at(flows, flow_id)
    rose, before, held_by = flow.open_in == clock.epoch, flow.level, np.int64(-1)
    if not rose:
        held_by = np.int64(flow.stopped_by)
    let_in(clock, flow, links, lists, flow_id)
    flow.level = level
    flow.stopped_by = by
    flow.open_in = 0
    if by >= 0:
        at(links, by).held_level = level
    clock.touched += 1
    clock.looked += flow.end_hop - flow.first_hop
    for h in between(flow.first_hop, flow.end_hop):
        hop = at(hops, h)
        link_id = np.int64(hop.link)
        link = at(links, link_id)
        if link.summed == clock.sums:
            weight = hop.share * flow.weight
            link.open_count -= rose
            own = rose or held_by == link_id
            if not own:
                leave_more(link, weight * before)
            if link_id != by:
                leave_more(link, -weight * level)
                link.most = greater(link.most, level)
                if own:
                    discount_own(link, weight)
            elif not own:
                count_own(hops, hop, link, h, weight)
            if link.own_count == 0 and not is_in_question(clock, link):
                continue
        if link_id != by:
            look_again(clock, links, link, link_id)


@merged_kernel
def _let_rise(
    clock: Row,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    levels: Table,
    waiting: Int,
    link_id: Int,
) -> Int:
    """Let the flows rise that a link holds back; return how many levels wait then."""
    own = first_own(clock, flows, hops, links, link_id)
    while own >= 0:
        flow_id = np.int64(at(hops, own).flow)
        flow = at(flows, flow_id)
        if flow.open_in != clock.epoch:
            let_in(clock, flow, links, lists, flow_id)
            flow.open_in = clock.epoch
            if flow.cap < np.inf:
                raise_level(levels, waiting, flow.cap / flow.weight, -1 - flow_id)
                waiting += 1
            for h in between(flow.first_hop, flow.end_hop):
                hop = at(hops, h)
                other = at(links, hop.link)
                if other.summed == clock.sums:
                    other.open_count += 1
                    if hop.link != link_id:
                        weight = hop.share * flow.weight
                        leave_more(other, weight * flow.level)
                        count_own(hops, hop, other, h, weight)
                look_again(clock, links, other, np.int64(hop.link))
        own = np.int64(at(hops, own).next_own)
    return waiting


@merged_kernel
def _lift(clock: Row, flows: Table, hops: Table, links: Table, lists: Table, link_id: Int) -> None:
    """Let the flows that a link holds back have all that the others leave."""
    link = at(links, link_id)
    level = (link.free + link.free_low) / (link.open_weight + link.open_low)
    h = first_own(clock, flows, hops, links, link_id)
    while h >= 0:
        _settle(clock, flows, hops, links, lists, np.int64(at(hops, h).flow), level, link_id)
        h = np.int64(at(hops, h).next_own)


@merged_kernel
def _stop(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, link_id: Int, level: float
) -> None:
    """Let a link stop its own flows, and those that are above, at a level."""
    above, below = level * (1.0 + SAME_LEVEL), level * (1.0 - SAME_LEVEL)
    h = first_own(clock, flows, hops, links, link_id)
    while h >= 0:
        flow_id = np.int64(at(hops, h).flow)
        flow = at(flows, flow_id)
        if flow.open_in == clock.epoch or flow.level > above or flow.level < below:
            _settle(clock, flows, hops, links, lists, flow_id, level, link_id)
        h = np.int64(at(hops, h).next_own)
    link = at(links, link_id)
    if link.most <= above:
        return
    clock.looked += link.crowd
    link.most = above
    h = np.int64(link.first_hop)
    while h >= 0:
        flow_id = np.int64(at(hops, h).flow)
        if at(flows, flow_id).level > above:
            _settle(clock, flows, hops, links, lists, flow_id, level, link_id)
        h = np.int64(at(hops, h).next)


@merged_kernel
def _look(clock: Row, flows: Table, hops: Table, links: Table, levels: Table, waiting: Int) -> Int:
    """Find the levels of the links on the list; return how many levels wait in the heap then."""
    for k in upto(clock.listed_links):
        link_id = np.int64(at(links, k).to_look_at)
        link = at(links, link_id)
        link.listed = 0
        level = own_level(clock, flows, hops, links, link_id, -1.0)
        link.stop_level = level
        if level < link.queued:
            link.queued = level
            raise_level(levels, waiting, level, link_id)
            waiting += 1
    clock.listed_links = 0
    return waiting


@merged_kernel
def _look_closely(
    clock: Row, flows: Table, hops: Table, links: Table, link_id: Int, bound: float
) -> float:
    """Return the level of a link whose lower bound has come up; inf: it is not in question."""
    link = at(links, link_id)
    if bound != link.queued:
        return float(np.inf)  # a lower one has come up before
    if link.stop_level <= bound and link.then == STOP:
        link.stop_level = own_level(clock, flows, hops, links, link_id, np.inf)
    link.queued = link.stop_level
    return float(link.stop_level)


@inlined_kernel
def settle_alone(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, blocks: Blocks
) -> bool:
    """Give flows that have all their links for themselves, now, what these and their caps allow.

    Nobody feels them, and they feel nobody: they need no sweep. Say whether nobody else does.
    """
    come = n = clock.swept_flows
    all_settled = True
    for k in upto(clock.changed_links):
        link = at(links, at(links, k).changed)
        if link.held > 0 and link.crowd == 1:  # whom it held back now rises
            at(lists, n).swept = at(hops, link.first_hop).flow
            n += 1
        elif link.held > 0:
            all_settled = False
    clock.swept_flows = 0
    for k in upto(n):
        flow_id = np.int64(at(lists, k).swept)
        flow = at(flows, flow_id)
        level, by, alone = flow.cap / flow.weight, np.int64(-1), True
        for h in between(flow.first_hop, flow.end_hop):
            hop = at(hops, h)
            link = at(links, hop.link)
            if link.crowd > 1:
                alone = False
                break
            link.summed = 0  # sums are kept no longer
            most = link.capacity / (hop.share * flow.weight)
            if most < level:
                level, by = most, np.int64(hop.link)
        if not alone:
            all_settled = False
            if k < come:
                at(lists, clock.swept_flows).swept = flow_id
                clock.swept_flows += 1
        elif k < come or by != flow.stopped_by or abs(level - flow.level) > SAME_LEVEL * level:
            if k >= come:
                at(links, flow.stopped_by).held -= 1
            flow.level = level
            flow.stopped_by = by
            clock.touched += 1
            set_rate(clock, flow, links, blocks)
    return bool(all_settled)


@merged_kernel
def _begin_sweep(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, levels: Table
) -> Int:
    """Let the flows rise that have come; return how many levels wait in the heap then."""
    clock.epoch += 1
    clock.looked = 0
    waiting = np.int64(0)
    for k in upto(clock.swept_flows):
        flow_id = np.int64(at(lists, k).swept)
        flow = at(flows, flow_id)
        flow.open_in = clock.epoch
        if flow.cap < np.inf:
            raise_level(levels, waiting, flow.cap / flow.weight, -1 - flow_id)
            waiting += 1
        for h in between(flow.first_hop, flow.end_hop):
            link_id = np.int64(at(hops, h).link)
            look_again(clock, links, at(links, link_id), link_id)
    for k in upto(clock.changed_links):
        link_id = np.int64(at(links, k).changed)
        if at(links, link_id).held > 0:  # to leave a link frees those alone that it holds
            look_again(clock, links, at(links, link_id), link_id)
    return waiting


@inner_kernel
def sweep(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Blocks
) -> bool:
    """Re-allocate only where flows came or went; give up (False) where that grows too large.

    Sweep over the levels from below. What is below the sweep is final. A link that came into
    question has a level at which it stops its flows, or lets those have more that it holds back;
    the lowest comes next, and the links of the flows that it changes come into question, too.
    """
    budget = 2 * clock.hops
    if clock.odd_flows == 0:  # the dense regime costs no more for more flows
        budget = lesser(budget, greater(FEW_HOPS, clock.busy_links**2 // FIELDS_A_HOP))
    waiting = _begin_sweep(clock, flows, hops, links, lists, levels)
    last, lowest = 0.0, at(levels, 0)
    while True:
        waiting = _look(clock, flows, hops, links, levels, waiting)
        if waiting == 0:
            break
        # What comes into question next must find room in the heap, outdated entries included.
        if clock.looked > budget or waiting + clock.active + clock.busy_links > clock.level_room:
            return False
        level, of = lowest.level, lowest.of
        if of >= 0:
            level = _look_closely(clock, flows, hops, links, of, level)
            if lowest.level < level < np.inf:
                lowest.level = level
                sink_level(levels, TOP, waiting)
                continue
        waiting = drop_top(levels, waiting)
        if of < 0:
            if at(flows, -1 - of).open_in == clock.epoch:
                last = greater(last, level)
                _settle(clock, flows, hops, links, lists, -1 - of, level, np.int64(-1))
        elif level < np.inf:
            link = at(links, of)
            link.queued = np.inf
            link.stop_level = np.inf
            last = level if level > last * (1.0 + SAME_LEVEL) else last
            if link.then == LIFT:
                _lift(clock, flows, hops, links, lists, of)
            elif link.then == LET_RISE:
                waiting = _let_rise(clock, flows, hops, links, lists, levels, waiting, of)
            else:
                _stop(clock, flows, hops, links, lists, of, last)
    for k in upto(clock.swept_flows):
        set_rate(clock, at(flows, at(lists, k).swept), links, blocks)
    return True
