"""The level at which a link stops its flows."""

import numpy as np

from ubnet.jit import at, greater, inner_kernel, merged_kernel

from .link_sums import sum_up
from .state import LET_RISE, LIFT, SAME_LEVEL, STOP, Int, Row, Table

# Under this part of the most that a link's own weight was, what subtraction in doubled precision
# left of it is too coarse: summed afresh.
COARSE = 1e-9


@merged_kernel
def _level_above(
    clock: Row, flows: Table, hops: Table, links: Table, link_id: Int, limit: float
) -> float:
    """Return a link's level where those with more than a limit have to come down to it, too."""
    link = at(links, link_id)
    while True:
        own, fixed, low, most = 0.0, 0.0, 0.0, 0.0
        clock.looked += link.crowd
        h = link.first_hop
        while h >= 0:
            hop = at(hops, h)
            flow = at(flows, hop.flow)
            weight = hop.share * flow.weight
            if flow.open_in == clock.epoch or flow.stopped_by == link_id:
                own += weight
            else:
                most = greater(most, flow.level)
                if flow.level > limit:
                    own += weight
                else:  # in doubled precision: little may be left of the capacity
                    used = weight * flow.level
                    more = fixed + used
                    part = more - fixed
                    low += (fixed - (more - part)) + (used - part)
                    fixed = more
            h = hop.next
        link.most = most
        if own == 0.0:
            return float(np.inf)
        level = ((link.capacity - fixed) - low) / own
        if most <= level * (1.0 + SAME_LEVEL) or level <= limit:
            return float(level)
        limit = level * (1.0 + SAME_LEVEL)


@inner_kernel
def own_level(
    clock: Row, flows: Table, hops: Table, links: Table, link_id: Int, near: float
) -> float:
    """Return the level at which a link stops its flows if the others stay as they are.

    Its own are those that it holds back and those that rise; the others have no more than their
    level. inf: it stops nobody, or just those that it holds back already. A level above `near` may
    be a lower bound: so those that have too much are looked for but once, when it comes up.
    """
    link = at(links, link_id)
    own = link.open_weight + link.open_low
    if link.summed != clock.sums or own < COARSE * link.weight:
        sum_up(clock, flows, hops, links, link_id)
    link.then = STOP
    free = link.free + link.free_low
    level = 0.0
    if link.own_count > 0:
        level = free / (link.open_weight + link.open_low)
    elif free >= -SAME_LEVEL * link.capacity:
        return float(np.inf)
    held = 0.0
    if link.own_count > link.open_count:
        held = link.held_level
    if held > 0.0 and held < level * (1.0 - SAME_LEVEL):
        link.then = LET_RISE
        if link.open_count == 0 and link.most <= level and clock.capped == 0:
            link.then = LIFT
        return float(held)
    if level <= near and link.most > level * (1.0 + SAME_LEVEL):
        level = _level_above(clock, flows, hops, links, link_id, level * (1.0 + SAME_LEVEL))
        if held > 0.0 and held < level * (1.0 - SAME_LEVEL):
            link.then = LET_RISE
            return float(held)
    if held > 0.0 and abs(level - held) <= SAME_LEVEL * held:
        level = held
        if link.open_count == 0 and link.most <= level * (1.0 + SAME_LEVEL):
            return float(np.inf)
    return float(level)


@merged_kernel
def is_in_question(clock: Row, link: Row) -> bool:
    """Say whether a link that stops nobody has to be looked at: it waits for it, or is too full."""
    if link.touched == clock.sweep and link.stop_level < np.inf:
        return True
    free = link.free + link.free_low
    return bool(free < -SAME_LEVEL * link.capacity)
