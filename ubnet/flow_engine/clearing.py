"""Rows of ended flows are given free."""

from typing import Any

import numpy as np

from ubnet.jit import inner_kernel, kernel

from .state import CLOCK_ROW, I4, Int


@inner_kernel
def _rename(ids: I4, now: I4, n: Int) -> None:
    """Put the present ids of rows, -1 for none, in place of the first n of a column."""
    for k in range(n):
        ids[k] = now[ids[k]]


@kernel
def clear_ended(engine: tuple[Any, ...]) -> None:
    """Give the rows of ended flows free: those of the others close up, in the same order."""
    flows, hops, edges, links, lists, _, recent, _, ends = engine[1:]
    clock = engine[0].view(CLOCK_ROW)[0]
    rows = clock.rows
    row_now = np.full(rows + 1, -1, np.int32)
    hop_now = np.full(flows[rows].first_hop + 1, -1, np.int32)
    edge_flow, edge_next = edges.flow.copy(), edges.next.copy()
    kept, hops_kept, edges_kept = np.int64(0), np.int64(0), np.int64(0)
    for row in range(rows):
        if ends[flows[row].number] < 0:
            row_now[row] = kept
            kept += 1
    kept = np.int64(0)
    for row in range(rows):
        if row_now[row] < 0:
            continue
        start, end = flows[row].first_hop, flows[row + 1].first_hop
        flow = flows[kept]
        flows[kept] = flows[row]
        flow.first_hop = hops_kept
        for h in range(start, end):
            hops[hops_kept] = hops[h]
            hops[hops_kept].flow = kept
            hop_now[h] = hops_kept
            hops_kept += 1
        waits = flow.first_edge
        flow.first_edge = -1
        while waits >= 0:  # listed the other way round from here on: nothing hangs on it
            waiter, edge = edge_flow[waits], edges[edges_kept]
            edge.flow = row_now[waiter] if waiter >= 0 else -1 - row_now[-1 - waiter]
            edge.next = flow.first_edge
            flow.first_edge = edges_kept
            edges_kept += 1
            waits = edge_next[waits]
        flow.equal = row_now[flow.equal]
        flow.next_waiting = row_now[flow.next_waiting]
        if flow.position < 0:
            flow.row = row_now[flow.row]
        kept += 1
    flows[kept].first_hop = hops_kept
    for h in range(hops_kept):
        hop = hops[h]
        hop.next = hop_now[hop.next]
        hop.prev = hop_now[hop.prev]
    _rename(links.first_hop, hop_now, len(links))
    _rename(lists.active, row_now, clock.active)
    _rename(lists.waiting, row_now, clock.waiting)
    _rename(lists.swept, row_now, clock.swept_flows)
    for k in range(len(recent)):
        recent[k].bucket = row_now[recent[k].bucket]
    clock.rows = kept
    clock.edges_used = edges_kept
    clock.sums += 1
