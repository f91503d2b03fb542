"""Rows of ended flows are given free."""

from typing import Any

import numpy as np

from ubnet.jit import kernel

from .state import ACTIVE, EDGES_USED, ROWS, SUMS, SWEPT_FLOWS, WAITING


@kernel
def clear_ended(engine: tuple[Any, ...]) -> None:
    """Give the rows of ended flows free: those of the others close up, in the same order."""
    clock, flows, hops, edges, links, lists, _, recent, _, ends = engine
    rows = clock[ROWS]
    row_now = np.full(rows + 1, -1, np.int32)
    hop_now = np.full(flows[rows].first_hop + 1, -1, np.int32)
    edge_flow, edge_next = edges.flow.copy(), edges.next.copy()
    kept, hop, edge = np.int64(0), np.int64(0), np.int64(0)
    for row in range(rows):
        if ends[flows[row].number] < 0:
            row_now[row] = kept
            kept += 1
    kept = np.int64(0)
    for row in range(rows):
        if row_now[row] < 0:
            continue
        start, end = flows[row].first_hop, flows[row + 1].first_hop
        flows[kept] = flows[row]
        flows[kept].first_hop = hop
        for h in range(start, end):
            hops[hop] = hops[h]
            hops[hop].flow = kept
            hop_now[h] = hop
            hop += 1
        waits = flows[kept].first_edge
        flows[kept].first_edge = -1
        while waits >= 0:  # listed the other way round from here on: nothing hangs on it
            waiter = edge_flow[waits]
            edges[edge].flow = row_now[waiter] if waiter >= 0 else -1 - row_now[-1 - waiter]
            edges[edge].next = flows[kept].first_edge
            flows[kept].first_edge = edge
            edge += 1
            waits = edge_next[waits]
        flows[kept].equal = row_now[flows[kept].equal]
        flows[kept].next_waiting = row_now[flows[kept].next_waiting]
        if flows[kept].position < 0:
            flows[kept].row = row_now[flows[kept].row]
        kept += 1
    flows[kept].first_hop = hop
    for h in range(hop):
        hops[h].next = hop_now[hops[h].next]
        hops[h].prev = hop_now[hops[h].prev]
    for k in range(len(links)):
        links[k].first_hop = hop_now[links[k].first_hop]
    for k in range(clock[ACTIVE]):
        lists[k].active = row_now[lists[k].active]
    for k in range(clock[WAITING]):
        lists[k].waiting = row_now[lists[k].waiting]
    for k in range(clock[SWEPT_FLOWS]):
        lists[k].swept = row_now[lists[k].swept]
    for k in range(len(recent)):
        recent[k].bucket = row_now[recent[k].bucket]
    clock[ROWS] = kept
    clock[EDGES_USED] = edge
    clock[SUMS] += 1
