"""Flows are posted: their columns become rows, and each finds those that it waits for."""

from typing import Any

import numpy as np

from ubnet.jit import borrowing_kernel, inner_kernel

from .equals import count_keys, group
from .first_rows import at, first_row
from .free_rows import ROOM_A_HOP, size_of_room
from .state import F8, I4, I8, U1, Engine, Int, Mask, Row, Table
from .waiting import push_waiting


@inner_kernel
def _row_of(clock: Row, posted: Table, number: Int) -> Int:
    """Return the row of a flow that has not ended: rows stand in the order of numbers."""
    below, above = np.int64(0), np.int64(clock.rows)
    guess = number - (clock.posted - clock.rows)  # where it stands if none after it was cleared
    if guess >= 0 and at(posted, guess).number == number:
        return int(guess)
    while above - below > 1:
        middle = (below + above) >> 1
        if at(posted, middle).number <= number:
            below = middle
        else:
            above = middle
    return int(below)


@inner_kernel
def _wait_for(
    clock: Row,
    posted: Table,
    edges: Table,
    ends: I8,
    row: Int,
    startup_ps: Int,
    dep: I8,
    gate: Mask,
    start: Int,
    end: Int,
) -> None:
    """Let a flow, or its bytes alone, wait for ``dep[start:end]``, numbers of flows."""
    entry = at(posted, row)
    for j in range(start, end):
        bytes_alone = gate[min(j, len(gate) - 1)]
        if ends[dep[j]] >= 0:
            ready = ends[dep[j]] - (startup_ps if bytes_alone else 0)
            entry.since_ps = max(entry.since_ps, ready)
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
    for k in range(len(route_ptr) - 1):
        kind = at(kinds, clock.kind_rows + k)
        kind.volume = nbytes[min(k, len(nbytes) - 1)]
        kind.startup_ps = startup_ps[min(k, len(startup_ps) - 1)]
        kind.weight = weight[min(k, len(weight) - 1)]
        kind.cap = rate_cap[min(k, len(rate_cap) - 1)]
        kind.first_stop = clock.route_rows + route_ptr[k]
        kind.hops = route_ptr[k + 1] - route_ptr[k]
    for j in range(len(route_link)):
        stop = at(routes, clock.route_rows + j)
        stop.link = route_link[j]
        stop.share = route_share[min(j, len(route_share) - 1)]


@inner_kernel
def _write(clock: Row, posted: Table, start_ps: I8, kind: I4, watch: Mask, n: Int) -> None:
    """Write n flows behind the others."""
    for k in range(n):
        entry = at(posted, clock.rows + k)
        row = np.int64(kind[k]) if len(kind) > 0 else k
        entry.kind = clock.kind_rows + row
        entry.since_ps = start_ps[min(row, len(start_ps) - 1)]
        entry.number = clock.posted + k
        entry.pending = 0
        entry.first_edge = -1
        entry.next_waiting = -1
        entry.bucket = -1
        entry.equal = -1
        entry.flow = -1
        entry.watch = 1 if watch[min(k, len(watch) - 1)] else 0


@borrowing_kernel
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
    key: I4,
    times: U1,
    table: I4,
) -> bool:
    """Add the flows of a post that was checked; a column of one row stands for all.

    ``kind`` says which row of the columns each flow has; where it is empty, each has its own. The
    last three are room to look for flows that are equal, as `equals.room_to_compare` makes it.
    False: the tables have no room for them, and nothing was changed.
    """
    given = Engine(*engine)
    clock, ends = at(first_row(given.clock), 0), given.ends
    first, n = clock.rows, np.int64(len(kind) if len(kind) > 0 else len(route_ptr) - 1)
    n_hops = len(route_link)
    if len(kind) > 0:
        n_hops = 0
        for k in range(n):
            n_hops += route_ptr[kind[k] + 1] - route_ptr[kind[k]]
    if (
        first + n > len(given.posted)
        or clock.kind_rows + len(route_ptr) - 1 > len(given.kinds)
        or clock.route_rows + len(route_link) > len(given.routes)
        or clock.flow_rows + clock.to_come + n > len(given.flows)
        or clock.hop_rows + clock.hops_to_come + n + ROOM_A_HOP * n_hops > len(given.hops)
        or clock.edges_used + len(dep) > len(given.edges)
        or clock.posted + n > len(ends)
    ):
        return False
    posted, kinds, routes = first_row(given.posted), first_row(given.kinds), first_row(given.routes)
    edges, lists, recent = first_row(given.edges), first_row(given.lists), first_row(given.recent)
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
    for k in range(n):
        ends[clock.posted + k] = -1
    clock.kind_rows += len(route_ptr) - 1
    clock.route_rows += len(route_link)
    clock.rows += n
    clock.posted += n
    clock.unfinished += n
    for k in range(n):
        row = first + k
        entry = at(posted, row)
        if entry.pending < 0:  # another one stands for it
            continue
        its = at(kinds, entry.kind)
        clock.to_come += 1
        clock.hops_to_come += 1 << size_of_room(np.int64(its.hops))
        if len(dep) > 0:
            start, end = dep_ptr[k], dep_ptr[k + 1]
            _wait_for(clock, posted, edges, ends, row, its.startup_ps, dep, gate, start, end)
        if entry.pending == 0:
            push_waiting(clock, posted, lists, recent, row, entry.since_ps + its.startup_ps)
    return True
