"""The kernels of the flow engine: the event loop and weighted max-min allocation.

The loop: take all events of this instant, apply them, re-allocate once, find the next finish.

All kernels that call each other live here, because Numba's cache goes stale across files. State
comes in as named tuples of arrays, whose fields `ubnet.flowsim` describes by allocating them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import kernel

I4 = NDArray[np.int32]
I8 = NDArray[np.int64]
F8 = NDArray[np.float64]
U1 = NDArray[np.uint8]

NEVER = 1 << 62
PS_PER_S = 1e12
# Ends within 3.1e-4 ps below a half round up as well: an end that lies on a half by its nature
# (odd sizes at 400 GB/s) is then the same picosecond by whichever arithmetic it was found.
ROUND_UP = 0.5 + 3.1e-4
# Levels closer than this, relatively, are one level: equal flows get equal rates to the last bit.
SAME_LEVEL = 1e-12
# Under this part of a link's weight, what subtraction left of it is too coarse: summed afresh.
FEW = 1e-3

# Places in `Queues.clock`.
NOW = 0
SIZE = 1
ACTIVE = 2
BUSY_LINKS = 3
WAITING = 4
STALE = 5
NEXT_END = 6
REPORTED = 7
EPOCH = 8
EVENTS = 9
REALLOCATIONS = 10
TOUCHED = 11
CLOCK_FIELDS = 16

RECENT = 256  # recently used instants of the waiting queue; a power of two


class Flows(NamedTuple):
    """One row a flow."""

    nbytes: I8
    left: F8  # bytes left at `since_ps`
    since_ps: I8  # when `rate` last changed
    rate: F8  # bytes/s
    end_ps: I8  # when an active flow will end at its present rate
    finish_ps: I8  # -1 before
    ready_ps: I8  # the latest of its start and its dependencies' ends
    startup_ps: I8
    weight: F8
    cap: F8  # bytes/s; inf where no cap can hold the flow back
    pending: I4  # dependencies that have not ended
    position: I4  # in `Queues.active`, or -1
    frozen: I4  # the epoch in which its rate was last set
    watch: U1
    first_hop: I8  # one more row than flows
    first_edge: I4  # to the flows that wait for this one
    next_waiting: I4  # the next flow of the same instant in the queue
    bucket: I4  # head of the instant's list, kept at the flow that opened it


class Hops(NamedTuple):
    """One row a link of a route; the active ones of a link are a doubly linked list."""

    link: I4
    share: F8
    flow: I4
    next: I4
    prev: I4


class Edges(NamedTuple):
    """One row a dependency, listed by the flow that is waited for."""

    flow: I4
    next: I4


class Links(NamedTuple):
    """One row a link."""

    capacity: F8
    bytes: F8  # carried by flows that have ended, times share
    first_hop: I4
    crowd: I4  # its active flows
    position: I4  # in `Queues.busy_links`
    free: F8  # capacity not given to frozen flows, and what rounding lost of it
    free_low: F8
    weight: F8  # sum of share times weight of its active flows
    open_weight: F8  # the same of those not frozen
    open_count: I4


class Queues(NamedTuple):
    """Lists, heaps and the scalars of the engine."""

    clock: I8
    active: I4
    busy_links: I4
    waiting_ps: I8
    waiting_bucket: I4
    recent_ps: I8
    recent_bucket: I4
    level: F8
    level_of: I4
    batch: I4
    reported: I4


@kernel
def _push_waiting(flows: Flows, queues: Queues, flow: int, at_ps: int) -> None:
    """Queue a flow that enters the network at ``at_ps``; flows of one instant share a place."""
    slot = at_ps & (RECENT - 1)
    bucket = queues.recent_bucket[slot]
    if bucket >= 0 and queues.recent_ps[slot] == at_ps:
        flows.next_waiting[flow] = flows.bucket[bucket]
        flows.bucket[bucket] = flow
        return
    flows.next_waiting[flow] = -1
    flows.bucket[flow] = flow
    queues.recent_ps[slot] = at_ps
    queues.recent_bucket[slot] = flow
    time, heap = queues.waiting_ps, queues.waiting_bucket
    k = queues.clock[WAITING]
    queues.clock[WAITING] = k + 1
    while k > 0:
        parent = (k - 1) >> 1
        if time[parent] <= at_ps:
            break
        time[k] = time[parent]
        heap[k] = heap[parent]
        k = parent
    time[k] = at_ps
    heap[k] = flow


@kernel
def _pop_waiting(queues: Queues) -> int:
    """Take the first instant off the waiting queue and return its bucket."""
    time, heap = queues.waiting_ps, queues.waiting_bucket
    bucket = heap[0]
    slot = time[0] & (RECENT - 1)
    if queues.recent_bucket[slot] == bucket:
        queues.recent_bucket[slot] = -1
    n = queues.clock[WAITING] - 1
    queues.clock[WAITING] = n
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


@kernel
def _sink_id(ids: I4, k: int, n: int) -> None:
    """Sink ids[k] in a heap whose largest is on top."""
    x = ids[k]
    while True:
        child = 2 * k + 1
        if child >= n:
            break
        if child + 1 < n and ids[child + 1] > ids[child]:
            child += 1
        if ids[child] <= x:
            break
        ids[k] = ids[child]
        k = child
    ids[k] = x


@kernel
def _sort_ids(ids: I4, n: int) -> None:
    """Sort the first n ids ascending; costs one pass where they are sorted or reversed."""
    rising, falling = True, True
    for k in range(1, n):
        if ids[k] < ids[k - 1]:
            rising = False
        else:
            falling = False
    if rising:
        return
    if falling:
        for k in range(n // 2):
            ids[k], ids[n - 1 - k] = ids[n - 1 - k], ids[k]
        return
    for k in range(n // 2 - 1, -1, -1):
        _sink_id(ids, k, n)
    for k in range(n - 1, 0, -1):
        ids[0], ids[k] = ids[k], ids[0]
        _sink_id(ids, 0, k)


@kernel
def _sink_level(level: F8, level_of: I4, k: int, n: int) -> None:
    """Sink place k in a heap whose lowest level is on top."""
    x, x_of = level[k], level_of[k]
    while True:
        child = 2 * k + 1
        if child >= n:
            break
        if child + 1 < n and level[child + 1] < level[child]:
            child += 1
        if level[child] >= x:
            break
        level[k] = level[child]
        level_of[k] = level_of[child]
        k = child
    level[k] = x
    level_of[k] = x_of


@kernel
def _activate(flows: Flows, hops: Hops, links: Links, queues: Queues, flow: int) -> None:
    """Let a flow's bytes enter the network."""
    clock = queues.clock
    flows.since_ps[flow] = clock[NOW]
    flows.position[flow] = clock[ACTIVE]
    queues.active[clock[ACTIVE]] = flow
    clock[ACTIVE] += 1
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        link = hops.link[h]
        if links.crowd[link] == 0:
            links.position[link] = clock[BUSY_LINKS]
            queues.busy_links[clock[BUSY_LINKS]] = link
            clock[BUSY_LINKS] += 1
        links.crowd[link] += 1
        after = links.first_hop[link]
        hops.next[h] = after
        hops.prev[h] = -1
        if after >= 0:
            hops.prev[after] = h
        links.first_hop[link] = h


