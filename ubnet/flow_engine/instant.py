"""Flows end at an instant, and others start."""

import numpy as np

from ubnet.jit import inlined_kernel, merged_kernel

from .active import activate, deactivate, deactivate_all
from .ahead import fetch
from .ends import finish
from .heaps import sort_batch
from .state import I8, Int, Row, Table
from .waiting import pop_waiting


@inlined_kernel
def fetch_next(clock: Row, flows: Table, hops: Table, lists: Table) -> None:
    """Fetch the route of a flow that starts next, and the flows of the two instants after it.

    They were queued long ago, and a processor that has to wait for them waits longest of all.
    """
    if clock.waiting > 2:
        fetch(hops[min(len(hops) - 1, flows[lists[0].waiting].first_hop)])
        fetch(flows[lists[1].waiting])
        fetch(flows[lists[2].waiting])


@merged_kernel
def pass_instant(
    clock: Row,
    flows: Table,
    hops: Table,
    edges: Table,
    links: Table,
    lists: Table,
    recent: Table,
    blocks: Table,
    ends: I8,
    ending: Int,
) -> Int:
    """End the first flows of the batch; start those whose time has come, or comes by these.

    Return how many start with bytes to move: they are the first of the batch then.
    """
    if ending > 1:
        sort_batch(clock, flows, lists, ending)
    leave_together = 0 < ending == clock.active
    if leave_together:
        deactivate_all(clock, flows, links, lists)
    for k in range(ending):
        flow_id = np.int64(lists[k].batch)
        if not leave_together:
            deactivate(clock, flows, hops, links, lists, blocks, flow_id)
        finish(clock, flows, hops, edges, links, lists, recent, ends, flow_id)
    entered = np.int64(0)
    while clock.waiting > 0 and lists[0].waiting_ps <= clock.now:
        flow_id = np.int64(flows[pop_waiting(clock, lists, recent)].row)
        while flow_id >= 0:
            flow = flows[flow_id]
            after = np.int64(flow.next_waiting)
            routed = flow.first_hop < flows[flow_id + 1].first_hop
            if flow.volume == 0 or not (routed or flow.cap < np.inf):
                finish(clock, flows, hops, edges, links, lists, recent, ends, flow_id)
            else:
                lists[entered].batch = flow_id
                entered += 1
            flow_id = after
    if entered > 1:
        sort_batch(clock, flows, lists, entered)
    # So many that all are allocated anew: nothing is noted for a sweep.
    to_sweep = 4 * entered <= clock.active + entered
    if not to_sweep:
        clock.wait = max(1, clock.wait)
    for k in range(entered):
        flow_id = np.int64(lists[k].batch)
        while flow_id >= 0:
            clock.events += 1
            flow_id = flows[flow_id].equal
        activate(clock, flows, hops, links, lists, blocks, np.int64(lists[k].batch), to_sweep)
    return int(entered)
