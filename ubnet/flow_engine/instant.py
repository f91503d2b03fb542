"""Flows end at an instant, and others start."""

import numpy as np

from ubnet.jit import at, fetch, greater, inlined_kernel, merged_kernel, upto

from .active import activate, count_bytes, deactivate, deactivate_all
from .blocks import Blocks
from .ends import finish
from .free_rows import give_back, pass_by
from .heaps import sort_batch
from .state import Column, Int, Row, Table
from .waiting import pop_waiting


@inlined_kernel
def fetch_next(clock: Row, posted: Table, lists: Table) -> None:
    """Fetch the flows of the two instants after the next.

    They were queued long ago, and a processor that has to wait for them waits longest of all.
    """
    if clock.waiting > 2:
        fetch(at(posted, at(lists, 1).waiting))
        fetch(at(posted, at(lists, 2).waiting))


@merged_kernel
def pass_instant(
    clock: Row,
    posted: Table,
    kinds: Table,
    routes: Table,
    flows: Table,
    hops: Table,
    edges: Table,
    links: Table,
    lists: Table,
    recent: Table,
    blocks: Blocks,
    ends: Column,
    ending: Int,
) -> Int:
    """End the first flows of the batch; start those whose time has come, or comes by these.

    Return how many start with bytes to move: the batch begins with their rows of ``flows`` then.
    """
    if ending > 1:
        sort_batch(clock, posted, lists, ending)
    leave_together = 0 < ending == clock.active
    if leave_together:
        deactivate_all(clock, flows, links, lists)
    for k in upto(ending):
        row = np.int64(at(lists, k).batch)
        flow_id = np.int64(at(posted, row).flow)
        if not leave_together:
            deactivate(clock, flows, hops, links, lists, blocks, flow_id)
        count_bytes(at(flows, flow_id), hops, links)
        give_back(flows, flow_id)
        finish(clock, posted, kinds, edges, lists, recent, ends, row)
    entered = np.int64(0)
    while clock.waiting > 0 and at(lists, 0).waiting_ps <= clock.now:
        row = np.int64(at(posted, pop_waiting(clock, lists, recent)).bucket)
        while row >= 0:
            after, kind = np.int64(at(posted, row).next_waiting), at(kinds, at(posted, row).kind)
            if kind.volume == 0 or not (kind.hops > 0 or kind.cap < np.inf):
                pass_by(clock, np.int64(kind.hops))
                finish(clock, posted, kinds, edges, lists, recent, ends, row)
            else:
                at(lists, entered).batch = row
                entered += 1
            row = after
    if entered > 1:
        sort_batch(clock, posted, lists, entered)
    # So many that all are allocated anew: nothing is noted for a sweep.
    to_sweep = 4 * entered <= clock.active + entered
    if not to_sweep:
        clock.wait = greater(1, clock.wait)
    for k in upto(entered):
        at(lists, k).batch = activate(
            clock,
            posted,
            kinds,
            routes,
            flows,
            hops,
            links,
            lists,
            blocks,
            np.int64(at(lists, k).batch),
            to_sweep,
        )
    return entered