@kernel
def _deactivate(flows: Flows, hops: Hops, links: Links, queues: Queues, flow: int) -> None:
    """Take a flow out of the network."""
    clock = queues.clock
    clock[ACTIVE] -= 1
    last = queues.active[clock[ACTIVE]]
    queues.active[flows.position[flow]] = last
    flows.position[last] = flows.position[flow]
    flows.position[flow] = -1
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        link = hops.link[h]
        links.crowd[link] -= 1
        before, after = hops.prev[h], hops.next[h]
        if before >= 0:
            hops.next[before] = after
        else:
            links.first_hop[link] = after
        if after >= 0:
            hops.prev[after] = before
        if links.crowd[link] == 0:
            clock[BUSY_LINKS] -= 1
            moved = queues.busy_links[clock[BUSY_LINKS]]
            queues.busy_links[links.position[link]] = moved
            links.position[moved] = links.position[link]


@kernel
def _finish(
    flows: Flows, hops: Hops, edges: Edges, links: Links, queues: Queues, flow: int
) -> None:
    """End a flow now, and queue those that waited for it alone."""
    clock = queues.clock
    now = clock[NOW]
    flows.finish_ps[flow] = now
    clock[EVENTS] += 1
    if flows.watch[flow] != 0:
        queues.reported[clock[REPORTED]] = flow
        clock[REPORTED] += 1
    size = float(flows.nbytes[flow])
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        links.bytes[hops.link[h]] += size * hops.share[h]
    edge = flows.first_edge[flow]
    while edge >= 0:
        waiter = edges.flow[edge]
        flows.pending[waiter] -= 1
        flows.ready_ps[waiter] = max(flows.ready_ps[waiter], now)
        if flows.pending[waiter] == 0:
            _push_waiting(flows, queues, waiter, flows.ready_ps[waiter] + flows.startup_ps[waiter])
        edge = edges.next[edge]


@kernel
def _set_rate(flows: Flows, flow: int, rate: float, now: int) -> None:
    """Give a flow a new rate from now on."""
    if rate == flows.rate[flow]:
        return
    elapsed = float(now - flows.since_ps[flow])
    left = flows.left[flow] - flows.rate[flow] * elapsed / PS_PER_S
    if left < 0.0:
        left = 0.0
    flows.left[flow] = left
    flows.since_ps[flow] = now
    flows.rate[flow] = rate
    duration = left / rate * PS_PER_S
    if duration < 4e18:
        flows.end_ps[flow] = now + int(duration + ROUND_UP)
    else:
        flows.end_ps[flow] = NEVER


