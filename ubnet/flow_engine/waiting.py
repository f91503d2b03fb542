"""The queue of flows that wait for their instant."""

from ubnet.jit import inlined_kernel

from .state import RECENT, Int, Row, Table


@inlined_kernel
def push_waiting(
    clock: Row, flows: Table, lists: Table, recent: Table, flow_id: Int, at_ps: Int
) -> None:
    """Queue a flow that enters the network at ``at_ps``; flows of one instant share a place."""
    flow, instant = flows[flow_id], recent[at_ps & (RECENT - 1)]
    if instant.bucket >= 0 and instant.at_ps == at_ps:
        opened_by = flows[instant.bucket]
        flow.next_waiting = opened_by.row
        opened_by.row = flow_id
        return
    flow.next_waiting = -1
    flow.row = flow_id
    instant.at_ps = at_ps
    instant.bucket = flow_id
    time, heap = lists.waiting_ps, lists.waiting
    k = clock.waiting
    clock.waiting = k + 1
    while k > 0:
        parent = (k - 1) >> 1
        if time[parent] <= at_ps:
            break
        time[k] = time[parent]
        heap[k] = heap[parent]
        k = parent
    time[k] = at_ps
    heap[k] = flow_id


@inlined_kernel
def pop_waiting(clock: Row, lists: Table, recent: Table) -> Int:
    """Take the first instant off the waiting queue and return its bucket."""
    time, heap = lists.waiting_ps, lists.waiting
    bucket = heap[0]
    instant = recent[time[0] & (RECENT - 1)]
    if instant.bucket == bucket:
        instant.bucket = -1
    n = clock.waiting - 1
    clock.waiting = n
    last_time, last = time[n], heap[n]
    k = 0
    while True:
        child = 2 * k + 1
        if child >= n:
            break
        if child + 1 < n and time[child + 1] < time[child]:
            child += 1
        if time[child] >= last_time:
            break
        time[k] = time[child]
        heap[k] = heap[child]
        k = child
    time[k] = last_time
    heap[k] = last
    return int(bucket)
