"""The kernels of the flow engine: the event loop and weighted max-min allocation.

The loop: take all events of this instant, apply them, re-allocate once, find the next finish.

All kernels that call each other live here, because Numba's cache goes stale across files. State
comes in as named tuples of arrays, whose fields `ubnet.flowsim` describes by allocating them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import kernel

I4 = NDArray[np.int32]
I8 = NDArray[np.int64]
F8 = NDArray[np.float64]
Int = int | np.int64
Table = Any  # np.recarray: its columns are attributes

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
REGIONS = 12  # re-allocations that were done in a region
REGION = 13  # the number of the present region
REGION_FLOWS = 14
REGION_LINKS = 15
HOPS = 16  # of all active flows
MISSES = 17  # regions that grew too large, in a row
WAIT = 18  # re-allocations to do in full before the next region is tried
CHANGED_LINKS = 19
ODD_FLOWS = 20  # active ones with a weight, a cap or a share of their own
WANTED = 21  # columns that a dense matrix would need; 0: none is wanted
DENSE = 22  # 1 while `work_dense` has the flows
COLUMNS = 23  # of the matrix
STEPS = 24  # rows frozen by the last filling
LOWEST = 25  # the first of them that has changed since
UNFIT = 26  # 1: flows have started that do not fit into rows; CRAMPED: only for lack of slots
CROWD = 27  # active flows when the dense regime began
ROWS = 28  # of the table of flows: those of ended flows are cleared out at times
EDGES_USED = 29
UNFINISHED = 30
GROUPED = 31  # flows that another one, equal to them, stands for
TOLERANCE = 32  # ends that follow the first within this part of the time, times 1e9, wait
HELD_BACK = 33  # flows that waited, and the longest of it in picoseconds
LONGEST_HELD = 34
CLOCK_FIELDS = 40

BLOCK_BITS = 6  # active flows in blocks of 64, each with its first end
# What `work` does.
CRAMPED = -1
NO_EVENT = 0
ALL_EVENTS = 1
WATCHED_END = 2
MOST_COLUMNS = 2048
MOST_TRIES = 64  # flows that are compared with one for being equal
# The dense matrix holds sums of whole shares in two bytes.
MOST_EQUAL = 64.0
MOST_SHARES = 32_000.0
# Of a heap. Ids and counts that are passed on are int64 from the start here and below: Numba
# compiles a kernel once more for each literal and each width of integer it is called with.
TOP = np.int64(0)
RECENT = 256  # recently used instants of the waiting queue; a power of two


# The state is a handful of tables (numpy record arrays): one row holds what is used together.
FLOWS = [  # two cache lines
    ("level", "f8"),  # rate over weight
    ("weight", "f8"),
    ("cap", "f8"),  # bytes/s; inf where no cap can hold the flow back
    ("rate", "f8"),  # bytes/s
    ("first_hop", "i8"),  # the next flow's is where its hops end
    ("stopped_by", "i4"),  # the full link that holds it back, or -1: its own cap
    ("inside", "i4"),  # the last region that it was part of
    ("open_in", "i4"),  # the filling in which it still rises
    ("position", "i4"),  # among the active ones, or -1
    ("left", "f8"),  # bytes left at `since_ps`
    # The latest of its start and its dependencies' ends; later on, when `rate` last changed.
    ("since_ps", "i8"),
    ("volume", "i8"),
    ("startup_ps", "i8"),
    ("number", "i8"),  # what the flow is called outside
    ("pending", "i4"),  # dependencies that have not ended
    ("first_edge", "i4"),  # to the flows that wait for this one
    ("next_waiting", "i4"),  # the next flow of the same instant in the queue
    ("equal", "i4"),  # the next of the flows that are equal to this one and end with it, or -1
    ("watch", "i2"),
    ("odd", "i2"),  # 1: its weight, cap or a share is not the default
    # Of the dense matrix: the column of the link that holds it back. While it waits: head of the
    # instant's list, kept at the flow that opened it.
    ("row", "i4"),
    ("target", "f8"),  # the reading of the row's clock at which it ends
]
HOPS_OF_FLOWS = [  # one row a link of a route; the active ones of a link are doubly linked
    ("link", "i4"),
    ("flow", "i4"),
    ("share", "f8"),
    ("next", "i4"),
    ("prev", "i4"),
]
EDGES = [("flow", "i4"), ("next", "i4")]  # dependencies, listed by the flow that is waited for
LINKS = [
    ("free", "f8"),  # what its (frozen) flows leave, and what rounding lost of it
    ("free_low", "f8"),
    ("open_weight", "f8"),  # the part of `weight` that is not frozen
    ("weight", "f8"),  # sum of share times weight of its flows in the region
    ("first_hop", "i4"),
    ("open_count", "i4"),
    ("crowd", "i4"),  # its active flows
    ("touched", "i4"),  # the last region that it was part of
    ("left_in", "i4"),  # the last region before which a flow left it
    ("held", "i4"),  # flows outside of the region that it holds back
    ("stop_level", "f8"),  # the level at which it stopped flows inside; inf where it did not
    ("offer", "f8"),  # what the flows outside of the region leave, and what rounding lost of it
    ("offer_low", "f8"),
    ("capacity", "f8"),
    ("bytes", "f8"),  # carried by flows that have ended, times share
    ("changed", "i4"),  # column of the links that flows have left
    ("position", "i4"),  # among the busy links
    ("column", "i4"),  # of the dense matrix, or -1
    ("busy", "i4"),  # column of the busy links
    ("region", "i4"),  # column of the region's links
    ("spare", "i4"),
    ("room", "i8"),  # to two cache lines
]
LISTS = [  # columns of flow ids, and of what goes with them
    ("due_ps", "i8"),  # ends of the active flows at their present rates
    ("waiting_ps", "i8"),
    ("waiting", "i4"),
    ("active", "i4"),
    ("region", "i4"),
    ("batch", "i4"),
    ("reported", "i8"),  # numbers
]
LEVELS = [("level", "f8"), ("of", "i8")]  # a heap of links, and of flows with caps as -1 - flow
RECENT_INSTANTS = [("at_ps", "i8"), ("bucket", "i8")]
BLOCKS = [("first_ps", "i8"), ("dirty", "i8")]  # the first end of each block of active flows


class Engine(NamedTuple):
    """The tables of a simulation; ``ends`` holds the end of each flow by its number, else -1."""

    clock: I8
    flows: Table
    hops: Table
    edges: Table
    links: Table
    lists: Table
    levels: Table
    recent: Table
    blocks: Table
    ends: I8


@kernel
def _push_waiting(
    clock: I8, flows: Table, lists: Table, recent: Table, flow: Int, at_ps: Int
) -> None:
    """Queue a flow that enters the network at ``at_ps``; flows of one instant share a place."""
    slot = at_ps & (RECENT - 1)
    bucket = recent.bucket[slot]
    if bucket >= 0 and recent.at_ps[slot] == at_ps:
        flows.next_waiting[flow] = flows.row[bucket]
        flows.row[bucket] = flow
        return
    flows.next_waiting[flow] = -1
    flows.row[flow] = flow
    recent.at_ps[slot] = at_ps
    recent.bucket[slot] = flow
    time, heap = lists.waiting_ps, lists.waiting
    k = clock[WAITING]
    clock[WAITING] = k + 1
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
def _pop_waiting(clock: I8, lists: Table, recent: Table) -> Int:
    """Take the first instant off the waiting queue and return its bucket."""
    time, heap = lists.waiting_ps, lists.waiting
    bucket = heap[0]
    slot = time[0] & (RECENT - 1)
    if recent.bucket[slot] == bucket:
        recent.bucket[slot] = -1
    n = clock[WAITING] - 1
    clock[WAITING] = n
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
def _sink_id(ids: I4, k: Int, n: Int) -> None:
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
def _sort_ids(ids: I4, n: Int) -> None:
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
        _sink_id(ids, TOP, k)


@kernel
def _sink_level(levels: Table, k: Int, n: Int) -> None:
    """Sink place k in a heap whose lowest level is on top."""
    x, x_of = levels.level[k], levels.of[k]
    while True:
        child = 2 * k + 1
        if child >= n:
            break
        if child + 1 < n and levels.level[child + 1] < levels.level[child]:
            child += 1
        if levels.level[child] >= x:
            break
        levels.level[k] = levels.level[child]
        levels.of[k] = levels.of[child]
        k = child
    levels.level[k] = x
    levels.of[k] = x_of


@kernel
def _take_in(clock: I8, flows: Table, hops: Table, links: Table, lists: Table, flow: Int) -> None:
    """Take a flow and its links into the region; what it used is on offer there."""
    flows.inside[flow] = clock[REGION]
    lists.region[clock[REGION_FLOWS]] = flow
    clock[REGION_FLOWS] += 1
    if flows.stopped_by[flow] >= 0:
        links.held[flows.stopped_by[flow]] -= 1
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        link = hops.link[h]
        if links.touched[link] != clock[REGION]:
            links.touched[link] = clock[REGION]
            links.region[clock[REGION_LINKS]] = link
            clock[REGION_LINKS] += 1
            links.offer[link] = links.free[link]
            links.offer_low[link] = links.free_low[link]
        offer = links.offer[link]
        used = flows.rate[flow] * hops.share[h]
        more = offer + used
        part = more - offer
        links.offer_low[link] += (offer - (more - part)) + (used - part)
        links.offer[link] = more


@kernel
def _activate(
    clock: I8,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    blocks: Table,
    flow: Int,
    alone: bool,
) -> None:
    """Let a flow's bytes enter the network, and a region if it is not one of a crowd."""
    place = clock[ACTIVE]
    clock[ACTIVE] += 1
    flows.since_ps[flow] = clock[NOW]
    flows.position[flow] = place
    flows.row[flow] = -1
    lists.active[place] = flow
    lists.due_ps[place] = NEVER
    blocks.dirty[place >> BLOCK_BITS] = 1
    clock[ODD_FLOWS] += flows.odd[flow]
    clock[HOPS] += flows.first_hop[flow + 1] - flows.first_hop[flow]
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        link = hops.link[h]
        if links.crowd[link] == 0:
            links.position[link] = clock[BUSY_LINKS]
            links.busy[clock[BUSY_LINKS]] = link
            clock[BUSY_LINKS] += 1
            links.free[link] = links.capacity[link]
            links.free_low[link] = 0.0
        links.crowd[link] += 1
        after = links.first_hop[link]
        hops.next[h] = after
        hops.prev[h] = -1
        if after >= 0:
            hops.prev[after] = h
        links.first_hop[link] = h
    if alone:
        _take_in(clock, flows, hops, links, lists, flow)


