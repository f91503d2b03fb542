"""Flows start."""

import numpy as np

from ubnet.jit import inner_kernel

from .active import activate
from .ends import finish
from .heaps import sort_batch
from .state import I8, Int, Row, Table
from .waiting import pop_waiting


@inner_kernel
def start_due(
    clock: Row,
    flows: Table,
    hops: Table,
    edges: Table,
    links: Table,
    lists: Table,
    recent: Table,
    blocks: Table,
    ends: I8,
) -> Int:
    """Start the flows whose time has come, and those that these set free in no time.

    Return how many have bytes to move: they are the first of `lists.batch`.
    """
    now = clock.now
    entered = np.int64(0)
    while clock.waiting > 0 and lists[0].waiting_ps <= now:
        n = np.int64(0)
        while clock.waiting > 0 and lists[0].waiting_ps <= now:
            flow_id = flows[pop_waiting(clock, lists, recent)].row
            while flow_id >= 0:
                lists[entered + n].batch = flow_id
                n += 1
                flow_id = flows[flow_id].next_waiting
        stay = entered
        for k in range(entered, entered + n):
            flow_id = np.int64(lists[k].batch)
            flow = flows[flow_id]
            routed = flow.first_hop < flows[flow_id + 1].first_hop
            if flow.volume == 0 or not (routed or flow.cap < np.inf):
                finish(clock, flows, hops, edges, links, lists, recent, ends, flow_id)
            else:
                lists[stay].batch = flow_id
                stay += 1
        entered = stay
    sort_batch(clock, flows, lists, entered)
    # So many that all are allocated anew: nothing is noted for a sweep.
    alone = 4 * entered <= clock.active + entered
    if not alone:
        clock.wait = max(1, clock.wait)
    for k in range(entered):
        flow_id = np.int64(lists[k].batch)
        while flow_id >= 0:
            clock.events += 1
            flow_id = flows[flow_id].equal
        activate(clock, flows, hops, links, lists, blocks, np.int64(lists[k].batch), alone)
    return int(entered)
