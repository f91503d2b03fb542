"""The dense regime begins and ends."""

import numpy as np

from ubnet.jit import at, borrowing_kernel, greater, inner_kernel, upto

from .blocks import Blocks, blocks_of
from .heaps import drop_top, order_levels
from .row_clocks import unpack_rows
from .row_members import join_row, take_slots
from .rows import SPARE_SLOTS, UNPLACED, Dense, dense_of
from .state import (
    CRAMPED,
    I8,
    NEVER,
    PATIENCE,
    PS_PER_S,
    SAME_LEVEL,
    Int,
    Row,
    Table,
    engine_of,
)


@inner_kernel
def enter_rows(
    clock: Row, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, dense: Dense
) -> None:
    """Sort the active flows into rows by what holds them back, and the rows by level."""
    slack, rows, place, steps = dense.slack, dense.rows, dense.place, dense.steps
    free_then, rising_then = dense.free_then, dense.rising_then
    n, slots_given = clock.wanted, np.int64(0)
    clock.columns = n
    clock.wanted = 0
    clock.dense = 1
    clock.crowd = clock.active
    clock.sums += 1
    for k in upto(clock.links):
        at(links, k).column = -1
    for k in upto(n):
        link_id = k if n == clock.links else at(links, k).busy
        link, row = at(links, link_id), at(rows, k)
        link.column = k
        row.link = link_id
        place[k] = UNPLACED
        row.end_ps = NEVER
        row.slot = slots_given
        slots_given += link.crowd + (link.crowd >> 1) + SPARE_SLOTS
        row.slot_end = slots_given
        slack[k] = SAME_LEVEL * link.capacity
        free_then[k] = link.capacity
        rising_then[k] = 0
        h = link.first_hop
        while h >= 0:
            hop = at(hops, h)
            rising_then[k] += np.int64(hop.share)
            h = hop.next
    for k in upto(clock.active):
        flow_id = np.int64(at(lists, k).active)
        flow = at(flows, flow_id)
        take_slots(flows, hops, links, dense, flow_id)
        elapsed = float(clock.now - flow.since_ps)
        left = greater(0.0, flow.left - flow.rate * elapsed / PS_PER_S)
        slot = at(dense.slots, at(dense.cells, flow.first_hop).slot)
        join_row(clock, dense, slot, np.int64(at(links, flow.stopped_by).column), left)
    used: Int = np.int64(0)
    for k in upto(n):
        if at(rows, k).moved != 0:
            at(levels, used).level = at(links, at(rows, k).link).stop_level
            at(levels, used).of = k
            used += 1
    order_levels(levels, used)
    clock.steps = used
    for k in upto(clock.steps):
        at(steps, k).row = at(levels, 0).of
        used = drop_top(levels, used)
    clock.lowest = 0
    clock.stale = 1
    clock.reallocations -= 1  # the same instant once more


@inner_kernel
def leave_rows(
    clock: Row, flows: Table, links: Table, lists: Table, blocks: Blocks, dense: Dense
) -> None:
    """Give the flows their own rates and ends back: the filling that comes next needs no rows."""
    unpack_rows(clock, flows, lists, blocks, dense)
    for k in upto(clock.links):
        at(links, k).held = 0  # the filling counts anew, but for busy links alone
    clock.dense = 0
    clock.misses = 2  # the next sweep given up leads back
    if clock.unfit != 0 and clock.unfit != CRAMPED:
        clock.misses = -PATIENCE  # such flows may well come again
    clock.unfit = 0
    clock.wait = 1  # a filling sets what sweeps need


@borrowing_kernel
def settle_dense(where: I8, where_dense: I8) -> None:
    """Let the flows show their own rates and bytes left, as of when these last changed."""
    given = engine_of(where)
    clock, blocks, dense = at(given.clock, 0), blocks_of(given), dense_of(where_dense)
    unpack_rows(clock, given.flows, given.lists, blocks, dense)