@kernel
def _deactivate(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, blocks: Table, flow: Int
) -> None:
    """Take a flow out of the network."""
    clock[ACTIVE] -= 1
    place = flows.position[flow]
    last = lists.active[clock[ACTIVE]]
    lists.active[place] = last
    lists.due_ps[place] = lists.due_ps[clock[ACTIVE]]
    blocks.dirty[place >> BLOCK_BITS] = 1
    blocks.dirty[clock[ACTIVE] >> BLOCK_BITS] = 1
    flows.position[last] = place
    flows.position[flow] = -1
    clock[ODD_FLOWS] -= flows.odd[flow]
    clock[HOPS] -= flows.first_hop[flow + 1] - flows.first_hop[flow]
    if flows.stopped_by[flow] >= 0:
        links.held[flows.stopped_by[flow]] -= 1
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        link = hops.link[h]
        links.crowd[link] -= 1
        free = links.free[link]
        used = flows.rate[flow] * hops.share[h]
        more = free + used
        part = more - free
        links.free_low[link] += (free - (more - part)) + (used - part)
        links.free[link] = more
        if links.left_in[link] != clock[REGION]:
            links.left_in[link] = clock[REGION]
            links.changed[clock[CHANGED_LINKS]] = link
            clock[CHANGED_LINKS] += 1
        before, after = hops.prev[h], hops.next[h]
        if before >= 0:
            hops.next[before] = after
        else:
            links.first_hop[link] = after
        if after >= 0:
            hops.prev[after] = before
        if links.crowd[link] == 0:
            clock[BUSY_LINKS] -= 1
            moved = links.busy[clock[BUSY_LINKS]]
            links.busy[links.position[link]] = moved
            links.position[moved] = links.position[link]


@kernel
def _deactivate_all(clock: I8, flows: Table, links: Table, lists: Table) -> None:
    """Take all flows out of the network."""
    for k in range(clock[ACTIVE]):
        flows.position[lists.active[k]] = -1
    for k in range(clock[BUSY_LINKS]):
        link = links.busy[k]
        links.crowd[link] = 0
        links.held[link] = 0
        links.first_hop[link] = -1
    clock[ACTIVE] = 0
    clock[BUSY_LINKS] = 0
    clock[HOPS] = 0
    clock[ODD_FLOWS] = 0


@kernel
def _finish(
    clock: I8,
    flows: Table,
    hops: Table,
    edges: Table,
    links: Table,
    lists: Table,
    recent: Table,
    ends: I8,
    flow: Int,
) -> None:
    """End a flow and its equals now, and queue those that waited for one of them alone."""
    now = clock[NOW]
    size = float(flows.volume[flow])
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        links.bytes[hops.link[h]] += size * hops.share[h]
    while flow >= 0:
        ends[flows.number[flow]] = now
        clock[EVENTS] += 1
        clock[UNFINISHED] -= 1
        if flows.watch[flow] != 0:
            lists.reported[clock[REPORTED]] = flows.number[flow]
            clock[REPORTED] += 1
        edge = flows.first_edge[flow]
        while edge >= 0:
            waiter = np.int64(edges.flow[edge])
            flows.pending[waiter] -= 1
            flows.since_ps[waiter] = max(flows.since_ps[waiter], now)
            if flows.pending[waiter] == 0:
                at_ps = flows.since_ps[waiter] + flows.startup_ps[waiter]
                _push_waiting(clock, flows, lists, recent, waiter, at_ps)
            edge = edges.next[edge]
        flow = np.int64(flows.equal[flow])


@kernel
def _set_rate(
    clock: I8, flows: Table, links: Table, lists: Table, blocks: Table, flow: Int
) -> None:
    """Let a flow go on at its level from now on."""
    rate = flows.cap[flow]
    if flows.stopped_by[flow] >= 0:
        rate = flows.level[flow] * flows.weight[flow]
        links.held[flows.stopped_by[flow]] += 1
    if rate == flows.rate[flow]:
        return
    now = clock[NOW]
    elapsed = float(now - flows.since_ps[flow])
    left = flows.left[flow] - flows.rate[flow] * elapsed / PS_PER_S
    if left < 0.0:
        left = 0.0
    flows.left[flow] = left
    flows.since_ps[flow] = now
    flows.rate[flow] = rate
    duration = left / rate * PS_PER_S
    place = flows.position[flow]
    blocks.dirty[place >> BLOCK_BITS] = 1
    lists.due_ps[place] = now + int(duration + ROUND_UP) if duration < 4e18 else NEVER


@kernel
def _freeze(flows: Table, hops: Table, links: Table, flow: Int, level: float, by: Int) -> None:
    """Stop a flow at a level; take its rate out of its links in doubled precision."""
    flows.open_in[flow] = 0
    flows.level[flow] = level
    flows.stopped_by[flow] = by
    weight = flows.weight[flow]
    rate = flows.cap[flow]
    if by >= 0:
        rate = level * weight
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
def _open_weight(flows: Table, hops: Table, links: Table, link: Int, epoch: Int) -> float:
    """Return the sum of share times weight of a link's flows that still rise."""
    total = 0.0
    h = links.first_hop[link]
    while h >= 0:
        flow = hops.flow[h]
        if flows.open_in[flow] == epoch:
            total += hops.share[h] * flows.weight[flow]
        h = hops.next[h]
    return total


