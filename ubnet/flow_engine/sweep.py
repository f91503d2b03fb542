"""Weighted max-min allocation where flows have come or gone: what they change, and no more."""

import numpy as np

from ubnet.jit import inner_kernel

from .active import let_in, look_again, set_rate
from .heaps import drop_top, raise_level, sink_level
from .levels import is_in_question, own_level
from .link_sums import count_own, discount_own, first_own, leave_more
from .state import (
    ACTIVE,
    BUSY_LINKS,
    CHANGED_LINKS,
    EPOCH,
    HOPS,
    I8,
    LET_RISE,
    LIFT,
    LISTED_LINKS,
    LOOKED,
    ODD_FLOWS,
    SAME_LEVEL,
    STOP,
    SUMS,
    SWEPT_FLOWS,
    TOP,
    TOUCHED,
    Int,
    Table,
)

# Where rows could be filled instead, a sweep may look at one hop for every FIELDS_A_HOP fields of
# their matrix, which take as long, and at FEW_HOPS in any case.
FIELDS_A_HOP = 64
FEW_HOPS = 512


@inner_kernel
def _settle(
    clock: I8,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    flow: Int,
    level: float,
    by: Int,
) -> None:
    """Give a flow a level, and look again at the links that it crosses."""
    rose, before, held_by = flows[flow].open_in == clock[EPOCH], flows[flow].level, np.int64(-1)
    if not rose:
        held_by = np.int64(flows[flow].stopped_by)
    let_in(clock, flows, links, lists, flow)
    flows[flow].level = level
    flows[flow].stopped_by = by
    flows[flow].open_in = 0
    if by >= 0:
        links[by].held_level = level
    clock[TOUCHED] += 1
    clock[LOOKED] += flows[flow + 1].first_hop - flows[flow].first_hop
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        link = np.int64(hops[h].link)
        if links[link].summed == clock[SUMS]:
            weight = hops[h].share * flows[flow].weight
            links[link].open_count -= rose
            own = rose or held_by == link
            if not own:
                leave_more(links, link, weight * before)
            if link != by:
                leave_more(links, link, -weight * level)
                links[link].most = max(links[link].most, level)
                if own:
                    discount_own(links, link, weight)
            elif not own:
                count_own(hops, links, link, np.int64(h), weight)
            if links[link].own_count == 0 and not is_in_question(clock, links, link):
                continue
        if link != by:
            look_again(clock, links, link)


@inner_kernel
def _let_rise(
    clock: I8,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    levels: Table,
    waiting: Int,
    link: Int,
) -> Int:
    """Let the flows rise that a link holds back; return how many levels wait then."""
    h = first_own(clock, flows, hops, links, link)
    while h >= 0:
        flow = np.int64(hops[h].flow)
        if flows[flow].open_in != clock[EPOCH]:
            let_in(clock, flows, links, lists, flow)
            flows[flow].open_in = clock[EPOCH]
            if flows[flow].cap < np.inf:
                raise_level(levels, waiting, flows[flow].cap / flows[flow].weight, -1 - flow)
                waiting += 1
            for hop in range(flows[flow].first_hop, flows[flow + 1].first_hop):
                other = np.int64(hops[hop].link)
                if links[other].summed == clock[SUMS]:
                    links[other].open_count += 1
                    if other != link:
                        weight = hops[hop].share * flows[flow].weight
                        leave_more(links, other, weight * flows[flow].level)
                        count_own(hops, links, other, np.int64(hop), weight)
                look_again(clock, links, other)
        h = np.int64(hops[h].next_own)
    return waiting


@inner_kernel
def _lift(clock: I8, flows: Table, hops: Table, links: Table, lists: Table, link: Int) -> None:
    """Let the flows that a link holds back have all that the others leave."""
    level = (links[link].free + links[link].free_low) / (
        links[link].open_weight + links[link].open_low
    )
    h = first_own(clock, flows, hops, links, link)
    while h >= 0:
        _settle(clock, flows, hops, links, lists, np.int64(hops[h].flow), level, link)
        h = np.int64(hops[h].next_own)


@inner_kernel
def _stop(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, link: Int, level: float
) -> None:
    """Let a link stop its own flows, and those that are above, at a level."""
    above, below = level * (1.0 + SAME_LEVEL), level * (1.0 - SAME_LEVEL)
    h = first_own(clock, flows, hops, links, link)
    while h >= 0:
        flow = np.int64(hops[h].flow)
        now = flows[flow].level
        if flows[flow].open_in == clock[EPOCH] or now > above or now < below:
            _settle(clock, flows, hops, links, lists, flow, level, link)
        h = np.int64(hops[h].next_own)
    if links[link].most <= above:
        return
    clock[LOOKED] += links[link].crowd
    links[link].most = above
    h = np.int64(links[link].first_hop)
    while h >= 0:
        flow = np.int64(hops[h].flow)
        if flows[flow].level > above:
            _settle(clock, flows, hops, links, lists, flow, level, link)
        h = np.int64(hops[h].next)


