"""What ended flows leave behind is given free."""

import numpy as np

from ubnet.jit import (
    at,
    between,
    borrowing_kernel,
    copy_row,
    first_row,
    hand_over,
    inner_kernel,
    upto,
)

from .state import I4, I8, RECENT, Column, Engine, Row, Table, engine_of


@inner_kernel
def _clear_kinds(clock: Row, kinds: Table, routes: Table, kind_now: Column) -> None:
    """Let the kinds that are marked close up, and say where each of them is now."""
    kept, stops_kept = np.int64(0), np.int64(0)
    for k in upto(clock.kind_rows):
        if kind_now[k] < 0:
            continue
        kind_now[k] = kept
        kind = at(kinds, kept)
        copy_row(at(kinds, k), kind)
        first = kind.first_stop
        kind.first_stop = stops_kept
        for j in between(first, first + kind.hops):
            copy_row(at(routes, j), at(routes, stops_kept))
            stops_kept += 1
        kept += 1
    clock.kind_rows = kept
    clock.route_rows = stops_kept


def clear_ended(engine: Engine) -> None:
    """Give the rows of ended flows free: those of the others close up, in the same order."""
    clock = engine.clock[0]
    edges = engine.edges[: clock.edges_used]
    row_now = np.full(clock.rows + 1, -1, np.int32)
    kind_now = np.full(clock.kind_rows, -1, np.int32)
    _close_up(hand_over(engine), row_now, kind_now, edges.flow.copy(), edges.next.copy())


@borrowing_kernel
def _close_up(where: I8, row_places: I4, kind_places: I4, edge_flows: I4, edge_nexts: I4) -> None:
    """Let rows close up, and write where each row and kind is now; the edges are copies.

    The first row's place stands in the second of ``row_places``: the first is that of no row, -1.
    """
    given = engine_of(where)
    clock, posted, flows, edges = at(given.clock, 0), given.posted, given.flows, given.edges
    lists, recent, ends = given.lists, given.recent, given.ends
    row_now, kind_now = first_row(row_places), first_row(kind_places)
    edge_flow, edge_next = first_row(edge_flows), first_row(edge_nexts)
    kept, edges_kept = np.int64(0), np.int64(0)
    for row in upto(clock.rows):
        entry = at(posted, row)
        if ends[entry.number] < 0:
            row_now[row + 1] = kept
            kind_now[entry.kind] = 0
            kept += 1
    _clear_kinds(clock, given.kinds, given.routes, kind_now)
    for row in upto(clock.rows):
        place = row_now[row + 1]
        if place < 0:
            continue
        entry = at(posted, place)
        copy_row(at(posted, row), entry)
        entry.kind = kind_now[entry.kind]
        entry.equal = row_now[entry.equal + 1]
        entry.next_waiting = row_now[entry.next_waiting + 1]
        entry.bucket = row_now[entry.bucket + 1]
        if entry.flow >= 0:
            at(flows, entry.flow).posted = place
        waits = entry.first_edge
        entry.first_edge = -1
        while waits >= 0:  # listed the other way round from here on: nothing hangs on it
            waiter, edge = edge_flow[waits], at(edges, edges_kept)
            edge.flow = row_now[waiter + 1] if waiter >= 0 else -1 - row_now[-waiter]
            edge.next = entry.first_edge
            entry.first_edge = edges_kept
            edges_kept += 1
            waits = edge_next[waits]
    for k in upto(clock.waiting):
        at(lists, k).waiting = row_now[at(lists, k).waiting + 1]
    for k in upto(RECENT):
        at(recent, k).bucket = row_now[at(recent, k).bucket + 1]
    clock.rows = kept
    clock.edges_used = edges_kept
