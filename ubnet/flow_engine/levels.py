"""The level at which a link stops its flows."""

import numpy as np

from ubnet.jit import inner_kernel

from .link_sums import sum_up
from .state import (
    CAPPED,
    EPOCH,
    I8,
    LET_RISE,
    LIFT,
    LOOKED,
    SAME_LEVEL,
    STOP,
    SUMS,
    SWEEP,
    Int,
    Table,
)

# Under this part of the most that a link's own weight was, what subtraction in doubled precision
# left of it is too coarse: summed afresh.
COARSE = 1e-9


@inner_kernel
def _level_above(
    clock: I8, flows: Table, hops: Table, links: Table, link: Int, limit: float
) -> float:
    """Return a link's level where those with more than a limit have to come down to it, too."""
    while True:
        own, fixed, low, most = 0.0, 0.0, 0.0, 0.0
        clock[LOOKED] += links[link].crowd
        h = links[link].first_hop
        while h >= 0:
            flow = hops[h].flow
            weight = hops[h].share * flows[flow].weight
            if flows[flow].open_in == clock[EPOCH] or flows[flow].stopped_by == link:
                own += weight
            else:
                most = max(most, flows[flow].level)
                if flows[flow].level > limit:
                    own += weight
                else:  # in doubled precision: little may be left of the capacity
                    used = weight * flows[flow].level
                    more = fixed + used
                    part = more - fixed
                    low += (fixed - (more - part)) + (used - part)
                    fixed = more
            h = hops[h].next
        links[link].most = most
        if own == 0.0:
            return float(np.inf)
        level = ((links[link].capacity - fixed) - low) / own
        if most <= level * (1.0 + SAME_LEVEL) or level <= limit:
            return float(level)
        limit = level * (1.0 + SAME_LEVEL)


@inner_kernel
def own_level(clock: I8, flows: Table, hops: Table, links: Table, link: Int, near: float) -> float:
    """Return the level at which a link stops its flows if the others stay as they are.

    Its own are those that it holds back and those that rise; the others have no more than their
    level. inf: it stops nobody, or just those that it holds back already. A level above `near` may
    be a lower bound: so those that have too much are looked for but once, when it comes up.
    """
    own = links[link].open_weight + links[link].open_low
    if links[link].summed != clock[SUMS] or own < COARSE * links[link].weight:
        sum_up(clock, flows, hops, links, link)
    links[link].then = STOP
    free = links[link].free + links[link].free_low
    level = 0.0
    if links[link].own_count > 0:
        level = free / (links[link].open_weight + links[link].open_low)
    elif free >= -SAME_LEVEL * links[link].capacity:
        return float(np.inf)
    held = 0.0
    if links[link].own_count > links[link].open_count:
        held = links[link].held_level
    if held > 0.0 and held < level * (1.0 - SAME_LEVEL):
        links[link].then = LET_RISE
        if links[link].open_count == 0 and links[link].most <= level and clock[CAPPED] == 0:
            links[link].then = LIFT
        return float(held)
    if level <= near and links[link].most > level * (1.0 + SAME_LEVEL):
        level = _level_above(clock, flows, hops, links, link, level * (1.0 + SAME_LEVEL))
        if held > 0.0 and held < level * (1.0 - SAME_LEVEL):
            links[link].then = LET_RISE
            return float(held)
    if held > 0.0 and abs(level - held) <= SAME_LEVEL * held:
        level = held
        if links[link].open_count == 0 and links[link].most <= level * (1.0 + SAME_LEVEL):
            return float(np.inf)
    return float(level)


@inner_kernel
def is_in_question(clock: I8, links: Table, link: Int) -> bool:
    """Say whether a link that stops nobody has to be looked at: it waits for it, or is too full."""
    if links[link].touched == clock[SWEEP] and links[link].stop_level < np.inf:
        return True
    free = links[link].free + links[link].free_low
    return bool(free < -SAME_LEVEL * links[link].capacity)
