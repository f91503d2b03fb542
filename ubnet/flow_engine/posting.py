"""Flows are posted: their columns become rows, and each finds those that it waits for."""

from typing import Any

import numpy as np

from ubnet.jit import inner_kernel, kernel

from .equals import count_keys, group, power_over
from .state import CLOCK_ROW, F8, I4, I8, MOST_EQUAL, Int, Mask, Row, Table
from .waiting import push_waiting


@inner_kernel
def _row_of(clock: Row, flows: Table, number: Int) -> Int:
    """Return the row of a flow that has not ended: rows stand in the order of numbers."""
    below, above = np.int64(0), np.int64(clock.rows)
    guess = number - (clock.posted - clock.rows)  # where it stands if none after it was cleared
    if guess >= 0 and flows[guess].number == number:
        return int(guess)
    while above - below > 1:
        middle = (below + above) >> 1
        if flows[middle].number <= number:
            below = middle
        else:
            above = middle
    return int(below)


@inner_kernel
def _wait_for(
    clock: Row,
    flows: Table,
    edges: Table,
    ends: I8,
    flow_id: Int,
    dep: I8,
    gate: Mask,
    start: Int,
    end: Int,
) -> None:
    """Let a flow, or its bytes alone, wait for ``dep[start:end]``, numbers of flows."""
    flow = flows[flow_id]
    for j in range(start, end):
        bytes_alone = gate[min(j, len(gate) - 1)]
        if ends[dep[j]] >= 0:
            ready = ends[dep[j]] - (flow.startup_ps if bytes_alone else 0)
            flow.since_ps = max(flow.since_ps, ready)
            continue
        before = flows[_row_of(clock, flows, dep[j])]
        edge = edges[clock.edges_used]
        edge.flow = -1 - flow_id if bytes_alone else flow_id
        edge.next = before.first_edge
        before.first_edge = clock.edges_used
        clock.edges_used += 1
        flow.pending += 1


@inner_kernel
def _write(
    clock: Row,
    flows: Table,
    hops: Table,
    start_ps: I8,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    route_share: F8,
    weight: F8,
    rate_cap: F8,
    startup_ps: I8,
    kind: I4,
    watch: Mask,
    n: Int,
) -> None:
    """Write the columns of a post of n flows into the tables, behind the others."""
    first, h = clock.rows, flows[clock.rows].first_hop
    for k in range(n):
        flow = flows[first + k]
        row = np.int64(kind[k]) if len(kind) > 0 else k
        flow.rate = 0.0
        flow.weight = weight[min(row, len(weight) - 1)]
        flow.cap = rate_cap[min(row, len(rate_cap) - 1)]
        flow.volume = nbytes[min(row, len(nbytes) - 1)]
        flow.left = float(flow.volume)
        flow.since_ps = start_ps[min(row, len(start_ps) - 1)]
        flow.startup_ps = startup_ps[min(row, len(startup_ps) - 1)]
        flow.watch = 1 if watch[min(k, len(watch) - 1)] else 0
        flow.number = clock.posted + k
        flow.pending = 0
        flow.first_edge = -1
        flow.equal = -1
        flow.row = -1
        flow.next_waiting = -1
        flow.position = -1
        flow.stopped_by = -1
        flow.inside = 0
        flow.open_in = 0
        flow.odd = 0
        for j in range(route_ptr[row], route_ptr[row + 1]):
            hop = hops[h]
            hop.link = route_link[j]
            hop.flow = first + k
            hop.next = -1
            hop.prev = -1
            hop.share = route_share[min(j, len(route_share) - 1)]
            h += 1
        flows[first + k + 1].first_hop = h


@kernel
def enqueue(
    engine: tuple[Any, ...],
    start_ps: I8,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    route_share: F8,
    weight: F8,
    rate_cap: F8,
    dep_ptr: I8,
    dep: I8,
    startup_ps: I8,
    gate: Mask,
    kind: I4,
    watch: Mask,
) -> None:
    """Add the flows of a post that was checked; a column of one row stands for all.

    ``kind`` says which row of the columns each flow has; where it is empty, each has its own.
    """
    flows, hops, edges, links, lists = engine[1:6]
    clock = engine[0].view(CLOCK_ROW)[0]
    recent, ends = engine[7], engine[9]
    first, n = clock.rows, np.int64(len(kind) if len(kind) > 0 else len(route_ptr) - 1)
    _write(
        clock,
        flows,
        hops,
        start_ps,
        nbytes,
        route_ptr,
        route_link,
        route_share,
        weight,
        rate_cap,
        startup_ps,
        kind,
        watch,
        n,
    )
    if n > 1:
        key, times = np.zeros(n, np.int32), np.zeros(power_over(4 * n), np.int32)
        shared = count_keys(start_ps, nbytes, route_ptr, route_link, dep_ptr, dep, kind, key, times)
        if shared > 0:  # they and their first ones take half of the table at most
            table = np.zeros(power_over(4 * shared), np.int32)
            last, count = np.zeros(n, np.int32), np.zeros(n, np.int32)
            group(
                clock,
                flows,
                hops,
                dep_ptr,
                dep,
                gate,
                key,
                times,
                table,
                last,
                count,
            )
    for k in range(n):
        ends[clock.posted + k] = -1
    clock.rows += n
    clock.posted += n
    clock.unfinished += n
    for k in range(n):
        flow_id = first + k
        flow = flows[flow_id]
        if flow.pending < 0:  # another one stands for it
            continue
        if len(dep) > 0:
            _wait_for(clock, flows, edges, ends, flow_id, dep, gate, dep_ptr[k], dep_ptr[k + 1])
        if flow.pending == 0:
            push_waiting(clock, flows, lists, recent, flow_id, flow.since_ps + flow.startup_ps)
        for h in range(flow.first_hop, flows[flow_id + 1].first_hop):
            hop = hops[h]
            if flow.cap * hop.share >= links[hop.link].capacity:
                flow.cap = np.inf
            if not (hop.share <= MOST_EQUAL and hop.share == float(int(hop.share))):
                flow.odd = 1
        if flow.weight != 1.0 or flow.cap < np.inf:
            flow.odd = 1