@kernel
def _open(
    clock: I8,
    flows: Table,
    hops: Table,
    links: Table,
    levels: Table,
    ids: I4,
    n: Int,
    over: I4,
    m: Int,
) -> Int:
    """Open n flows over m links; return how many levels (links, caps) wait in the heap."""
    epoch = clock[EPOCH]
    for k in range(m):
        link = over[k]
        links.free[link] = links.offer[link]
        links.free_low[link] = links.offer_low[link]
        links.weight[link] = 0.0
        links.open_count[link] = 0
        links.stop_level[link] = np.inf
    waiting = np.int64(0)
    for k in range(n):
        flow = ids[k]
        weight = flows.weight[flow]
        flows.open_in[flow] = epoch
        for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
            links.weight[hops.link[h]] += hops.share[h] * weight
            links.open_count[hops.link[h]] += 1
        if flows.cap[flow] < np.inf:
            levels.level[waiting] = flows.cap[flow] / weight
            levels.of[waiting] = -1 - flow
            waiting += 1
    for k in range(m):
        link = over[k]
        if links.open_count[link] > 0:
            links.open_weight[link] = links.weight[link]
            levels.level[waiting] = max(0.0, links.offer[link]) / links.weight[link]
            levels.of[waiting] = link
            waiting += 1
    for k in range(waiting // 2 - 1, -1, -1):
        _sink_level(levels, k, waiting)
    return waiting


@kernel
def _fill(
    clock: I8,
    flows: Table,
    hops: Table,
    links: Table,
    levels: Table,
    ids: I4,
    n: Int,
    over: I4,
    m: Int,
) -> None:
    """Give n flows their weighted max-min levels on what the others leave of their m links.

    A link's level, its free capacity over its open weight, only rises while others freeze, so the
    levels in the heap are lower bounds: the top one is looked at again before it is believed.
    """
    clock[EPOCH] += 1
    clock[TOUCHED] += n
    epoch = clock[EPOCH]
    waiting = _open(clock, flows, hops, links, levels, ids, n, over, m)
    last = 0.0
    rising = n
    while rising > 0:
        of = levels.of[0]
        if of < 0:
            if flows.open_in[-1 - of] == epoch:
                last = max(last, levels.level[0])
                rising -= 1
                _freeze(flows, hops, links, -1 - of, last, np.int64(-1))
        elif links.open_count[of] > 0:
            if links.open_weight[of] < FEW * links.weight[of]:
                links.open_weight[of] = _open_weight(flows, hops, links, of, epoch)
            level = (links.free[of] + links.free_low[of]) / links.open_weight[of]
            if level <= last * (1.0 + SAME_LEVEL):
                level = last
            if level > levels.level[0] * (1.0 + SAME_LEVEL):
                levels.level[0] = level
                _sink_level(levels, TOP, waiting)
                continue
            last = level
            links.stop_level[of] = level
            h = links.first_hop[of]
            while h >= 0:
                flow = np.int64(hops.flow[h])
                if flows.open_in[flow] == epoch:
                    rising -= 1
                    _freeze(flows, hops, links, flow, level, of)
                h = hops.next[h]
        waiting -= 1
        levels.level[0] = levels.level[waiting]
        levels.of[0] = levels.of[waiting]
        if waiting > 0:
            _sink_level(levels, TOP, waiting)


@kernel
def _take_in_disturbed(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, link: Int
) -> Int:
    """Take in the flows outside that a link's new state contradicts.

    Those are flows larger than ones that this link stops inside, and flows that it held back
    itself and now does not: it is not full any more, or they are not among its largest.
    Return how many flows were looked at.
    """
    if links.held[link] == 0 and links.stop_level[link] == np.inf:
        return 0
    region = clock[REGION]
    most_inside, most_outside, held = 0.0, 0.0, -1.0
    h = links.first_hop[link]
    while h >= 0:
        flow = hops.flow[h]
        level = flows.level[flow]
        if flows.inside[flow] == region:
            most_inside = max(most_inside, level)
        else:
            most_outside = max(most_outside, level)
            if flows.stopped_by[flow] == link:
                held = level
        h = hops.next[h]
    above = links.stop_level[link] * (1.0 + SAME_LEVEL)
    free = links.free[link] + links.free_low[link]
    loose = held >= 0.0 and (
        free > SAME_LEVEL * links.capacity[link] or most_inside > held * (1.0 + SAME_LEVEL)
    )
    if not loose and most_outside <= above:
        return int(links.crowd[link])
    h = links.first_hop[link]
    while h >= 0:
        flow = hops.flow[h]
        if flows.inside[flow] != region and (
            flows.level[flow] > above or (loose and flows.stopped_by[flow] == link)
        ):
            _take_in(clock, flows, hops, links, lists, flow)
        h = hops.next[h]
    return 2 * int(links.crowd[link])


@kernel
def _take_in_held(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, link: Int
) -> None:
    """Take in the flows outside that a link holds back."""
    h = links.first_hop[link]
    while h >= 0:
        flow = hops.flow[h]
        if flows.stopped_by[flow] == link and flows.inside[flow] != clock[REGION]:
            _take_in(clock, flows, hops, links, lists, flow)
        h = hops.next[h]


@kernel
def _fill_region(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> bool:
    """Re-allocate only where flows came or went; give up (False) where that grows too large.

    Start from these and the flows that their links hold back, fill that region against what the
    others leave, take in the flows outside that it disturbs, and repeat until there are none.
    Then every flow has a full link, or its cap, on which it is among the largest: max-min.
    """
    for k in range(clock[CHANGED_LINKS]):
        if links.held[links.changed[k]] > 0:
            _take_in_held(clock, flows, hops, links, lists, links.changed[k])
    for k in range(clock[REGION_LINKS]):
        if links.held[links.region[k]] > 0:
            _take_in_held(clock, flows, hops, links, lists, links.region[k])
    budget = 2 * clock[HOPS]
    size = -1
    while size != clock[REGION_FLOWS]:
        size, m = clock[REGION_FLOWS], clock[REGION_LINKS]
        budget -= 8 * size
        if budget < 0:
            return False
        _fill(clock, flows, hops, links, levels, lists.region, size, links.region, m)
        for k in range(m):
            budget -= _take_in_disturbed(clock, flows, hops, links, lists, links.region[k])
    for k in range(size):
        _set_rate(clock, flows, links, lists, blocks, lists.region[k])
    return True


@kernel
def _fill_all(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> None:
    """Re-allocate all active flows."""
    n, m = clock[ACTIVE], clock[BUSY_LINKS]
    for k in range(m):
        link = links.busy[k]
        links.offer[link] = links.capacity[link]
        links.offer_low[link] = 0.0
        links.held[link] = 0
    _fill(clock, flows, hops, links, levels, lists.active, n, links.busy, m)
    for k in range(n):
        _set_rate(clock, flows, links, lists, blocks, lists.active[k])


@kernel
def _want_dense(clock: I8, hops: Table, links: Table) -> None:
    """Ask for the tables of the dense regime where all active flows are fit for it."""
    columns = len(links) - 1
    if columns > MOST_COLUMNS:
        columns = clock[BUSY_LINKS]
    for k in range(clock[BUSY_LINKS]):
        if links.crowd[links.busy[k]] > MOST_SHARES:
            return
        total = 0.0
        h = links.first_hop[links.busy[k]]
        while h >= 0:
            total += hops.share[h]
            h = hops.next[h]
        if total > MOST_SHARES:
            return
    if clock[ODD_FLOWS] == 0 and columns <= MOST_COLUMNS:
        clock[WANTED] = columns


@kernel
def _reallocate(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> None:
    """Allocate rates anew, in a region where that promises to be small; find the next finish."""
    clock[REALLOCATIONS] += 1
    clock[STALE] = 0
    if clock[WAIT] > 0 or 4 * clock[REGION_FLOWS] > clock[ACTIVE]:
        clock[WAIT] = max(0, clock[WAIT] - 1)
        _fill_all(clock, flows, hops, links, lists, levels, blocks)
    elif _fill_region(clock, flows, hops, links, lists, levels, blocks):
        clock[REGIONS] += 1
        clock[MISSES] = 0
    else:
        clock[MISSES] += 1
        clock[WAIT] = 1 << max(1, min(clock[MISSES], 5))
        _fill_all(clock, flows, hops, links, lists, levels, blocks)
        if clock[MISSES] > 2:
            _want_dense(clock, hops, links)
    clock[REGION] += 1
    clock[REGION_FLOWS] = 0
    clock[REGION_LINKS] = 0
    clock[CHANGED_LINKS] = 0
    _find_next_end(clock, lists, blocks)


@kernel
def _find_next_end(clock: I8, lists: Table, blocks: Table) -> None:
    """Find the first end of all active flows at their present rates."""
    n = clock[ACTIVE]
    soonest = NEVER
    for block in range((n + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS):
        if blocks.dirty[block] != 0:
            blocks.dirty[block] = 0
            first = NEVER
            for k in range(block << BLOCK_BITS, min(n, (block + 1) << BLOCK_BITS)):
                first = min(first, lists.due_ps[k])
            blocks.first_ps[block] = first
        soonest = min(soonest, blocks.first_ps[block])
    clock[NEXT_END] = soonest


@kernel
def _latest_of(clock: I8, lists: Table) -> Int:
    """Return until when ends wait for the last of them, where a tolerance is given."""
    first = clock[NEXT_END]
    latest = first + int(float(first) * (float(clock[TOLERANCE]) * 1e-9))
    if clock[WAITING] > 0:  # what starts meanwhile starts at its own time
        latest = max(first, min(latest, lists.waiting_ps[0]))
    return int(latest)


@kernel
def _hold_back(clock: I8, lists: Table, blocks: Table) -> Int:
    """Return when the flows that end next may end together: with the last of them."""
    latest, last, active = _latest_of(clock, lists), clock[NEXT_END], clock[ACTIVE]
    for block in range((active + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS):
        if blocks.first_ps[block] <= latest:
            for k in range(block << BLOCK_BITS, min(active, (block + 1) << BLOCK_BITS)):
                if last < lists.due_ps[k] <= latest:
                    last = lists.due_ps[k]
    return int(last)


@kernel
def _note_held(clock: I8, end: Int) -> None:
    """Count a flow that would have ended before now."""
    if end < clock[NOW]:
        clock[HELD_BACK] += 1
        clock[LONGEST_HELD] = max(clock[LONGEST_HELD], clock[NOW] - end)


@kernel
def _end_due(
    clock: I8,
    flows: Table,
    hops: Table,
    edges: Table,
    links: Table,
    lists: Table,
    recent: Table,
    blocks: Table,
    ends: I8,
) -> None:
    """End the active flows whose time has come."""
    now, active = clock[NOW], clock[ACTIVE]
    n = np.int64(0)
    for block in range((active + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS):
        if blocks.first_ps[block] <= now:
            for k in range(block << BLOCK_BITS, min(active, (block + 1) << BLOCK_BITS)):
                if lists.due_ps[k] <= now:
                    _note_held(clock, lists.due_ps[k])
                    lists.batch[n] = lists.active[k]
                    n += 1
    _sort_ids(lists.batch, n)
    if n == active:
        _deactivate_all(clock, flows, links, lists)
    for k in range(n):
        if n < active:
            _deactivate(clock, flows, hops, links, lists, blocks, lists.batch[k])
        _finish(clock, flows, hops, edges, links, lists, recent, ends, np.int64(lists.batch[k]))


@kernel
def _start_due(
    clock: I8,
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
    now = clock[NOW]
    entered = np.int64(0)
    while clock[WAITING] > 0 and lists.waiting_ps[0] <= now:
        n = np.int64(0)
        while clock[WAITING] > 0 and lists.waiting_ps[0] <= now:
            flow = flows.row[_pop_waiting(clock, lists, recent)]
            while flow >= 0:
                lists.batch[entered + n] = flow
                n += 1
                flow = flows.next_waiting[flow]
        stay = entered
        for k in range(entered, entered + n):
            flow = np.int64(lists.batch[k])
            routed = flows.first_hop[flow] < flows.first_hop[flow + 1]
            if flows.volume[flow] == 0 or not (routed or flows.cap[flow] < np.inf):
                _finish(clock, flows, hops, edges, links, lists, recent, ends, flow)
            else:
                lists.batch[stay] = flow
                stay += 1
        entered = stay
    _sort_ids(lists.batch, entered)
    # So many that all are allocated anew: no region is needed.
    alone = 4 * entered <= clock[ACTIVE] + entered
    if not alone:
        clock[WAIT] = max(1, clock[WAIT])
    for k in range(entered):
        flow = lists.batch[k]
        while flow >= 0:
            clock[EVENTS] += 1
            flow = flows.equal[flow]
        _activate(clock, flows, hops, links, lists, blocks, lists.batch[k], alone)
    return int(entered)


@kernel
def _next_event(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> Int:
    """Return the time of the next event, or NEVER.

    Flows that start at an instant already begun join it: allocation waits until all have.
    """
    if clock[WAITING] > 0 and lists.waiting_ps[0] <= clock[NOW]:
        return int(clock[NOW])
    if clock[STALE] != 0:
        _reallocate(clock, flows, hops, links, lists, levels, blocks)
    first = clock[NEXT_END]
    if clock[TOLERANCE] > 0 and first < NEVER:
        first = _hold_back(clock, lists, blocks)
    if clock[WAITING] > 0:
        first = min(first, lists.waiting_ps[0])
    return int(first)


@kernel
def work(engine: tuple[Any, ...], limit_ps: Int, until: Int) -> Int:
    """Work off events up to ``limit_ps`` and return the time of the next, or NEVER.

    ``until`` is NO_EVENT (only look), ALL_EVENTS, or WATCHED_END: stop at the first instant at
    which watched flows end. Where the clock says WANTED, `work_dense` is to go on.
    """
    clock, flows, hops, edges, links, lists, levels, recent, blocks, ends = engine
    clock[REPORTED] = 0
    while True:
        due = clock[WAITING] > 0 and lists.waiting_ps[0] <= clock[NOW]
        if clock[STALE] != 0 and clock[NOW] == limit_ps and not due and until != NO_EVENT:
            return int(limit_ps)  # more flows may be posted at this instant: allocate later
        now = _next_event(clock, flows, hops, links, lists, levels, blocks)
        if now > limit_ps or now == NEVER or until == NO_EVENT or clock[WANTED] > 0:
            return now
        clock[NOW] = now
        clock[STALE] = 1
        if clock[NEXT_END] <= now:
            clock[NEXT_END] = NEVER
            _end_due(clock, flows, hops, edges, links, lists, recent, blocks, ends)
        _start_due(clock, flows, hops, edges, links, lists, recent, blocks, ends)
        if until == WATCHED_END and clock[REPORTED] > 0:
            return now
        clock[REPORTED] = 0


@kernel
def _row_of(clock: I8, flows: Table, number: Int) -> Int:
    """Return the row of a flow that has not ended: rows stand in the order of numbers."""
    below, above = np.int64(0), np.int64(clock[ROWS])
    guess = number - (clock[SIZE] - clock[ROWS])  # where it stands if none after it was cleared
    if guess >= 0 and flows.number[guess] == number:
        return int(guess)
    while above - below > 1:
        middle = (below + above) >> 1
        if flows.number[middle] <= number:
            below = middle
        else:
            above = middle
    return int(below)


@kernel
def _are_equal(flows: Table, hops: Table, one: Int, other: Int) -> bool:
    """Tell whether two flows have the same start, bytes, weight, cap, route and shares."""
    first, place = flows.first_hop[one], flows.first_hop[other]
    n = flows.first_hop[one + 1] - first
    if (
        flows.volume[one] != flows.volume[other]
        or flows.since_ps[one] != flows.since_ps[other]
        or flows.startup_ps[one] != flows.startup_ps[other]
        or flows.weight[one] != flows.weight[other]
        or flows.cap[one] != flows.cap[other]
        or flows.first_hop[other + 1] - place != n
    ):
        return False
    for k in range(n):
        if hops.link[first + k] != hops.link[place + k]:
            return False
        if hops.share[first + k] != hops.share[place + k]:
            return False
    return True


@kernel
def _doubtful(
    start_ps: I8,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    dep_ptr: I8,
    dep: I8,
    key: NDArray[np.uint32],
) -> NDArray[np.bool_]:
    """Write a key of each flow's columns; tell whose key may stand there twice."""
    n, bits = len(key), 6
    while (1 << bits) < 4 * n:
        bits += 1
    mask = (1 << bits) - 1
    times = np.zeros(1 << bits, np.int8)
    for k in range(n):
        word = nbytes[min(k, len(nbytes) - 1)] ^ (start_ps[min(k, len(start_ps) - 1)] << 3)
        word = (word ^ (word >> 32)) & 0xFFFFFFFF
        for h in range(route_ptr[k], route_ptr[k + 1]):
            word = ((word << 5) ^ (word >> 11) ^ route_link[h]) * 40503 & 0xFFFFFFFF
        if len(dep) > 0:
            for j in range(dep_ptr[k], dep_ptr[k + 1]):
                word = ((word << 5) ^ (word >> 11) ^ dep[j]) * 40503 & 0xFFFFFFFF
        word ^= word >> 15
        key[k] = word
        times[word & mask] = min(2, times[word & mask] + 1)
    doubtful = np.zeros(n, np.bool_)
    for k in range(n):
        doubtful[k] = times[int(key[k]) & mask] > 1
    return doubtful


@kernel
def _group(
    clock: I8,
    flows: Table,
    hops: Table,
    start_ps: I8,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    dep_ptr: I8,
    dep: I8,
) -> None:
    """Let the first of equal flows of a post stand for all: its shares are multiplied by them.

    The others keep their rows, for those who wait for them, but have nothing to do.
    """
    first, n = clock[ROWS], len(route_ptr) - 1
    key = np.zeros(n, np.uint32)
    doubtful = _doubtful(start_ps, nbytes, route_ptr, route_link, dep_ptr, dep, key)
    candidates, bits = 0, 4
    for k in range(n):
        candidates += 1 if doubtful[k] else 0
    if candidates == 0:
        return
    while (1 << bits) < 2 * candidates:
        bits += 1
    mask = (1 << bits) - 1
    table = np.full(1 << bits, -1, np.int32)
    last = np.zeros(n, np.int32)  # of the equals so far
    count = np.zeros(n, np.int32)
    for k in range(n):
        flow = first + k
        if not doubtful[k] or flows.first_hop[flow] == flows.first_hop[flow + 1]:
            continue
        slot, tries = (int(key[k]) >> 3) & mask, 0
        while table[slot] >= 0 and tries < MOST_TRIES:
            tries += 1
            other = np.int64(table[slot])
            alike = key[other] == key[k] and _are_equal(flows, hops, first + other, flow)
            if len(dep) > 0 and alike:
                waits = dep_ptr[k + 1] - dep_ptr[k]
                alike = dep_ptr[other + 1] - dep_ptr[other] == waits
                for j in range(waits):
                    alike = alike and dep[dep_ptr[other] + j] == dep[dep_ptr[k] + j]
            if alike:
                flows.equal[first + last[other]] = flow
                last[other] = k
                count[other] += 1
                count[k] = -1
                clock[GROUPED] += 1
                break
            slot = (slot + 1) & mask
        if count[k] == 0 and table[slot] < 0:
            table[slot] = k
            last[k] = k
    for k in range(n):
        if count[k] > 0:
            for h in range(flows.first_hop[first + k], flows.first_hop[first + k + 1]):
                hops.share[h] *= float(count[k] + 1)
        elif count[k] < 0:
            flows.pending[first + k] = -1


@kernel
def _wait_for(
    clock: I8, flows: Table, edges: Table, ends: I8, flow: Int, dep: I8, start: Int, end: Int
) -> None:
    """Let a flow wait for ``dep[start:end]``, numbers of flows."""
    for j in range(start, end):
        if ends[dep[j]] >= 0:
            flows.since_ps[flow] = max(flows.since_ps[flow], ends[dep[j]])
            continue
        before = _row_of(clock, flows, dep[j])
        edge = clock[EDGES_USED]
        clock[EDGES_USED] = edge + 1
        edges.flow[edge] = flow
        edges.next[edge] = flows.first_edge[before]
        flows.first_edge[before] = edge
        flows.pending[flow] += 1


@kernel
def _write(
    clock: I8,
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
    watch: NDArray[np.bool_],
) -> None:
    """Write the columns of a post into the tables, behind the others."""
    first, n, hop = clock[ROWS], len(route_ptr) - 1, flows.first_hop[clock[ROWS]]
    for k in range(n):
        flow = first + k
        flows.rate[flow] = 0.0
        flows.weight[flow] = weight[min(k, len(weight) - 1)]
        flows.cap[flow] = rate_cap[min(k, len(rate_cap) - 1)]
        flows.volume[flow] = nbytes[min(k, len(nbytes) - 1)]
        flows.left[flow] = float(flows.volume[flow])
        flows.since_ps[flow] = start_ps[min(k, len(start_ps) - 1)]
        flows.startup_ps[flow] = startup_ps[min(k, len(startup_ps) - 1)]
        flows.watch[flow] = 1 if watch[min(k, len(watch) - 1)] else 0
        flows.number[flow] = clock[SIZE] + k
        flows.first_hop[flow + 1] = hop + route_ptr[k + 1]
        flows.pending[flow] = 0
        flows.first_edge[flow] = -1
        flows.equal[flow] = -1
        flows.row[flow] = -1
        flows.next_waiting[flow] = -1
        flows.position[flow] = -1
        flows.stopped_by[flow] = -1
        flows.inside[flow] = 0
        flows.open_in[flow] = 0
        flows.odd[flow] = 0
        for h in range(route_ptr[k], route_ptr[k + 1]):
            hops.link[hop + h] = route_link[h]
            hops.flow[hop + h] = flow
            hops.next[hop + h] = -1
            hops.prev[hop + h] = -1
            hops.share[hop + h] = route_share[min(h, len(route_share) - 1)]


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
    watch: NDArray[np.bool_],
) -> None:
    """Add the flows of a post that was checked; a column of one row stands for all."""
    clock, flows, hops, edges, links, lists = engine[:6]
    recent, ends = engine[7], engine[9]
    first, n = clock[ROWS], len(route_ptr) - 1
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
        watch,
    )
    if n > 1:
        _group(clock, flows, hops, start_ps, nbytes, route_ptr, route_link, dep_ptr, dep)
    for k in range(n):
        ends[clock[SIZE] + k] = -1
    clock[ROWS] += n
    clock[SIZE] += n
    clock[UNFINISHED] += n
    for k in range(n):
        flow = first + k
        if flows.pending[flow] < 0:  # another one stands for it
            continue
        if len(dep) > 0:
            _wait_for(clock, flows, edges, ends, flow, dep, dep_ptr[k], dep_ptr[k + 1])
        if flows.pending[flow] == 0:
            at_ps = flows.since_ps[flow] + flows.startup_ps[flow]
            _push_waiting(clock, flows, lists, recent, flow, at_ps)
        for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
            share = hops.share[h]
            if flows.cap[flow] * share >= links.capacity[hops.link[h]]:
                flows.cap[flow] = np.inf
            if not (share <= MOST_EQUAL and share == float(int(share))):
                flows.odd[flow] = 1
        if flows.weight[flow] != 1.0 or flows.cap[flow] < np.inf:
            flows.odd[flow] = 1


@kernel
def clear_ended(engine: tuple[Any, ...]) -> None:
    """Give the rows of ended flows free: those of the others close up, in the same order."""
    clock, flows, hops, edges, links, lists, _, recent, _, ends = engine
    rows = clock[ROWS]
    row_now = np.full(rows + 1, -1, np.int32)
    hop_now = np.full(flows.first_hop[rows] + 1, -1, np.int32)
    edge_flow, edge_next = edges.flow.copy(), edges.next.copy()
    kept, hop, edge = np.int64(0), np.int64(0), np.int64(0)
    for row in range(rows):
        if ends[flows.number[row]] < 0:
            row_now[row] = kept
            kept += 1
    kept = np.int64(0)
    for row in range(rows):
        if row_now[row] < 0:
            continue
        start, end = flows.first_hop[row], flows.first_hop[row + 1]
        flows[kept] = flows[row]
        flows.first_hop[kept] = hop
        for h in range(start, end):
            hops[hop] = hops[h]
            hops.flow[hop] = kept
            hop_now[h] = hop
            hop += 1
        waits = flows.first_edge[kept]
        flows.first_edge[kept] = -1
        while waits >= 0:  # listed the other way round from here on: nothing hangs on it
            edges.flow[edge] = row_now[edge_flow[waits]]
            edges.next[edge] = flows.first_edge[kept]
            flows.first_edge[kept] = edge
            edge += 1
            waits = edge_next[waits]
        flows.equal[kept] = row_now[flows.equal[kept]]
        flows.next_waiting[kept] = row_now[flows.next_waiting[kept]]
        if flows.position[kept] < 0:
            flows.row[kept] = row_now[flows.row[kept]]
        kept += 1
    flows.first_hop[kept] = hop
    for h in range(hop):
        hops.next[h] = hop_now[hops.next[h]]
        hops.prev[h] = hop_now[hops.prev[h]]
    for k in range(len(links)):
        links.first_hop[k] = hop_now[links.first_hop[k]]
    for k in range(clock[ACTIVE]):
        lists.active[k] = row_now[lists.active[k]]
    for k in range(clock[WAITING]):
        lists.waiting[k] = row_now[lists.waiting[k]]
    for k in range(clock[REGION_FLOWS]):
        lists.region[k] = row_now[lists.region[k]]
    for k in range(len(recent)):
        recent.bucket[k] = row_now[recent.bucket[k]]
    clock[ROWS] = kept
    clock[EDGES_USED] = edge


# The dense regime. Flows of one bottleneck are a row: they share a clock, the bytes that each of
# them has received so far, and a flow ends at a fixed reading of it. The matrix counts the flows
# of each row on each link, so that filling freezes a row by one operation on all columns.
FREE = 0  # rows of `reals`, a column a link
OPEN = 1
SLACK = 2
LEVEL = 3
NEW_LEVEL = 4
SERVED = 5  # the row's clock at `SINCE`, and what rounding lost of it
SERVED_LOW = 6
TARGET = 7  # of the row's first flow to end
REALS = 8
LINK = 0  # rows of `whole`
ORDER = 1  # the rows in the order in which they froze
BEFORE = 2  # the same of the last filling
PLACE = 3  # of a row in that order
SINCE = 4
END = 5
FIRST = 6  # the row's first flow to end, or -1: to be looked for
MOVED = 7  # 1: flows have come or gone
FROZEN = 8  # flows frozen before each step
MEMBERS = 9  # its flows
SLOT = 10  # the link's first slot, how many are used, and where those of the next begin
USED = 11
SLOT_END = 12
WHOLE = 13
SPARE_SLOTS = 16  # of a link, for flows that start
LOOK_AHEAD = 8  # rows of the last order that are compared for the next place
STRIDE = 16  # steps between snapshots of FREE and OPEN
UNPLACED = 1 << 30


class Dense(NamedTuple):
    """The tables of the dense regime."""

    matrix: NDArray[np.int16]
    reals: F8
    whole: I8
    free: F8  # snapshots
    open: F8
    slot_hop: I4  # a slot for each flow on each link, those of a link side by side
    slot_row: I4  # the row that the flow is in
    slot_target: F8  # its target, right in the slot on the link that holds it back
    hop_slot: I4
    hop_column: I4


@kernel
def _is_lower(free: F8, rising: F8, slack: F8, level: float) -> Int:
    """Return how many links would be full below a level."""
    lower = 0
    for k in range(len(free)):
        lower += 1 if free[k] + slack[k] < level * rising[k] else 0
    return lower


@kernel
def _lowest(free: F8, rising: F8) -> Int:
    """Return the column with the lowest level; -1 where nothing rises any more."""
    best = -1
    for k in range(len(free)):
        if rising[k] > 0.0 and (best < 0 or free[k] * rising[best] < free[best] * rising[k]):
            best = k
    return best


@kernel
def _freeze_row(row: NDArray[np.int16], free: F8, rising: F8, level: float) -> None:
    """Take a row at a level out of all columns."""
    for k in range(len(free)):
        count = float(row[k])
        free[k] -= level * count
        rising[k] -= count


@kernel
def _freeze_flows(
    flows: Table, hops: Table, dense: Any, row: Int, free: F8, rising: F8, level: float
) -> None:
    """Do what `_freeze_row` does, flow by flow."""
    whole, slot_hop, slot_row, hop_column = dense[2], dense[5], dense[6], dense[9]
    for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
        if slot_row[slot] == row:
            flow = hops.flow[slot_hop[slot]]
            for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
                free[hop_column[h]] -= level * hops.share[h]
                rising[hop_column[h]] -= hops.share[h]


@kernel
def _copy(source: F8, target: F8) -> None:
    """Copy a row."""
    for k in range(len(source)):
        target[k] = source[k]


@kernel
def _read(reals: F8, whole: I8, row: Int, now: Int) -> float:
    """Return what a row's clock shows now."""
    elapsed = float(now - whole[SINCE, row])
    return float(
        reals[SERVED, row] + (reals[SERVED_LOW, row] + reals[LEVEL, row] * elapsed / PS_PER_S)
    )


@kernel
def _take_slots(flows: Table, hops: Table, links: Table, dense: Any, flow: Int) -> None:
    """Give a flow a slot on each of its links."""
    whole, slot_hop, slot_row, hop_slot, hop_column = (
        dense[2],
        dense[5],
        dense[6],
        dense[8],
        dense[9],
    )
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        column = links.column[hops.link[h]]
        slot = whole[SLOT, column] + whole[USED, column]
        whole[USED, column] += 1
        slot_hop[slot] = h
        slot_row[slot] = -1
        hop_slot[h] = slot
        hop_column[h] = column


@kernel
def _give_slots_back(flows: Table, dense: Any, flow: Int) -> None:
    """Let the last slot of each of a flow's links take the place of its own."""
    whole, slot_hop, slot_row, slot_target, hop_slot, hop_column = (
        dense[2],
        dense[5],
        dense[6],
        dense[7],
        dense[8],
        dense[9],
    )
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        column, slot = hop_column[h], hop_slot[h]
        whole[USED, column] -= 1
        last = whole[SLOT, column] + whole[USED, column]
        slot_hop[slot] = slot_hop[last]
        slot_row[slot] = slot_row[last]
        slot_target[slot] = slot_target[last]
        hop_slot[slot_hop[slot]] = slot


@kernel
def _join_row(
    clock: I8, flows: Table, hops: Table, dense: Any, flow: Int, row: Int, left: float
) -> None:
    """Put a flow with some bytes left into a row."""
    matrix, reals, whole, _, _, _, slot_row, slot_target, hop_slot, hop_column = dense
    if whole[MEMBERS, row] == 0:
        reals[SERVED, row] = 0.0
        reals[SERVED_LOW, row] = 0.0
        reals[LEVEL, row] = 0.0
        reals[TARGET, row] = np.inf
        whole[FIRST, row] = -1
        whole[SINCE, row] = clock[NOW]
    target = _read(reals, whole, row, clock[NOW]) + left
    flows.row[flow] = row
    flows.target[flow] = target
    whole[MOVED, row] = 1
    whole[MEMBERS, row] += 1
    if target < reals[TARGET, row]:
        reals[TARGET, row] = target
        whole[FIRST, row] = flow
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        matrix[row, hop_column[h]] += hops.share[h]
        slot_row[hop_slot[h]] = row
        if hop_column[h] == row:
            slot_target[hop_slot[h]] = target


@kernel
def _leave_row(flows: Table, hops: Table, dense: Any, flow: Int) -> None:
    """Take a flow out of its row."""
    matrix, reals, whole, hop_column = dense[0], dense[1], dense[2], dense[9]
    row = np.int64(flows.row[flow])
    whole[MOVED, row] = 1
    whole[MEMBERS, row] -= 1
    if whole[FIRST, row] == flow:
        whole[FIRST, row] = -1
        reals[TARGET, row] = -1.0  # until it is looked for, nobody is before it
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        matrix[row, hop_column[h]] -= hops.share[h]


@kernel
def _gather(clock: I8, flows: Table, hops: Table, dense: Any, column: Int) -> None:
    """Move the rising flows of a link that are in other rows to its own."""
    reals, whole, slot_hop, slot_row = dense[1], dense[2], dense[5], dense[6]
    for slot in range(whole[SLOT, column], whole[SLOT, column] + whole[USED, column]):
        row = np.int64(slot_row[slot])
        if row != column and whole[PLACE, row] == UNPLACED:
            clock[TOUCHED] += 1
            flow = np.int64(hops.flow[slot_hop[slot]])
            left = flows.target[flow] - _read(reals, whole, row, clock[NOW])
            _leave_row(flows, hops, dense, flow)
            _join_row(clock, flows, hops, dense, flow, column, left)


@kernel
def _next_row(reals: F8, whole: I8, at: Int, ahead: Int) -> Int:
    """Return the lowest of the next few rows of the last filling's order; -1 if there is none."""
    column, seen = -1, 0
    for k in range(at, ahead):
        other = whole[BEFORE, k]
        rising = reals[OPEN, other]
        if rising > 0.0:
            if (
                column < 0
                or reals[FREE, other] * reals[OPEN, column] < reals[FREE, column] * rising
            ):
                column = other
            seen += 1
            if seen == LOOK_AHEAD:
                break
    return column


@kernel
def _fill_rows(clock: I8, flows: Table, hops: Table, links: Table, dense: Any) -> Int:
    """Freeze rows in the order of their levels, from the last snapshot below all changes.

    The order of the last filling is tried first. A link that is passed over, although it would be
    full below the level of a row, stays below the levels that follow: so it is enough to look for
    such links at each snapshot, and to go back to the one before, one checked step at a time.
    Return the first step that was done anew.
    """
    matrix, reals, whole, free_then, open_then = dense[:5]
    free, rising, slack = reals[FREE], reals[OPEN], reals[SLACK]
    first: Int = min(clock[LOWEST], clock[STEPS]) // STRIDE * STRIDE
    ahead = 0
    for k in range(first, clock[STEPS]):
        whole[BEFORE, ahead] = whole[ORDER, k]
        ahead += 1
    step, end, at = first, clock[STEPS], 0
    checked_to = first  # below this step each one is checked
    back = True
    frozen, last = 0, 0.0
    while True:
        if back:
            _copy(free_then[step // STRIDE], free)
            _copy(open_then[step // STRIDE], rising)
            for k in range(step, end):
                whole[PLACE, whole[ORDER, k]] = UNPLACED
            frozen = whole[FROZEN, step]
            last = 0.0
            if step > 0:
                below = whole[ORDER, step - 1]
                last = reals[LEVEL, below] if step == first else reals[NEW_LEVEL, below]
            at = 0
            back = False
        elif step % STRIDE == 0 or frozen == clock[ACTIVE]:
            if step > checked_to and _is_lower(free, rising, slack, last) > 0:
                end = step
                step = (step - 1) // STRIDE * STRIDE
                checked_to = step + STRIDE
                back = True
                continue
            if step % STRIDE == 0:
                _copy(free, free_then[step // STRIDE])
                _copy(rising, open_then[step // STRIDE])
            whole[FROZEN, step] = frozen
        if frozen == clock[ACTIVE]:
            break
        while at < ahead and rising[whole[BEFORE, at]] == 0.0:
            at += 1
        column = int(_next_row(reals, whole, at, ahead))
        if column >= 0 and step < checked_to:
            level = free[column] / rising[column]
            column = -1 if _is_lower(free, rising, slack, level) > 0 else column
        if column < 0:
            column = int(_lowest(free, rising))
        level = max(last, free[column] / rising[column])
        if level <= last * (1.0 + SAME_LEVEL):
            level = last
        if matrix[column, column] != rising[column]:
            _gather(clock, flows, hops, dense, column)
        own = whole[MEMBERS, column]
        frozen += own
        if 100 * own + whole[USED, column] < len(free):  # in the time of one column of the matrix
            _freeze_flows(flows, hops, dense, column, free, rising, level)
        else:
            _freeze_row(matrix[column], free, rising, level)
        whole[PLACE, column] = step
        whole[ORDER, step] = column
        reals[NEW_LEVEL, column] = level
        last = level
        step += 1
    for k in range(ahead):
        column = whole[BEFORE, k]
        if whole[PLACE, column] == UNPLACED:
            reals[LEVEL, column] = 0.0
            whole[END, column] = NEVER
    clock[STEPS] = step
    clock[TOUCHED] += step - first
    return first


@kernel
def _first_of_row(hops: Table, dense: Any, row: Int) -> None:
    """Look for the flow of a row that will end first."""
    reals, whole, slot_hop, slot_row, slot_target = dense[1], dense[2], dense[5], dense[6], dense[7]
    best, first = np.inf, -1
    for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
        if slot_row[slot] == row and slot_target[slot] < best:
            best, first = slot_target[slot], slot
    reals[TARGET, row] = best
    whole[FIRST, row] = hops.flow[slot_hop[first]]


@kernel
def _end_of(target: float, served: float, low: float, level: float, since: Int) -> Int:
    """Return when a row's clock will show a target."""
    duration = float(max(0.0, (target - served) - low) / level * PS_PER_S)
    end: Int = since + int(duration + ROUND_UP) if duration < 4e18 else NEVER
    return end


@kernel
def _reallocate_rows(clock: I8, flows: Table, hops: Table, links: Table, dense: Any) -> None:
    """Fill the rows anew; set the clocks of those whose level changed; find the next end."""
    reals, whole = dense[1:3]
    now = clock[NOW]
    clock[REALLOCATIONS] += 1
    clock[STALE] = 0
    first = _fill_rows(clock, flows, hops, links, dense)
    for k in range(first, clock[STEPS]):
        row = whole[ORDER, k]
        level = reals[NEW_LEVEL, row]
        if level == reals[LEVEL, row] and whole[MOVED, row] == 0:
            continue
        served = reals[SERVED, row]
        more = reals[LEVEL, row] * float(now - whole[SINCE, row]) / PS_PER_S
        total = served + more
        part = total - served
        reals[SERVED_LOW, row] += (served - (total - part)) + (more - part)
        reals[SERVED, row] = total
        reals[LEVEL, row] = level
        whole[SINCE, row] = now
        whole[MOVED, row] = 0
        if whole[FIRST, row] < 0:
            _first_of_row(hops, dense, row)
        whole[END, row] = _end_of(reals[TARGET, row], total, reals[SERVED_LOW, row], level, now)
    soonest = NEVER
    for k in range(clock[STEPS]):
        soonest = min(soonest, whole[END, whole[ORDER, k]])
    clock[NEXT_END] = soonest
    clock[LOWEST] = clock[STEPS]
    clock[REGION] += 1
    clock[REGION_FLOWS] = 0
    clock[REGION_LINKS] = 0
    clock[CHANGED_LINKS] = 0


@kernel
def _build_rows(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, dense: Any
) -> None:
    """Sort the active flows into rows by what holds them back, and the rows by level."""
    _, reals, whole, free_then, open_then = dense[:5]
    now, n, slots = clock[NOW], len(reals[0]), np.int64(0)
    clock[COLUMNS] = n
    clock[CROWD] = clock[ACTIVE]
    for link in range(len(links)):
        links.column[link] = -1
    for k in range(n):
        link = k if n == len(links) - 1 else links.busy[k]
        links.column[link] = k
        whole[LINK, k] = link
        whole[PLACE, k] = UNPLACED
        whole[END, k] = NEVER
        whole[SLOT, k] = slots
        slots += links.crowd[link] + links.crowd[link] // 2 + SPARE_SLOTS
        whole[SLOT_END, k] = slots
        reals[SLACK, k] = SAME_LEVEL * links.capacity[link]
        free_then[0, k] = links.capacity[link]
        open_then[0, k] = 0.0
        h = links.first_hop[link]
        while h >= 0:
            open_then[0, k] += hops.share[h]
            h = hops.next[h]
    for k in range(clock[ACTIVE]):
        flow = lists.active[k]
        _take_slots(flows, hops, links, dense, flow)
        elapsed = float(now - flows.since_ps[flow])
        left = max(0.0, flows.left[flow] - flows.rate[flow] * elapsed / PS_PER_S)
        row = np.int64(links.column[flows.stopped_by[flow]])
        _join_row(clock, flows, hops, dense, flow, row, left)
    rows = np.int64(0)
    for k in range(n):
        if whole[MOVED, k] != 0:
            levels.level[rows] = links.stop_level[whole[LINK, k]]
            levels.of[rows] = k
            rows += 1
    for k in range(rows // 2 - 1, -1, -1):
        _sink_level(levels, k, rows)
    clock[STEPS] = rows
    for k in range(rows):
        whole[ORDER, k] = levels.of[0]
        last = rows - 1 - k
        levels.level[0] = levels.level[last]
        levels.of[0] = levels.of[last]
        _sink_level(levels, TOP, last)
    clock[LOWEST] = 0
    clock[STALE] = 1


@kernel
def _unpack_rows(clock: I8, flows: Table, lists: Table, blocks: Table, dense: Any) -> None:
    """Write each active flow's own rate, bytes left and end."""
    reals, whole = dense[1:3]
    for k in range(clock[ACTIVE]):
        flow = lists.active[k]
        row = flows.row[flow]
        if row < 0:
            continue  # it has just started
        served, low, level = reals[SERVED, row], reals[SERVED_LOW, row], reals[LEVEL, row]
        flows.rate[flow] = level
        flows.stopped_by[flow] = whole[LINK, row]
        flows.since_ps[flow] = whole[SINCE, row]
        flows.left[flow] = max(0.0, (flows.target[flow] - served) - low)
        lists.due_ps[k] = NEVER
        if level > 0.0:
            lists.due_ps[k] = _end_of(flows.target[flow], served, low, level, whole[SINCE, row])
        blocks.dirty[k >> BLOCK_BITS] = 1


@kernel
def _end_rows_due(
    clock: I8,
    flows: Table,
    hops: Table,
    edges: Table,
    links: Table,
    lists: Table,
    recent: Table,
    blocks: Table,
    ends: I8,
    dense: Any,
) -> None:
    """End the flows whose time has come."""
    reals, whole, open_then, slot_hop, slot_row, slot_target, hop_column = (
        dense[1],
        dense[2],
        dense[4],
        dense[5],
        dense[6],
        dense[7],
        dense[9],
    )
    n, now = np.int64(0), clock[NOW]
    for k in range(clock[STEPS]):
        row = whole[ORDER, k]
        if whole[END, row] > now:
            continue
        served, low, level = reals[SERVED, row], reals[SERVED_LOW, row], reals[LEVEL, row]
        for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
            if slot_row[slot] == row:
                end = _end_of(slot_target[slot], served, low, level, whole[SINCE, row])
                if end <= now:
                    _note_held(clock, end)
                    lists.batch[n] = hops.flow[slot_hop[slot]]
                    n += 1
    _sort_ids(lists.batch, n)
    for k in range(n):
        flow = lists.batch[k]
        place = whole[PLACE, flows.row[flow]]
        clock[LOWEST] = min(clock[LOWEST], place)
        for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
            for snapshot in range(place // STRIDE + 1):
                open_then[snapshot, hop_column[h]] -= hops.share[h]
        _leave_row(flows, hops, dense, flow)
        _give_slots_back(flows, dense, flow)
        _deactivate(clock, flows, hops, links, lists, blocks, flow)
        _finish(clock, flows, hops, edges, links, lists, recent, ends, flow)


@kernel
def _hold_back_rows(clock: I8, lists: Table, dense: Any) -> Int:
    """Do as `_hold_back` does, with rows."""
    reals, whole, slot_row, slot_target = dense[1], dense[2], dense[6], dense[7]
    latest, last = _latest_of(clock, lists), clock[NEXT_END]
    for k in range(clock[STEPS]):
        row = whole[ORDER, k]
        if whole[END, row] > latest:
            continue
        served, low, level = reals[SERVED, row], reals[SERVED_LOW, row], reals[LEVEL, row]
        for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
            if slot_row[slot] == row:
                end = _end_of(slot_target[slot], served, low, level, whole[SINCE, row])
                if last < end <= latest:
                    last = end
    return int(last)


@kernel
def _lower(clock: I8, flows: Table, hops: Table, links: Table, dense: Any, flow: Int) -> None:
    """Lower `LOWEST` to a snapshot before which one more flow fills none of its links."""
    _, reals, whole, free_then, open_then = dense[:5]
    snapshot = clock[LOWEST] // STRIDE
    for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
        column = links.column[hops.link[h]]
        snapshot = min(snapshot, whole[PLACE, column] // STRIDE)
        while snapshot > 0:
            level = reals[LEVEL, whole[ORDER, snapshot * STRIDE - 1]]
            if free_then[snapshot, column] > level * (open_then[snapshot, column] + hops.share[h]):
                break
            snapshot -= 1
    clock[LOWEST] = min(clock[LOWEST], snapshot * STRIDE)


@kernel
def _start_in_rows(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, dense: Any, n: Int
) -> None:
    """Put flows that start into rows, or say that they are unfit for it."""
    whole, open_then = dense[2], dense[4]
    for k in range(n):
        for h in range(flows.first_hop[lists.batch[k]], flows.first_hop[lists.batch[k] + 1]):
            column = links.column[hops.link[h]]
            if column < 0 or open_then[0, column] + MOST_EQUAL > MOST_SHARES:
                clock[UNFIT] = 1
            elif whole[SLOT, column] + links.crowd[hops.link[h]] > whole[SLOT_END, column]:
                clock[UNFIT] = CRAMPED if clock[UNFIT] == 0 else clock[UNFIT]
    if clock[ODD_FLOWS] > 0:
        clock[UNFIT] = 1
    if clock[UNFIT] != 0:
        return
    for k in range(n):
        flow = lists.batch[k]
        row = np.int64(links.column[hops.link[flows.first_hop[flow]]])
        _lower(clock, flows, hops, links, dense, flow)
        for h in range(flows.first_hop[flow], flows.first_hop[flow + 1]):
            column = links.column[hops.link[h]]
            for snapshot in range(clock[LOWEST] // STRIDE + 1):
                open_then[snapshot, column] += hops.share[h]
            if whole[PLACE, column] < whole[PLACE, row]:
                row = column
        if whole[PLACE, row] == UNPLACED:  # nothing there yet: into the order, at its end
            whole[PLACE, row] = clock[STEPS]
            whole[ORDER, clock[STEPS]] = row
            clock[STEPS] += 1
        _take_slots(flows, hops, links, dense, flow)
        _join_row(clock, flows, hops, dense, flow, row, float(flows.volume[flow]))


@kernel
def settle_dense(engine: tuple[Any, ...], dense: tuple[Any, ...]) -> None:
    """Let the flows show their own rates and bytes left, as of when these last changed."""
    _unpack_rows(engine[0], engine[1], engine[5], engine[8], dense)


@kernel
def work_dense(engine: tuple[Any, ...], dense: tuple[Any, ...], limit_ps: Int, until: Int) -> Int:
    """Do as `work` does while the dense regime pays; then the clock says DENSE no more."""
    clock, flows, hops, edges, links, lists, levels, recent, blocks, ends = engine
    if clock[DENSE] == 0:
        clock[DENSE] = 1
        clock[WANTED] = 0
        _build_rows(clock, flows, hops, links, lists, levels, dense)
        clock[REALLOCATIONS] -= 1  # the same instant once more
        _reallocate_rows(clock, flows, hops, links, dense)
    clock[REPORTED] = 0
    while True:
        due = clock[WAITING] > 0 and lists.waiting_ps[0] <= clock[NOW]
        if clock[STALE] != 0 and clock[NOW] == limit_ps and not due and until != NO_EVENT:
            return int(limit_ps)
        if clock[STALE] != 0 and not due:
            if clock[UNFIT] != 0 or 2 * clock[ACTIVE] < clock[CROWD]:
                break
            _reallocate_rows(clock, flows, hops, links, dense)
        now = clock[NEXT_END]
        if clock[TOLERANCE] > 0 and now < NEVER:
            now = _hold_back_rows(clock, lists, dense)
        if clock[WAITING] > 0:
            now = min(now, lists.waiting_ps[0])
        if now > limit_ps or now == NEVER or until == NO_EVENT:
            return int(now)
        clock[NOW] = now
        clock[STALE] = 1
        if clock[NEXT_END] <= now:
            clock[NEXT_END] = NEVER
            _end_rows_due(clock, flows, hops, edges, links, lists, recent, blocks, ends, dense)
        n = _start_due(clock, flows, hops, edges, links, lists, recent, blocks, ends)
        _start_in_rows(clock, flows, hops, links, lists, dense, n)
        if until == WATCHED_END and clock[REPORTED] > 0:
            return int(now)
        clock[REPORTED] = 0
    _unpack_rows(clock, flows, lists, blocks, dense)
    clock[DENSE] = 0
    clock[MISSES] = 0
    if clock[UNFIT] == CRAMPED:
        clock[MISSES] = 2  # the next large region leads back
    elif clock[UNFIT] != 0:
        clock[MISSES] = -64  # such flows may well come again
    clock[UNFIT] = 0
    clock[WAIT] = 1  # a filling in full sets what the regions need
    return 0