@inner_kernel
def _look(clock: I8, flows: Table, hops: Table, links: Table, levels: Table, waiting: Int) -> Int:
    """Find the levels of the links on the list; return how many levels wait in the heap then."""
    for k in range(clock[LISTED_LINKS]):
        link = np.int64(links[k].to_look_at)
        links[link].listed = 0
        level = own_level(clock, flows, hops, links, link, -1.0)
        links[link].stop_level = level
        if level < links[link].queued:
            links[link].queued = level
            raise_level(levels, waiting, level, link)
            waiting += 1
    clock[LISTED_LINKS] = 0
    return waiting


@inner_kernel
def _look_closely(
    clock: I8, flows: Table, hops: Table, links: Table, link: Int, bound: float
) -> float:
    """Return the level of a link whose lower bound has come up; inf: it is not in question."""
    if bound != links[link].queued:
        return float(np.inf)  # a lower one has come up before
    if links[link].stop_level <= bound and links[link].then == STOP:
        links[link].stop_level = own_level(clock, flows, hops, links, link, np.inf)
    links[link].queued = links[link].stop_level
    return float(links[link].stop_level)


@inner_kernel
def _begin_sweep(clock: I8, flows: Table, links: Table, lists: Table, levels: Table) -> Int:
    """Let the flows rise that have come; return how many levels wait in the heap then."""
    clock[EPOCH] += 1
    clock[LOOKED] = 0
    waiting = np.int64(0)
    for k in range(clock[SWEPT_FLOWS]):
        flow = np.int64(lists[k].swept)
        flows[flow].open_in = clock[EPOCH]
        if flows[flow].cap < np.inf:
            raise_level(levels, waiting, flows[flow].cap / flows[flow].weight, -1 - flow)
            waiting += 1
    for k in range(clock[CHANGED_LINKS]):
        if links[links[k].changed].held > 0:  # to leave a link frees those alone that it holds
            look_again(clock, links, np.int64(links[k].changed))
    return waiting


@inner_kernel
def sweep(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> bool:
    """Re-allocate only where flows came or went; give up (False) where that grows too large.

    Sweep over the levels from below. What is below the sweep is final. A link that came into
    question has a level at which it stops its flows, or lets those have more that it holds back;
    the lowest comes next, and the links of the flows that it changes come into question, too.
    """
    budget = 2 * clock[HOPS]
    if clock[ODD_FLOWS] == 0:  # the dense regime costs no more for more flows
        budget = min(budget, max(FEW_HOPS, clock[BUSY_LINKS] ** 2 // FIELDS_A_HOP))
    waiting: Int = _begin_sweep(clock, flows, links, lists, levels)
    last = 0.0
    while True:
        waiting = _look(clock, flows, hops, links, levels, waiting)
        if waiting == 0:
            break
        # What comes into question next must find room in the heap, outdated entries included.
        if clock[LOOKED] > budget or waiting + clock[ACTIVE] + clock[BUSY_LINKS] > len(levels):
            return False
        level, of = levels[0].level, np.int64(levels[0].of)
        if of >= 0:
            level = _look_closely(clock, flows, hops, links, of, level)
            if levels[0].level < level < np.inf:
                levels[0].level = level
                sink_level(levels, TOP, waiting)
                continue
        waiting = drop_top(levels, waiting)
        if of < 0:
            if flows[-1 - of].open_in == clock[EPOCH]:
                last = max(last, level)
                _settle(clock, flows, hops, links, lists, -1 - of, level, np.int64(-1))
        elif level < np.inf:
            links[of].queued = np.inf
            links[of].stop_level = np.inf
            last = level if level > last * (1.0 + SAME_LEVEL) else last
            if links[of].then == LIFT:
                _lift(clock, flows, hops, links, lists, of)
            elif links[of].then == LET_RISE:
                waiting = _let_rise(clock, flows, hops, links, lists, levels, waiting, of)
            else:
                _stop(clock, flows, hops, links, lists, of, last)
    for k in range(clock[SWEPT_FLOWS]):
        set_rate(clock, flows, links, lists, blocks, lists[k].swept)
    return True
