"""Flows are posted: their columns become rows, and each finds those that it waits for."""

import numpy as np

from ubnet.jit import (
    at,
    between,
    borrowing_kernel,
    first_row,
    greater,
    inner_kernel,
    merged_kernel,
    of_row,
    upto,
)

from .equals import count_keys, group
from .free_rows import ROOM_A_HOP, size_of_room
from .state import F8, I4, I8, U1, Column, Int, Mask, Row, Table, engine_of
from .waiting import push_waiting


@merged_kernel
def _row_of(clock: Row, posted: Table, number: Int) -> Int:
    """Return the row of a flow that has not ended: rows stand in the order of numbers."""
    below, above = np.int64(0), clock.rows
    # Where it stands if none after it was cleared.
    guess: Int = number - (clock.posted - clock.rows)
    if guess >= 0 and at(posted, guess).number == number:
        return guess
    while above - below > 1:
        middle = (below + above) >> 1
        if at(posted, middle).number <= number:
            below = middle
        else:
            above = middle
    return below


@inner_kernel
def _wait_for(
    clock: Row,
    posted: Table,
    edges: Table,
    ends: Column,
    row: Int,
    startup_ps: Int,
    dep: Column,
    gate: Mask,
    start: Int,
    end: Int,
) -> None:
    """Let a flow, or its bytes alone, wait for ``dep[start:end]``, numbers of flows."""
    entry = at(posted, row)
    for j in between(start, end):
        bytes_alone = of_row(gate, j)
        if ends[dep[j]] >= 0:
            ready = ends[dep[j]] - (startup_ps if bytes_alone else 0)
            entry.since_ps = greater(entry.since_ps, ready)
            continue
        before = at(posted, _row_of(clock, posted, dep[j]))
        edge = at(edges, clock.edges_used)
        edge.flow = -1 - row if bytes_alone else row
        edge.next = before.first_edge
        before.first_edge = clock.edges_used
        clock.edges_used += 1
        entry.pending += 1


@inner_kernel
def _write_kinds(
    clock: Row,
    kinds: Table,
    routes: Table,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    route_share: F8,
    weight: F8,
    rate_cap: F8,
    startup_ps: I8,
) -> None:
    """Write what the flows of a kind have in common behind what others have."""
    begin, links = first_row(route_ptr), first_row(route_link)
    for k in upto(len(route_ptr) - 1):
        kind = at(kinds, clock.kind_rows + k)
        kind.volume = of_row(nbytes, k)
        kind.startup_ps = of_row(startup_ps, k)
        kind.weight = of_row(weight, k)
        kind.cap = of_row(rate_cap, k)
        kind.first_stop = clock.route_rows + begin[k]
        kind.hops = begin[k + 1] - begin[k]
    for j in upto(len(route_link)):
        stop = at(routes, clock.route_rows + j)
        stop.link = links[j]
        stop.share = of_row(route_share, j)


@inner_kernel
def _write(clock: Row, posted: Table, start_ps: I8, kind: I4, watch: Mask, n: Int) -> None:
    """Write n flows behind the others."""
    kinds, own = first_row(kind), len(kind) == 0
    for k in upto(n):
        entry = at(posted, clock.rows + k)
        row = k if own else kinds[k]
        entry.kind = clock.kind_rows + row
        entry.since_ps = of_row(start_ps, row)
        entry.number = clock.posted + k
        entry.pending = 0
        entry.first_edge = -1
        entry.next_waiting = -1
        entry.bucket = -1
        entry.equal = -1
        entry.flow = -1
        entry.watch = 1 if of_row(watch, k) else 0


@inner_kernel
def _has_room(clock: Row, n: Int, route_ptr: I8, route_link: I8, dep: I8, kind: I4) -> bool:
    """Say whether the tables have room for n flows more."""
    n_kinds, n_hops = len(route_ptr) - 1, len(route_link)
    begin, kinds = first_row(route_ptr), first_row(kind)
    if len(kind) > 0:
        n_hops = 0
        for k in upto(n):
            n_hops += begin[kinds[k] + 1] - begin[kinds[k]]
    return bool(
        clock.rows + n <= clock.posted_room
        and clock.kind_rows + n_kinds <= clock.kind_room
        and clock.route_rows + len(route_link) <= clock.route_room
        and clock.flow_rows + clock.to_come + n <= clock.flow_room
        and clock.hop_rows + clock.hops_to_come + n + ROOM_A_HOP * n_hops <= clock.hop_room
        and clock.edges_used + len(dep) <= clock.edge_room
        and clock.posted + n <= clock.end_room
    )


@borrowing_kernel
def enqueue(
    where: I8,
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
    key: I4,
    times: U1,
    table: I4,
) -> bool:
    """Add the flows of a post that was checked; a column of one row stands for all.

    ``kind`` says which row of the columns each flow has; where it is empty, each has its own. The
    last three are room to look for flows that are equal, as `equals.room_to_compare` makes it.
    False: the tables have no room for them, and nothing was changed.
    """
    given = engine_of(where)
    clock, posted, kinds, routes = at(given.clock, 0), given.posted, given.kinds, given.routes
    edges, lists, recent, ends = given.edges, given.lists, given.recent, given.ends
    first = clock.rows
    n = len(kind) if len(kind) > 0 else len(route_ptr) - 1
    if not _has_room(clock, n, route_ptr, route_link, dep, kind):
        return False
    _write_kinds(
        clock,
        kinds,
        routes,
        nbytes,
        route_ptr,
        route_link,
        route_share,
        weight,
        rate_cap,
        startup_ps,
    )
    _write(clock, posted, start_ps, kind, watch, n)
    if n > 1:
        shared = count_keys(start_ps, nbytes, route_ptr, route_link, dep_ptr, dep, kind, key, times)
        if shared > 0:
            group(clock, posted, kinds, routes, dep_ptr, dep, gate, key, times, table, shared)
    for k in upto(n):
        ends[clock.posted + k] = -1
    clock.kind_rows += len(route_ptr) - 1
    clock.route_rows += len(route_link)
    clock.rows += n
    clock.posted += n
    clock.unfinished += n
    begin, waited_for = first_row(dep_ptr), first_row(dep)
    for k in upto(n):
        row = first + k
        entry = at(posted, row)
        if entry.pending < 0:  # another one stands for it
            continue
        its = at(kinds, entry.kind)
        clock.to_come += 1
        clock.hops_to_come += 1 << size_of_room(np.int64(its.hops))
        if len(dep) > 0:
            start, end = begin[k], begin[k + 1]
            _wait_for(clock, posted, edges, ends, row, its.startup_ps, waited_for, gate, start, end)
        if entry.pending == 0:
            push_waiting(clock, posted, lists, recent, row, entry.since_ps + its.startup_ps)
    return True