@kernel
def _freeze(flows: Flows, hops: Hops, links: Links, flow: int, rate: float) -> None:
    """Take a flow's rate out of the links that it crosses, in doubled precision."""
    weight = flows.weight[flow]
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        link = hops.link[h]
        share = hops.share[h]
        free = links.free[link]
        used = -rate * share
        rest = free + used
        part = rest - free
        links.free_low[link] += (free - (rest - part)) + (used - part)
        links.free[link] = rest
        links.open_weight[link] -= share * weight
        links.open_count[link] -= 1


@kernel
def _open_weight(flows: Flows, hops: Hops, links: Links, link: int, epoch: int) -> float:
    """Return the sum of share times weight of a link's flows that are not frozen."""
    total = 0.0
    h = links.first_hop[link]
    while h >= 0:
        flow = hops.flow[h]
        if flows.frozen[flow] != epoch:
            total += hops.share[h] * flows.weight[flow]
        h = hops.next[h]
    return total


@kernel
def _start_filling(flows: Flows, hops: Hops, links: Links, queues: Queues) -> int:
    """Open all active flows; return how many levels (links, caps) wait in the heap."""
    clock = queues.clock
    for k in range(clock[BUSY_LINKS]):
        link = queues.busy_links[k]
        links.free[link] = links.capacity[link]
        links.free_low[link] = 0.0
        links.weight[link] = 0.0
        links.open_count[link] = links.crowd[link]
    n = 0
    for k in range(clock[ACTIVE]):
        flow = queues.active[k]
        weight = flows.weight[flow]
        for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
            links.weight[hops.link[h]] += hops.share[h] * weight
        if flows.cap[flow] < np.inf:
            queues.level[n] = flows.cap[flow] / weight
            queues.level_of[n] = -1 - flow
            n += 1
    for k in range(clock[BUSY_LINKS]):
        link = queues.busy_links[k]
        links.open_weight[link] = links.weight[link]
        queues.level[n] = links.capacity[link] / links.weight[link]
        queues.level_of[n] = link
        n += 1
    for k in range(n // 2 - 1, -1, -1):
        _sink_level(queues.level, queues.level_of, k, n)
    return n


@kernel
def _fill(flows: Flows, hops: Hops, links: Links, queues: Queues) -> None:
    """Give every active flow its weighted max-min rate by level filling.

    A link's level, its free capacity over its open weight, only rises while others freeze, so the
    levels in the heap are lower bounds: the top one is looked at again before it is believed.
    """
    clock = queues.clock
    clock[EPOCH] += 1
    epoch, now = clock[EPOCH], clock[NOW]
    clock[TOUCHED] += clock[ACTIVE]
    n = _start_filling(flows, hops, links, queues)
    last = 0.0
    while n > 0:
        of = queues.level_of[0]
        if of < 0:
            flow = -1 - of
            if flows.frozen[flow] != epoch:
                flows.frozen[flow] = epoch
                last = max(last, queues.level[0])
                _set_rate(flows, flow, flows.cap[flow], now)
                _freeze(flows, hops, links, flow, flows.cap[flow])
        elif links.open_count[of] > 0:
            if links.open_weight[of] < FEW * links.weight[of]:
                links.open_weight[of] = _open_weight(flows, hops, links, of, epoch)
            level = (links.free[of] + links.free_low[of]) / links.open_weight[of]
            if level <= last * (1.0 + SAME_LEVEL):
                level = last
            if level > queues.level[0] * (1.0 + SAME_LEVEL):
                queues.level[0] = level
                _sink_level(queues.level, queues.level_of, 0, n)
                continue
            last = level
            h = links.first_hop[of]
            while h >= 0:
                flow = hops.flow[h]
                if flows.frozen[flow] != epoch:
                    flows.frozen[flow] = epoch
                    rate = level * flows.weight[flow]
                    _set_rate(flows, flow, rate, now)
                    _freeze(flows, hops, links, flow, rate)
                h = hops.next[h]
        n -= 1
        queues.level[0] = queues.level[n]
        queues.level_of[0] = queues.level_of[n]
        if n > 0:
            _sink_level(queues.level, queues.level_of, 0, n)


@kernel
def _reallocate(flows: Flows, hops: Hops, links: Links, queues: Queues) -> None:
    """Allocate rates anew and find the next finish."""
    clock = queues.clock
    clock[REALLOCATIONS] += 1
    clock[STALE] = 0
    _fill(flows, hops, links, queues)
    soonest = NEVER
    for k in range(clock[ACTIVE]):
        soonest = min(soonest, flows.end_ps[queues.active[k]])
    clock[NEXT_END] = soonest


@kernel
def _end_due(flows: Flows, hops: Hops, edges: Edges, links: Links, queues: Queues) -> None:
    """End the active flows whose time has come."""
    clock = queues.clock
    now = clock[NOW]
    n = 0
    for k in range(clock[ACTIVE]):
        if flows.end_ps[queues.active[k]] <= now:
            queues.batch[n] = queues.active[k]
            n += 1
    _sort_ids(queues.batch, n)
    for k in range(n):
        _deactivate(flows, hops, links, queues, queues.batch[k])
        _finish(flows, hops, edges, links, queues, queues.batch[k])


@kernel
def _start_due(flows: Flows, hops: Hops, edges: Edges, links: Links, queues: Queues) -> None:
    """Start the flows whose time has come, and those that these set free in no time."""
    clock = queues.clock
    now = clock[NOW]
    entered = 0
    while clock[WAITING] > 0 and queues.waiting_ps[0] <= now:
        n = 0
        while clock[WAITING] > 0 and queues.waiting_ps[0] <= now:
            flow = flows.bucket[_pop_waiting(queues)]
            while flow >= 0:
                queues.batch[entered + n] = flow
                n += 1
                flow = flows.next_waiting[flow]
        stay = entered
        for k in range(entered, entered + n):
            flow = queues.batch[k]
            routed = flows.first_hop[flow] < flows.first_hop[flow + 1]
            if flows.nbytes[flow] == 0 or not (routed or flows.cap[flow] < np.inf):
                _finish(flows, hops, edges, links, queues, flow)
            else:
                queues.batch[stay] = flow
                stay += 1
        entered = stay
    _sort_ids(queues.batch, entered)
    clock[EVENTS] += entered
    for k in range(entered):
        _activate(flows, hops, links, queues, queues.batch[k])


@kernel
def next_event(flows: Flows, hops: Hops, links: Links, queues: Queues) -> int:
    """Return the time of the next event, or NEVER.

    Flows that start at an instant already begun join it: allocation waits until all have.
    """
    clock = queues.clock
    if clock[WAITING] > 0 and queues.waiting_ps[0] <= clock[NOW]:
        return int(clock[NOW])
    if clock[STALE] != 0:
        _reallocate(flows, hops, links, queues)
    first = clock[NEXT_END]
    if clock[WAITING] > 0:
        first = min(first, queues.waiting_ps[0])
    return int(first)


@kernel
def work(
    flows: Flows,
    hops: Hops,
    edges: Edges,
    links: Links,
    queues: Queues,
    limit_ps: int,
    until_watched: bool,
) -> bool:
    """Work off events up to ``limit_ps``; return False where none was left before it.

    With ``until_watched`` stop at the first instant at which watched flows end.
    """
    clock = queues.clock
    clock[REPORTED] = 0
    while True:
        due = clock[WAITING] > 0 and queues.waiting_ps[0] <= clock[NOW]
        if clock[STALE] != 0 and clock[NOW] == limit_ps and not due:
            return False  # more flows may be posted at this instant: allocate later
        now = next_event(flows, hops, links, queues)
        if now > limit_ps or now == NEVER:
            return False
        clock[NOW] = now
        clock[STALE] = 1
        if clock[NEXT_END] <= now:
            clock[NEXT_END] = NEVER
            _end_due(flows, hops, edges, links, queues)
        _start_due(flows, hops, edges, links, queues)
        if until_watched and clock[REPORTED] > 0:
            return True
        clock[REPORTED] = 0


@kernel
def enqueue(
    flows: Flows,
    hops: Hops,
    edges: Edges,
    links: Links,
    queues: Queues,
    dep_ptr: I8,
    dep: I8,
    first_edge: int,
) -> int:
    """Queue the flows of a post whose columns stand; edges are written from ``first_edge``."""
    clock = queues.clock
    first = clock[SIZE]
    n = len(dep_ptr) - 1
    clock[SIZE] = first + n
    edge = first_edge
    for k in range(n):
        flow = first + k
        for j in range(dep_ptr[k], dep_ptr[k + 1]):
            before = dep[j]
            if flows.finish_ps[before] >= 0:
                flows.ready_ps[flow] = max(flows.ready_ps[flow], flows.finish_ps[before])
                continue
            edges.flow[edge] = flow
            edges.next[edge] = flows.first_edge[before]
            flows.first_edge[before] = edge
            flows.pending[flow] += 1
            edge += 1
        if flows.pending[flow] == 0:
            _push_waiting(flows, queues, flow, flows.ready_ps[flow] + flows.startup_ps[flow])
        for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
            hops.flow[h] = flow
            if flows.cap[flow] * hops.share[h] >= links.capacity[hops.link[h]]:
                flows.cap[flow] = np.inf
    return edge
