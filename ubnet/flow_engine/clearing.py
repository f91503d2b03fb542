"""What ended flows leave behind is given free."""

from typing import Any

import numpy as np

from ubnet.jit import borrowing_kernel, inner_kernel

from .state import I4, Engine, Int, Row, Table


@inner_kernel
def _rename(ids: I4, now: I4, n: Int) -> None:
    """Put the present ids of rows, -1 for none, in place of the first n of a column."""
    for k in range(n):
        ids[k] = now[ids[k]]


@inner_kernel
def _clear_kinds(clock: Row, kinds: Table, routes: Table, kind_now: I4) -> None:
    """Let the kinds that are marked close up, and say where each of them is now."""
    kept, stops_kept = np.int64(0), np.int64(0)
    for k in range(clock.kind_rows):
        if kind_now[k] < 0:
            continue
        kind_now[k] = kept
        first = kinds[k].first_stop
        kinds[kept] = kinds[k]
        kinds[kept].first_stop = stops_kept
        for j in range(first, first + kinds[kept].hops):
            routes[stops_kept] = routes[j]
            stops_kept += 1
        kept += 1
    clock.kind_rows = kept
    clock.route_rows = stops_kept


def clear_ended(engine: Engine) -> None:
    """Give the rows of ended flows free: those of the others close up, in the same order."""
    clock = engine.clock[0]
    edges = engine.edges[: clock.edges_used]
    row_now = np.full(clock.rows + 1, -1, np.int32)  # the last place is that of no row, -1
    kind_now = np.full(clock.kind_rows, -1, np.int32)
    _close_up(tuple(engine), row_now, kind_now, edges.flow.copy(), edges.next.copy())


@borrowing_kernel
def _close_up(
    engine: tuple[Any, ...], row_now: I4, kind_now: I4, edge_flow: I4, edge_next: I4
) -> None:
    """Let rows close up, and write where each row and kind is now; the edges are copies."""
    given = Engine(*engine)
    clock, posted, flows, edges = given.clock[0], given.posted, given.flows, given.edges
    lists, recent, ends = given.lists, given.recent, given.ends
    rows = clock.rows
    kept, edges_kept = np.int64(0), np.int64(0)
    for row in range(rows):
        if ends[posted[row].number] < 0:
            row_now[row] = kept
            kind_now[posted[row].kind] = 0
            kept += 1
    _clear_kinds(clock, given.kinds, given.routes, kind_now)
    for row in range(rows):
        if row_now[row] < 0:
            continue
        posted[row_now[row]] = posted[row]
        entry = posted[row_now[row]]
        entry.kind = kind_now[entry.kind]
        entry.equal = row_now[entry.equal]
        entry.next_waiting = row_now[entry.next_waiting]
        entry.bucket = row_now[entry.bucket]
        if entry.flow >= 0:
            flows[entry.flow].posted = row_now[row]
        waits = entry.first_edge
        entry.first_edge = -1
        while waits >= 0:  # listed the other way round from here on: nothing hangs on it
            waiter, edge = edge_flow[waits], edges[edges_kept]
            edge.flow = row_now[waiter] if waiter >= 0 else -1 - row_now[-1 - waiter]
            edge.next = entry.first_edge
            entry.first_edge = edges_kept
            edges_kept += 1
            waits = edge_next[waits]
    _rename(lists.waiting, row_now, clock.waiting)
    for k in range(len(recent)):
        recent[k].bucket = row_now[recent[k].bucket]
    clock.rows = kept
    clock.edges_used = edges_kept
