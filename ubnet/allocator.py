"""The kernels of the flow engine: the event loop and weighted max-min allocation.

The loop: take all events of this instant, apply them, re-allocate once, find the next finish.

All kernels that call each other live here, because Numba's cache goes stale across files. State
comes in as named tuples of arrays, whose fields `ubnet.flowsim` describes by allocating them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import inlined_kernel, inner_kernel, kernel

I4 = NDArray[np.int32]
I8 = NDArray[np.int64]
F8 = NDArray[np.float64]
Mask = NDArray[np.bool_]
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
COARSE = 1e-9  # the same in doubled precision

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
SUMS = 35  # which sums of links are right: those with this number
LOOKED = 36  # hops that the present sweep has looked at
CAPPED = 37  # active flows with a cap
FIRST_BLOCK = 38  # of those in which flows end next, and the last
LAST_BLOCK = 39
CLOCK_FIELDS = 42

BLOCK_BITS = 5  # active flows in blocks of 32, each with its first end
ELSEWHERE = -2
# What a link does at its level.
STOP = 0
LET_RISE = 1  # those that it holds back: others may stop them before it does
LIFT = 2  # them, to its new level: it is the only one that lets any rise
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
FEW_ROWS = 16  # so many to look at for each flow of a batch cost less than sorting it
IN_BATCH = -2  # instead of the next flow that waits
# Hops that a sweep may look at where rows could be filled instead: these take as long as one for
# each so many fields of the matrix, and a sweep of FEW_HOPS is not worth it.
FIELDS_A_HOP = 64
FEW_HOPS = 512
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
    # The latest of its start and its dependencies' ends (less the start-up, where these hold back
    # the bytes alone); later on, when `rate` last changed.
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
    ("next_own", "i4"),  # of the flows that the link holds back or lets rise; ELSEWHERE: not there
    ("room", "i4"),  # to half a cache line
]
# Dependencies, listed by the flow that is waited for: of the flow that waits, or as -1 - flow of
# one whose bytes alone wait.
EDGES = [("flow", "i4"), ("next", "i4")]
LINKS = [  # three cache lines
    # What its frozen flows leave, and what rounding lost of it. Of a sweep: those that it neither
    # holds back nor lets rise.
    ("free", "f8"),
    ("free_low", "f8"),
    ("open_weight", "f8"),  # share times weight of the other flows, and what rounding lost of it
    ("open_low", "f8"),
    ("most", "f8"),  # no frozen flow of a sweep has a higher level
    ("held_level", "f8"),  # of the flows that it holds back
    ("stop_level", "f8"),  # the level at which it stops, or stopped, flows; inf where it does not
    ("capacity", "f8"),
    ("own_count", "i4"),  # flows that it holds back or lets rise
    ("open_count", "i4"),  # flows that rise
    ("summed", "i4"),  # `clock[SUMS]` while a sweep's sums are right
    ("first_hop", "i4"),
    ("first_own", "i4"),
    ("crowd", "i4"),  # its active flows
    ("touched", "i4"),  # the last region that it was part of
    ("left_in", "i4"),  # the last region before which a flow left it
    ("held", "i4"),  # flows that it holds back, those of the region apart
    ("then", "i4"),  # what it does at `stop_level`
    ("queued", "f8"),  # the lowest level in the heap that stands for it
    ("weight", "f8"),  # the most that `open_weight` was since it was summed up
    ("bytes", "f8"),  # carried by flows that have ended, times share
    ("changed", "i4"),  # column of the links that flows have left
    ("position", "i4"),  # among the busy links
    ("column", "i4"),  # of the dense matrix, or -1
    ("busy", "i4"),  # column of the busy links
    ("region", "i4"),  # column of the region's links
    ("listed", "i4"),  # 1 while it is one of the region's links
    ("room", "3i8"),  # to three cache lines
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


@inlined_kernel
def _push_waiting(
    clock: I8, flows: Table, lists: Table, recent: Table, flow: Int, at_ps: Int
) -> None:
    """Queue a flow that enters the network at ``at_ps``; flows of one instant share a place."""
    slot = at_ps & (RECENT - 1)
    bucket = recent[slot].bucket
    if bucket >= 0 and recent[slot].at_ps == at_ps:
        flows[flow].next_waiting = flows[bucket].row
        flows[bucket].row = flow
        return
    flows[flow].next_waiting = -1
    flows[flow].row = flow
    recent[slot].at_ps = at_ps
    recent[slot].bucket = flow
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


@inlined_kernel
def _pop_waiting(clock: I8, lists: Table, recent: Table) -> Int:
    """Take the first instant off the waiting queue and return its bucket."""
    time, heap = lists.waiting_ps, lists.waiting
    bucket = heap[0]
    slot = time[0] & (RECENT - 1)
    if recent[slot].bucket == bucket:
        recent[slot].bucket = -1
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


@inner_kernel
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


@inner_kernel
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


@inlined_kernel
def _sort_batch(clock: I8, flows: Table, lists: Table, n: Int) -> None:
    """Sort the first n flows of the batch, none of which waits in the queue.

    Where they are many of the rows, a walk over these is faster than sorting.
    """
    if FEW_ROWS * n < clock[ROWS]:
        _sort_ids(lists.batch, n)
        return
    for k in range(n):
        flows[lists[k].batch].next_waiting = IN_BATCH
    place = np.int64(0)
    for row in range(clock[ROWS]):
        if flows[row].next_waiting == IN_BATCH:
            flows[row].next_waiting = -1
            lists[place].batch = row
            place += 1


@inner_kernel
def _sink_level(levels: Table, k: Int, n: Int) -> None:
    """Sink place k in a heap of four children a place whose lowest level is on top."""
    x, x_of = levels[k].level, levels[k].of
    while True:
        child = 4 * k + 1
        if child >= n:
            break
        lowest, least = child, levels[child].level
        for other in range(child + 1, min(child + 4, n)):
            if levels[other].level < least:
                lowest, least = other, levels[other].level
        if least >= x:
            break
        levels[k].level = least
        levels[k].of = levels[lowest].of
        k = lowest
    levels[k].level = x
    levels[k].of = x_of


@inlined_kernel
def _let_in(clock: I8, flows: Table, links: Table, lists: Table, flow: Int) -> None:
    """Note that a flow's rate may change."""
    if flows[flow].inside != clock[REGION]:
        flows[flow].inside = clock[REGION]
        lists[clock[REGION_FLOWS]].region = flow
        clock[REGION_FLOWS] += 1
        if flows[flow].stopped_by >= 0:
            links[flows[flow].stopped_by].held -= 1


@inlined_kernel
def _look_again(clock: I8, links: Table, link: Int) -> None:
    """Put a link on the list of those whose level is to be found anew."""
    if links[link].touched != clock[REGION]:
        links[link].touched = clock[REGION]
        links[link].stop_level = np.inf
        links[link].queued = np.inf
        links[link].listed = 0
    if links[link].listed == 0:
        links[link].listed = 1
        links[clock[REGION_LINKS]].region = link
        clock[REGION_LINKS] += 1


@inlined_kernel
def _set_due(lists: Table, blocks: Table, place: Int, due_ps: Int) -> None:
    """Set the end of the active flow at a place; its block is looked through if its first goes."""
    block = place >> BLOCK_BITS
    if lists[place].due_ps == blocks[block].first_ps and due_ps > blocks[block].first_ps:
        blocks[block].dirty = 1
    elif due_ps < blocks[block].first_ps:
        blocks[block].first_ps = due_ps
    lists[place].due_ps = due_ps


@inner_kernel
def _leave(links: Table, link: Int, rate: float) -> None:
    """Let a link have a rate more left for others, in doubled precision."""
    free = links[link].free
    rest = free + rate
    part = rest - free
    links[link].free_low += (free - (rest - part)) + (rate - part)
    links[link].free = rest


@inner_kernel
def _weigh(links: Table, link: Int, weight: float) -> None:
    """Let a link have more weight of its own, in doubled precision."""
    old = links[link].open_weight
    new = old + weight
    part = new - old
    links[link].open_low += (old - (new - part)) + (weight - part)
    links[link].open_weight = new
    links[link].weight = max(links[link].weight, new)


@inner_kernel
def _own(hops: Table, links: Table, link: Int, h: Int, weight: float) -> None:
    """Count a flow among a link's own: those that it holds back or lets rise."""
    _weigh(links, link, weight)
    links[link].own_count += 1
    if hops[h].next_own == ELSEWHERE:
        hops[h].next_own = links[link].first_own
        links[link].first_own = h


@inner_kernel
def _disown(links: Table, link: Int, weight: float) -> None:
    """Do the reverse; the list of its own is put in order when it is looked at."""
    _weigh(links, link, -weight)
    links[link].own_count -= 1


@inner_kernel
def _first_own(clock: I8, flows: Table, hops: Table, links: Table, link: Int) -> Int:
    """Return the first hop of a link's own flows; take those off the list that are no more."""
    h, before = links[link].first_own, -1
    while h >= 0:
        after, flow = hops[h].next_own, hops[h].flow
        rises = flows[flow].open_in == clock[EPOCH]
        clock[LOOKED] += 1
        if flows[flow].position >= 0 and (rises or flows[flow].stopped_by == link):
            before = h
        else:
            hops[h].next_own = ELSEWHERE
            if before < 0:
                links[link].first_own = after
            else:
                hops[before].next_own = after
        h = after
    return np.int64(links[link].first_own)


@inlined_kernel
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
    flows[flow].since_ps = clock[NOW]
    flows[flow].position = place
    flows[flow].row = -1
    lists[place].active = flow
    if place & ((1 << BLOCK_BITS) - 1) == 0:
        blocks[place >> BLOCK_BITS].first_ps = NEVER
        blocks[place >> BLOCK_BITS].dirty = 0
    lists[place].due_ps = NEVER
    clock[ODD_FLOWS] += flows[flow].odd
    clock[CAPPED] += 1 if flows[flow].cap < np.inf else 0
    clock[HOPS] += flows[flow + 1].first_hop - flows[flow].first_hop
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        link = hops[h].link
        if links[link].crowd == 0:
            links[link].position = clock[BUSY_LINKS]
            links[clock[BUSY_LINKS]].busy = link
            clock[BUSY_LINKS] += 1
        links[link].crowd += 1
        after = links[link].first_hop
        hops[h].next = after
        hops[h].prev = -1
        hops[h].next_own = ELSEWHERE
        if after >= 0:
            hops[after].prev = h
        links[link].first_hop = h
    if alone:
        _let_in(clock, flows, links, lists, flow)
        for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
            link = np.int64(hops[h].link)
            if links[link].summed == clock[SUMS]:
                links[link].open_count += 1
                _own(hops, links, link, np.int64(h), hops[h].share * flows[flow].weight)
            _look_again(clock, links, link)


@inlined_kernel
def _deactivate(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, blocks: Table, flow: Int
) -> None:
    """Take a flow out of the network."""
    clock[ACTIVE] -= 1
    place = np.int64(flows[flow].position)
    last = lists[clock[ACTIVE]].active
    lists[place].active = last
    _set_due(lists, blocks, place, lists[clock[ACTIVE]].due_ps)
    _set_due(lists, blocks, clock[ACTIVE], np.int64(NEVER))
    flows[last].position = place
    flows[flow].position = -1
    clock[ODD_FLOWS] -= flows[flow].odd
    clock[CAPPED] -= 1 if flows[flow].cap < np.inf else 0
    clock[HOPS] -= flows[flow + 1].first_hop - flows[flow].first_hop
    if flows[flow].stopped_by >= 0:
        links[flows[flow].stopped_by].held -= 1
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        link = np.int64(hops[h].link)
        if links[link].summed == clock[SUMS]:
            weight = hops[h].share * flows[flow].weight
            if flows[flow].stopped_by == link:
                _disown(links, link, weight)
            else:
                _leave(links, link, weight * flows[flow].level)
        links[link].crowd -= 1
        if links[link].left_in != clock[REGION]:
            links[link].left_in = clock[REGION]
            links[clock[CHANGED_LINKS]].changed = link
            clock[CHANGED_LINKS] += 1
        before, after = hops[h].prev, hops[h].next
        if before >= 0:
            hops[before].next = after
        else:
            links[link].first_hop = after
        if after >= 0:
            hops[after].prev = before
        if links[link].crowd == 0:
            clock[BUSY_LINKS] -= 1
            moved = links[clock[BUSY_LINKS]].busy
            links[links[link].position].busy = moved
            links[moved].position = links[link].position


@inner_kernel
def _deactivate_all(clock: I8, flows: Table, links: Table, lists: Table) -> None:
    """Take all flows out of the network."""
    for k in range(clock[ACTIVE]):
        flows[lists[k].active].position = -1
    for k in range(clock[BUSY_LINKS]):
        link = links[k].busy
        links[link].crowd = 0
        links[link].held = 0
        links[link].first_hop = -1
    clock[SUMS] += 1
    clock[ACTIVE] = 0
    clock[BUSY_LINKS] = 0
    clock[HOPS] = 0
    clock[ODD_FLOWS] = 0
    clock[CAPPED] = 0


@inlined_kernel
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
    size = float(flows[flow].volume)
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        links[hops[h].link].bytes += size * hops[h].share
    while flow >= 0:
        ends[flows[flow].number] = now
        clock[EVENTS] += 1
        clock[UNFINISHED] -= 1
        if flows[flow].watch != 0:
            lists[clock[REPORTED]].reported = flows[flow].number
            clock[REPORTED] += 1
        edge = flows[flow].first_edge
        while edge >= 0:
            waiter, ready = np.int64(edges[edge].flow), now
            if waiter < 0:
                waiter = -1 - waiter
                ready -= flows[waiter].startup_ps
            flows[waiter].pending -= 1
            flows[waiter].since_ps = max(flows[waiter].since_ps, ready)
            if flows[waiter].pending == 0:
                at_ps = flows[waiter].since_ps + flows[waiter].startup_ps
                _push_waiting(clock, flows, lists, recent, waiter, at_ps)
            edge = edges[edge].next
        flow = np.int64(flows[flow].equal)


@inlined_kernel
def _set_rate(
    clock: I8, flows: Table, links: Table, lists: Table, blocks: Table, flow: Int
) -> None:
    """Let a flow go on at its level from now on."""
    rate = flows[flow].cap
    if flows[flow].stopped_by >= 0:
        rate = flows[flow].level * flows[flow].weight
        links[flows[flow].stopped_by].held += 1
    if rate == flows[flow].rate:
        return
    now = clock[NOW]
    elapsed = float(now - flows[flow].since_ps)
    left = flows[flow].left - flows[flow].rate * elapsed / PS_PER_S
    if left < 0.0:
        left = 0.0
    flows[flow].left = left
    flows[flow].since_ps = now
    flows[flow].rate = rate
    duration = left / rate * PS_PER_S
    due_ps = now + int(duration + ROUND_UP) if duration < 4e18 else NEVER
    _set_due(lists, blocks, np.int64(flows[flow].position), due_ps)


@inner_kernel
def _freeze(flows: Table, hops: Table, links: Table, flow: Int, level: float, by: Int) -> None:
    """Stop a flow at a level; take its rate out of its links in doubled precision."""
    flows[flow].open_in = 0
    flows[flow].level = level
    flows[flow].stopped_by = by
    weight = flows[flow].weight
    rate = flows[flow].cap
    if by >= 0:
        rate = level * weight
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        link = np.int64(hops[h].link)
        share = hops[h].share
        _leave(links, link, -rate * share)
        links[link].open_weight -= share * weight
        links[link].open_count -= 1


@inner_kernel
def _open_weight(flows: Table, hops: Table, links: Table, link: Int, epoch: Int) -> float:
    """Return the sum of share times weight of a link's flows that still rise."""
    total = 0.0
    h = links[link].first_hop
    while h >= 0:
        flow = hops[h].flow
        if flows[flow].open_in == epoch:
            total += hops[h].share * flows[flow].weight
        h = hops[h].next
    return total


@inner_kernel
def _drop_top(levels: Table, waiting: Int) -> Int:
    """Take the top off a heap of levels; return how many are left."""
    waiting -= 1
    levels[0].level = levels[waiting].level
    levels[0].of = levels[waiting].of
    if waiting > 0:
        _sink_level(levels, TOP, waiting)
    return waiting


@inner_kernel
def _open(clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table) -> Int:
    """Let all active flows rise; return how many levels (links, caps) wait in the heap."""
    for k in range(clock[BUSY_LINKS]):
        link = links[k].busy
        links[link].free = links[link].capacity
        links[link].free_low = 0.0
        links[link].weight = 0.0
        links[link].open_count = 0
        links[link].held = 0
        links[link].stop_level = np.inf
    waiting = np.int64(0)
    for k in range(clock[ACTIVE]):
        flow = lists[k].active
        weight = flows[flow].weight
        flows[flow].open_in = clock[EPOCH]
        for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
            links[hops[h].link].weight += hops[h].share * weight
            links[hops[h].link].open_count += 1
        if flows[flow].cap < np.inf:
            levels[waiting].level = flows[flow].cap / weight
            levels[waiting].of = -1 - flow
            waiting += 1
    for k in range(clock[BUSY_LINKS]):
        link = links[k].busy
        links[link].open_weight = links[link].weight
        levels[waiting].level = links[link].capacity / links[link].weight
        levels[waiting].of = link
        waiting += 1
    for k in range((waiting + 2) // 4 - 1, -1, -1):
        _sink_level(levels, k, waiting)
    return waiting


@inner_kernel
def _fill(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> None:
    """Give all active flows their weighted max-min levels.

    A link's level, its free capacity over its open weight, only rises while others freeze, so the
    levels in the heap are lower bounds: the top one is looked at again before it is believed.
    """
    clock[EPOCH] += 1
    clock[SUMS] += 1
    clock[TOUCHED] += clock[ACTIVE]
    epoch, rising, last = clock[EPOCH], clock[ACTIVE], 0.0
    waiting: Int = _open(clock, flows, hops, links, lists, levels)
    while rising > 0:
        of = levels[0].of
        if of < 0:
            if flows[-1 - of].open_in == epoch:
                last = max(last, levels[0].level)
                rising -= 1
                _freeze(flows, hops, links, -1 - of, last, np.int64(-1))
        elif links[of].open_count > 0:
            if links[of].open_weight < FEW * links[of].weight:
                links[of].open_weight = _open_weight(flows, hops, links, of, epoch)
            level = (links[of].free + links[of].free_low) / links[of].open_weight
            if level <= last * (1.0 + SAME_LEVEL):
                level = last
            if level > levels[0].level * (1.0 + SAME_LEVEL):
                levels[0].level = level
                _sink_level(levels, TOP, waiting)
                continue
            last = level
            links[of].stop_level = level
            h = links[of].first_hop
            while h >= 0:
                flow = np.int64(hops[h].flow)
                if flows[flow].open_in == epoch:
                    rising -= 1
                    _freeze(flows, hops, links, flow, level, of)
                h = hops[h].next
        waiting = _drop_top(levels, waiting)
    for k in range(clock[ACTIVE]):
        _set_rate(clock, flows, links, lists, blocks, lists[k].active)


@inner_kernel
def _raise_level(levels: Table, k: Int, level: float, of: Int) -> None:
    """Put one more level into a heap of k."""
    while k > 0:
        above = (k - 1) >> 2
        if levels[above].level <= level:
            break
        levels[k].level = levels[above].level
        levels[k].of = levels[above].of
        k = above
    levels[k].level = level
    levels[k].of = of


@inner_kernel
def _sum_up(clock: I8, flows: Table, hops: Table, links: Table, link: Int) -> None:
    """Sum up what a sweep keeps of a link."""
    links[link].summed = clock[SUMS]
    links[link].free = links[link].capacity
    links[link].free_low = 0.0
    links[link].open_weight = 0.0
    links[link].open_low = 0.0
    links[link].weight = 0.0
    links[link].own_count = 0
    links[link].open_count = 0
    links[link].most = 0.0
    links[link].first_own = -1
    clock[LOOKED] += links[link].crowd
    h = np.int64(links[link].first_hop)
    while h >= 0:
        flow = hops[h].flow
        hops[h].next_own = ELSEWHERE
        weight = hops[h].share * flows[flow].weight
        if flows[flow].open_in == clock[EPOCH]:
            links[link].open_count += 1
            _own(hops, links, link, np.int64(h), weight)
        elif flows[flow].stopped_by == link:
            links[link].held_level = flows[flow].level
            _own(hops, links, link, np.int64(h), weight)
        else:
            links[link].most = max(links[link].most, flows[flow].level)
            _leave(links, link, -weight * flows[flow].level)
        h = np.int64(hops[h].next)


@inner_kernel
def _level_above(
    clock: I8, flows: Table, hops: Table, links: Table, link: Int, limit: float
) -> float:
    """Return a link's level where those with more than a limit have to come down to it, too."""
    while True:
        own, fixed, low, most = 0.0, 0.0, 0.0, 0.0
        clock[LOOKED] += links[link].crowd
        h = links[link].first_hop
        while h >= 0:
            flow = hops[h].flow
            weight = hops[h].share * flows[flow].weight
            if flows[flow].open_in == clock[EPOCH] or flows[flow].stopped_by == link:
                own += weight
            else:
                most = max(most, flows[flow].level)
                if flows[flow].level > limit:
                    own += weight
                else:  # in doubled precision: little may be left of the capacity
                    used = weight * flows[flow].level
                    more = fixed + used
                    part = more - fixed
                    low += (fixed - (more - part)) + (used - part)
                    fixed = more
            h = hops[h].next
        links[link].most = most
        if own == 0.0:
            return float(np.inf)
        level = ((links[link].capacity - fixed) - low) / own
        if most <= level * (1.0 + SAME_LEVEL) or level <= limit:
            return float(level)
        limit = level * (1.0 + SAME_LEVEL)


@inner_kernel
def _own_level(clock: I8, flows: Table, hops: Table, links: Table, link: Int, near: float) -> float:
    """Return the level at which a link stops its flows if the others stay as they are.

    Its own are those that it holds back and those that rise; the others have no more than their
    level. inf: it stops nobody, or just those that it holds back already. A level above `near` may
    be a lower bound: so those that have too much are looked for but once, when it comes up.
    """
    own = links[link].open_weight + links[link].open_low
    if links[link].summed != clock[SUMS] or own < COARSE * links[link].weight:
        _sum_up(clock, flows, hops, links, link)
    links[link].then = STOP
    free = links[link].free + links[link].free_low
    level = 0.0
    if links[link].own_count > 0:
        level = free / (links[link].open_weight + links[link].open_low)
    elif free >= -SAME_LEVEL * links[link].capacity:
        return float(np.inf)
    held = 0.0
    if links[link].own_count > links[link].open_count:
        held = links[link].held_level
    if held > 0.0 and held < level * (1.0 - SAME_LEVEL):
        links[link].then = LET_RISE
        if links[link].open_count == 0 and links[link].most <= level and clock[CAPPED] == 0:
            links[link].then = LIFT
        return float(held)
    if level <= near and links[link].most > level * (1.0 + SAME_LEVEL):
        level = _level_above(clock, flows, hops, links, link, level * (1.0 + SAME_LEVEL))
        if held > 0.0 and held < level * (1.0 - SAME_LEVEL):
            links[link].then = LET_RISE
            return float(held)
    if held > 0.0 and abs(level - held) <= SAME_LEVEL * held:
        level = held
        if links[link].open_count == 0 and links[link].most <= level * (1.0 + SAME_LEVEL):
            return float(np.inf)
    return float(level)


@inner_kernel
def _is_in_question(clock: I8, links: Table, link: Int) -> bool:
    """Say whether a link that stops nobody has to be looked at: it waits for it, or is too full."""
    if links[link].touched == clock[REGION] and links[link].stop_level < np.inf:
        return True
    free = links[link].free + links[link].free_low
    return bool(free < -SAME_LEVEL * links[link].capacity)


@inner_kernel
def _settle(
    clock: I8,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    flow: Int,
    level: float,
    by: Int,
) -> None:
    """Give a flow a level, and look again at the links that it crosses."""
    rose, before, held_by = flows[flow].open_in == clock[EPOCH], flows[flow].level, np.int64(-1)
    if not rose:
        held_by = np.int64(flows[flow].stopped_by)
    _let_in(clock, flows, links, lists, flow)
    flows[flow].level = level
    flows[flow].stopped_by = by
    flows[flow].open_in = 0
    if by >= 0:
        links[by].held_level = level
    clock[TOUCHED] += 1
    clock[LOOKED] += flows[flow + 1].first_hop - flows[flow].first_hop
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        link = np.int64(hops[h].link)
        if links[link].summed == clock[SUMS]:
            weight = hops[h].share * flows[flow].weight
            links[link].open_count -= rose
            own = rose or held_by == link
            if not own:
                _leave(links, link, weight * before)
            if link != by:
                _leave(links, link, -weight * level)
                links[link].most = max(links[link].most, level)
                if own:
                    _disown(links, link, weight)
            elif not own:
                _own(hops, links, link, np.int64(h), weight)
            if links[link].own_count == 0 and not _is_in_question(clock, links, link):
                continue
        if link != by:
            _look_again(clock, links, link)


@inner_kernel
def _let_rise(
    clock: I8,
    flows: Table,
    hops: Table,
    links: Table,
    lists: Table,
    levels: Table,
    waiting: Int,
    link: Int,
) -> Int:
    """Let the flows rise that a link holds back; return how many levels wait then."""
    h = _first_own(clock, flows, hops, links, link)
    while h >= 0:
        flow = np.int64(hops[h].flow)
        if flows[flow].open_in != clock[EPOCH]:
            _let_in(clock, flows, links, lists, flow)
            flows[flow].open_in = clock[EPOCH]
            if flows[flow].cap < np.inf:
                _raise_level(levels, waiting, flows[flow].cap / flows[flow].weight, -1 - flow)
                waiting += 1
            for hop in range(flows[flow].first_hop, flows[flow + 1].first_hop):
                other = np.int64(hops[hop].link)
                if links[other].summed == clock[SUMS]:
                    links[other].open_count += 1
                    if other != link:
                        weight = hops[hop].share * flows[flow].weight
                        _leave(links, other, weight * flows[flow].level)
                        _own(hops, links, other, np.int64(hop), weight)
                _look_again(clock, links, other)
        h = np.int64(hops[h].next_own)
    return waiting


@inner_kernel
def _lift(clock: I8, flows: Table, hops: Table, links: Table, lists: Table, link: Int) -> None:
    """Let the flows that a link holds back have all that the others leave."""
    level = (links[link].free + links[link].free_low) / (
        links[link].open_weight + links[link].open_low
    )
    h = _first_own(clock, flows, hops, links, link)
    while h >= 0:
        _settle(clock, flows, hops, links, lists, np.int64(hops[h].flow), level, link)
        h = np.int64(hops[h].next_own)


@inner_kernel
def _stop(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, link: Int, level: float
) -> None:
    """Let a link stop its own flows, and those that are above, at a level."""
    above, below = level * (1.0 + SAME_LEVEL), level * (1.0 - SAME_LEVEL)
    h = _first_own(clock, flows, hops, links, link)
    while h >= 0:
        flow = np.int64(hops[h].flow)
        now = flows[flow].level
        if flows[flow].open_in == clock[EPOCH] or now > above or now < below:
            _settle(clock, flows, hops, links, lists, flow, level, link)
        h = np.int64(hops[h].next_own)
    if links[link].most <= above:
        return
    clock[LOOKED] += links[link].crowd
    links[link].most = above
    h = np.int64(links[link].first_hop)
    while h >= 0:
        flow = np.int64(hops[h].flow)
        if flows[flow].level > above:
            _settle(clock, flows, hops, links, lists, flow, level, link)
        h = np.int64(hops[h].next)


@inner_kernel
def _look(clock: I8, flows: Table, hops: Table, links: Table, levels: Table, waiting: Int) -> Int:
    """Find the levels of the links on the list; return how many levels wait in the heap then."""
    for k in range(clock[REGION_LINKS]):
        link = np.int64(links[k].region)
        links[link].listed = 0
        level = _own_level(clock, flows, hops, links, link, -1.0)
        links[link].stop_level = level
        if level < links[link].queued:
            links[link].queued = level
            _raise_level(levels, waiting, level, link)
            waiting += 1
    clock[REGION_LINKS] = 0
    return waiting


@inner_kernel
def _look_closely(
    clock: I8, flows: Table, hops: Table, links: Table, link: Int, bound: float
) -> float:
    """Return the level of a link whose lower bound has come up; inf: it is not in question."""
    if bound != links[link].queued:
        return float(np.inf)  # a lower one has come up before
    if links[link].stop_level <= bound and links[link].then == STOP:
        links[link].stop_level = _own_level(clock, flows, hops, links, link, np.inf)
    links[link].queued = links[link].stop_level
    return float(links[link].stop_level)


@inner_kernel
def _begin_sweep(clock: I8, flows: Table, links: Table, lists: Table, levels: Table) -> Int:
    """Let the flows rise that have come; return how many levels wait in the heap then."""
    clock[EPOCH] += 1
    clock[LOOKED] = 0
    waiting = np.int64(0)
    for k in range(clock[REGION_FLOWS]):
        flow = np.int64(lists[k].region)
        flows[flow].open_in = clock[EPOCH]
        if flows[flow].cap < np.inf:
            _raise_level(levels, waiting, flows[flow].cap / flows[flow].weight, -1 - flow)
            waiting += 1
    for k in range(clock[CHANGED_LINKS]):
        if links[links[k].changed].held > 0:  # to leave a link frees those alone that it holds
            _look_again(clock, links, np.int64(links[k].changed))
    return waiting


@inner_kernel
def _sweep(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> bool:
    """Re-allocate only where flows came or went; give up (False) where that grows too large.

    Sweep over the levels from below. What is below the sweep is final. A link that came into
    question has a level at which it stops its flows, or lets those have more that it holds back;
    the lowest comes next, and the links of the flows that it changes come into question, too.
    """
    budget = 2 * clock[HOPS]
    if clock[ODD_FLOWS] == 0:  # the dense regime costs no more for more flows
        budget = min(budget, max(FEW_HOPS, clock[BUSY_LINKS] ** 2 // FIELDS_A_HOP))
    waiting: Int = _begin_sweep(clock, flows, links, lists, levels)
    last = 0.0
    while True:
        waiting = _look(clock, flows, hops, links, levels, waiting)
        if waiting == 0:
            break
        # What comes into question next must find room in the heap, outdated entries included.
        if clock[LOOKED] > budget or waiting + clock[ACTIVE] + clock[BUSY_LINKS] > len(levels):
            return False
        level, of = levels[0].level, np.int64(levels[0].of)
        if of >= 0:
            level = _look_closely(clock, flows, hops, links, of, level)
            if levels[0].level < level < np.inf:
                levels[0].level = level
                _sink_level(levels, TOP, waiting)
                continue
        waiting = _drop_top(levels, waiting)
        if of < 0:
            if flows[-1 - of].open_in == clock[EPOCH]:
                last = max(last, level)
                _settle(clock, flows, hops, links, lists, -1 - of, level, np.int64(-1))
        elif level < np.inf:
            links[of].queued = np.inf
            links[of].stop_level = np.inf
            last = level if level > last * (1.0 + SAME_LEVEL) else last
            if links[of].then == LIFT:
                _lift(clock, flows, hops, links, lists, of)
            elif links[of].then == LET_RISE:
                waiting = _let_rise(clock, flows, hops, links, lists, levels, waiting, of)
            else:
                _stop(clock, flows, hops, links, lists, of, last)
    for k in range(clock[REGION_FLOWS]):
        _set_rate(clock, flows, links, lists, blocks, lists[k].region)
    return True


@inner_kernel
def _want_dense(clock: I8, hops: Table, links: Table) -> None:
    """Ask for the tables of the dense regime where all active flows are fit for it."""
    columns = len(links) - 1
    if columns > MOST_COLUMNS:
        columns = clock[BUSY_LINKS]
    for k in range(clock[BUSY_LINKS]):
        if links[links[k].busy].crowd > MOST_SHARES:
            return
        total = 0.0
        h = links[links[k].busy].first_hop
        while h >= 0:
            total += hops[h].share
            h = hops[h].next
        if total > MOST_SHARES:
            return
    if clock[ODD_FLOWS] == 0 and columns <= MOST_COLUMNS:
        clock[WANTED] = columns


@inlined_kernel
def _reallocate(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, blocks: Table
) -> None:
    """Allocate rates anew, in a region where that promises to be small; find the next finish."""
    clock[REALLOCATIONS] += 1
    clock[STALE] = 0
    changing = clock[REGION_FLOWS]
    for k in range(clock[CHANGED_LINKS]):  # whom a link held back that flows have left now rises
        changing += links[links[k].changed].held
    if clock[WAIT] > 0 or 4 * changing > clock[ACTIVE]:
        clock[WAIT] = max(0, clock[WAIT] - 1)
        _fill(clock, flows, hops, links, lists, levels, blocks)
    elif _sweep(clock, flows, hops, links, lists, levels, blocks):
        clock[REGIONS] += 1
        clock[MISSES] = 0
    else:
        clock[MISSES] += 1
        clock[WAIT] = (1 << min(clock[MISSES] - 1, 5)) - 1
        _fill(clock, flows, hops, links, lists, levels, blocks)
        if clock[MISSES] > 2:
            _want_dense(clock, hops, links)
    clock[REGION] += 1
    clock[REGION_FLOWS] = 0
    clock[REGION_LINKS] = 0
    clock[CHANGED_LINKS] = 0
    _find_next_end(clock, lists, blocks)


@inlined_kernel
def _find_next_end(clock: I8, lists: Table, blocks: Table) -> None:
    """Find the first end of all active flows at their present rates."""
    n = clock[ACTIVE]
    soonest = NEVER
    for block in range((n + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS):
        if blocks[block].dirty != 0:
            blocks[block].dirty = 0
            first = NEVER
            for k in range(block << BLOCK_BITS, min(n, (block + 1) << BLOCK_BITS)):
                first = min(first, lists[k].due_ps)
            blocks[block].first_ps = first
        if blocks[block].first_ps < soonest:
            soonest = blocks[block].first_ps
            clock[FIRST_BLOCK] = block
        if blocks[block].first_ps == soonest:
            clock[LAST_BLOCK] = block
    clock[NEXT_END] = soonest


@inner_kernel
def _latest_of(clock: I8, lists: Table) -> Int:
    """Return until when ends wait for the last of them, where a tolerance is given."""
    first = clock[NEXT_END]
    latest = first + int(float(first) * (float(clock[TOLERANCE]) * 1e-9))
    if clock[WAITING] > 0:  # what starts meanwhile starts at its own time
        latest = max(first, min(latest, lists[0].waiting_ps))
    return int(latest)


@inner_kernel
def _hold_back(clock: I8, lists: Table, blocks: Table) -> Int:
    """Return when the flows that end next may end together: with the last of them."""
    latest, last, active = _latest_of(clock, lists), clock[NEXT_END], clock[ACTIVE]
    for block in range((active + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS):
        if blocks[block].first_ps <= latest:
            clock[FIRST_BLOCK] = min(clock[FIRST_BLOCK], block)
            clock[LAST_BLOCK] = max(clock[LAST_BLOCK], block)
            for k in range(block << BLOCK_BITS, min(active, (block + 1) << BLOCK_BITS)):
                if last < lists[k].due_ps <= latest:
                    last = lists[k].due_ps
    return int(last)


@inlined_kernel
def _note_held(clock: I8, end: Int) -> None:
    """Count a flow that would have ended before now."""
    if end < clock[NOW]:
        clock[HELD_BACK] += 1
        clock[LONGEST_HELD] = max(clock[LONGEST_HELD], clock[NOW] - end)


@inlined_kernel
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
    for block in range(clock[FIRST_BLOCK], clock[LAST_BLOCK] + 1):
        if blocks[block].first_ps <= now:
            for k in range(block << BLOCK_BITS, min(active, (block + 1) << BLOCK_BITS)):
                if lists[k].due_ps <= now:
                    _note_held(clock, lists[k].due_ps)
                    lists[n].batch = lists[k].active
                    n += 1
    _sort_batch(clock, flows, lists, n)
    if n == active:
        _deactivate_all(clock, flows, links, lists)
    for k in range(n):
        if n < active:
            _deactivate(clock, flows, hops, links, lists, blocks, np.int64(lists[k].batch))
        _finish(clock, flows, hops, edges, links, lists, recent, ends, np.int64(lists[k].batch))


@inlined_kernel
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
    while clock[WAITING] > 0 and lists[0].waiting_ps <= now:
        n = np.int64(0)
        while clock[WAITING] > 0 and lists[0].waiting_ps <= now:
            flow = flows[_pop_waiting(clock, lists, recent)].row
            while flow >= 0:
                lists[entered + n].batch = flow
                n += 1
                flow = flows[flow].next_waiting
        stay = entered
        for k in range(entered, entered + n):
            flow = np.int64(lists[k].batch)
            routed = flows[flow].first_hop < flows[flow + 1].first_hop
            if flows[flow].volume == 0 or not (routed or flows[flow].cap < np.inf):
                _finish(clock, flows, hops, edges, links, lists, recent, ends, flow)
            else:
                lists[stay].batch = flow
                stay += 1
        entered = stay
    _sort_batch(clock, flows, lists, entered)
    # So many that all are allocated anew: no region is needed.
    alone = 4 * entered <= clock[ACTIVE] + entered
    if not alone:
        clock[WAIT] = max(1, clock[WAIT])
    for k in range(entered):
        flow = np.int64(lists[k].batch)
        while flow >= 0:
            clock[EVENTS] += 1
            flow = flows[flow].equal
        _activate(clock, flows, hops, links, lists, blocks, np.int64(lists[k].batch), alone)
    return int(entered)


@kernel
def work(engine: tuple[Any, ...], limit_ps: Int, until: Int) -> Int:
    """Work off events up to ``limit_ps`` and return the time of the next, or NEVER.

    ``until`` is NO_EVENT (only look), ALL_EVENTS, or WATCHED_END: stop at the first instant at
    which watched flows end. Where the clock says WANTED, `work_dense` is to go on.
    """
    clock, flows, hops, edges, links, lists, levels, recent, blocks, ends = engine
    clock[REPORTED] = 0
    while True:
        # Flows that start at an instant already begun join it: allocation waits until all have.
        due = clock[WAITING] > 0 and lists[0].waiting_ps <= clock[NOW]
        if clock[STALE] != 0 and not due:
            if clock[NOW] == limit_ps and until != NO_EVENT:
                return int(limit_ps)  # more may be posted at this instant
            _reallocate(clock, flows, hops, links, lists, levels, blocks)
        now = clock[NEXT_END]
        if clock[TOLERANCE] > 0 and now < NEVER and not due:
            now = _hold_back(clock, lists, blocks)
        if clock[WAITING] > 0:
            now = min(now, max(clock[NOW], lists[0].waiting_ps))
        if now > limit_ps or now == NEVER or until == NO_EVENT or clock[WANTED] > 0:
            return int(now)
        clock[NOW] = now
        clock[STALE] = 1
        if clock[NEXT_END] <= now:
            clock[NEXT_END] = NEVER
            _end_due(clock, flows, hops, edges, links, lists, recent, blocks, ends)
        _start_due(clock, flows, hops, edges, links, lists, recent, blocks, ends)
        if until == WATCHED_END and clock[REPORTED] > 0:
            return int(now)
        clock[REPORTED] = 0


@inner_kernel
def _row_of(clock: I8, flows: Table, number: Int) -> Int:
    """Return the row of a flow that has not ended: rows stand in the order of numbers."""
    below, above = np.int64(0), np.int64(clock[ROWS])
    guess = number - (clock[SIZE] - clock[ROWS])  # where it stands if none after it was cleared
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
def _are_equal(flows: Table, hops: Table, one: Int, other: Int) -> bool:
    """Tell whether two flows have the same start, bytes, weight, cap, route and shares."""
    first, place = flows[one].first_hop, flows[other].first_hop
    n = flows[one + 1].first_hop - first
    if (
        flows[one].volume != flows[other].volume
        or flows[one].since_ps != flows[other].since_ps
        or flows[one].startup_ps != flows[other].startup_ps
        or flows[one].weight != flows[other].weight
        or flows[one].cap != flows[other].cap
        or flows[other + 1].first_hop - place != n
    ):
        return False
    for k in range(n):
        if hops[first + k].link != hops[place + k].link:
            return False
        if hops[first + k].share != hops[place + k].share:
            return False
    return True


@inner_kernel
def _wait_alike(dep_ptr: I8, dep: I8, gate: Mask, one: Int, other: Int) -> bool:
    """Tell whether two rows of a post wait for the same flows in the same way."""
    first, place = dep_ptr[one], dep_ptr[other]
    if dep_ptr[one + 1] - first != dep_ptr[other + 1] - place:
        return False
    last = len(gate) - 1
    for j in range(dep_ptr[one + 1] - first):
        if dep[first + j] != dep[place + j]:
            return False
        if gate[min(first + j, last)] != gate[min(place + j, last)]:
            return False
    return True


@inner_kernel
def _power_over(least: Int) -> Int:
    """Return a power of two, not less than 16 and ``least``."""
    power = np.int64(16)
    while power < least:
        power *= 2
    return power


@inner_kernel
def _count_keys(
    start_ps: I8,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    dep_ptr: I8,
    dep: I8,
    kind: I4,
    key: I4,
    times: I4,
) -> Int:
    """Write a key of 31 bits of each flow's columns; count the flows at places taken before."""
    mask, shared = len(times) - 1, 0
    for k in range(len(key)):
        row = np.int64(kind[k]) if len(kind) > 0 else k
        word = nbytes[min(row, len(nbytes) - 1)] ^ (start_ps[min(row, len(start_ps) - 1)] << 3)
        word = (word ^ (word >> 32)) & 0xFFFFFFFF
        for h in range(route_ptr[row], route_ptr[row + 1]):
            word = ((word << 5) ^ (word >> 11) ^ route_link[h]) * 40503 & 0xFFFFFFFF
        if len(dep) > 0:
            for j in range(dep_ptr[k], dep_ptr[k + 1]):
                word = ((word << 5) ^ (word >> 11) ^ dep[j]) * 40503 & 0xFFFFFFFF
        word = (word ^ (word >> 15)) & 0x7FFFFFFF
        key[k] = word
        times[word & mask] += 1
        shared += 1 if times[word & mask] > 1 else 0
    return shared


@inner_kernel
def _group(
    clock: I8,
    flows: Table,
    hops: Table,
    dep_ptr: I8,
    dep: I8,
    gate: Mask,
    key: I4,
    times: I4,
    table: I4,
    last: I4,
    count: I4,
) -> None:
    """Let the first of equal flows of a post stand for all: its shares are multiplied by them.

    The others keep their rows, for those who wait for them, but have nothing to do. ``table`` is
    a hash table of rows plus one, ``last`` and ``count`` are those of the equals so far; all zero.
    """
    first, n = clock[ROWS], len(key)
    rare, mask = len(times) - 1, len(table) - 1
    for k in range(n):
        flow = first + k
        if times[key[k] & rare] < 2 or flows[flow].first_hop == flows[flow + 1].first_hop:
            continue
        slot, tries = (key[k] >> 3) & mask, 0
        while table[slot] > 0 and tries < MOST_TRIES:
            tries += 1
            other = np.int64(table[slot]) - 1
            alike = key[other] == key[k] and _are_equal(flows, hops, first + other, flow)
            if alike and (len(dep) == 0 or _wait_alike(dep_ptr, dep, gate, other, k)):
                flows[first + last[other]].equal = flow
                last[other] = k
                count[other] += 1
                count[k] = -1
                clock[GROUPED] += 1
                break
            slot = (slot + 1) & mask
        if count[k] == 0 and table[slot] == 0:
            table[slot] = k + 1
            last[k] = k
    for k in range(n):
        if count[k] > 0:
            for h in range(flows[first + k].first_hop, flows[first + k + 1].first_hop):
                hops[h].share *= float(count[k] + 1)
        elif count[k] < 0:
            flows[first + k].pending = -1


@inner_kernel
def _wait_for(
    clock: I8,
    flows: Table,
    edges: Table,
    ends: I8,
    flow: Int,
    dep: I8,
    gate: Mask,
    start: Int,
    end: Int,
) -> None:
    """Let a flow, or its bytes alone, wait for ``dep[start:end]``, numbers of flows."""
    for j in range(start, end):
        bytes_alone = gate[min(j, len(gate) - 1)]
        if ends[dep[j]] >= 0:
            ready = ends[dep[j]] - (flows[flow].startup_ps if bytes_alone else 0)
            flows[flow].since_ps = max(flows[flow].since_ps, ready)
            continue
        before = _row_of(clock, flows, dep[j])
        edge = clock[EDGES_USED]
        clock[EDGES_USED] = edge + 1
        edges[edge].flow = -1 - flow if bytes_alone else flow
        edges[edge].next = flows[before].first_edge
        flows[before].first_edge = edge
        flows[flow].pending += 1


@inner_kernel
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
    kind: I4,
    watch: Mask,
    n: Int,
) -> None:
    """Write the columns of a post of n flows into the tables, behind the others."""
    first, hop = clock[ROWS], flows[clock[ROWS]].first_hop
    for k in range(n):
        flow = first + k
        row = np.int64(kind[k]) if len(kind) > 0 else k
        flows[flow].rate = 0.0
        flows[flow].weight = weight[min(row, len(weight) - 1)]
        flows[flow].cap = rate_cap[min(row, len(rate_cap) - 1)]
        flows[flow].volume = nbytes[min(row, len(nbytes) - 1)]
        flows[flow].left = float(flows[flow].volume)
        flows[flow].since_ps = start_ps[min(row, len(start_ps) - 1)]
        flows[flow].startup_ps = startup_ps[min(row, len(startup_ps) - 1)]
        flows[flow].watch = 1 if watch[min(k, len(watch) - 1)] else 0
        flows[flow].number = clock[SIZE] + k
        flows[flow].pending = 0
        flows[flow].first_edge = -1
        flows[flow].equal = -1
        flows[flow].row = -1
        flows[flow].next_waiting = -1
        flows[flow].position = -1
        flows[flow].stopped_by = -1
        flows[flow].inside = 0
        flows[flow].open_in = 0
        flows[flow].odd = 0
        for h in range(route_ptr[row], route_ptr[row + 1]):
            hops[hop].link = route_link[h]
            hops[hop].flow = flow
            hops[hop].next = -1
            hops[hop].prev = -1
            hops[hop].share = route_share[min(h, len(route_share) - 1)]
            hop += 1
        flows[flow + 1].first_hop = hop


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
    clock, flows, hops, edges, links, lists = engine[:6]
    recent, ends = engine[7], engine[9]
    first, n = clock[ROWS], np.int64(len(kind) if len(kind) > 0 else len(route_ptr) - 1)
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
        key, times = np.zeros(n, np.int32), np.zeros(_power_over(4 * n), np.int32)
        shared = _count_keys(
            start_ps, nbytes, route_ptr, route_link, dep_ptr, dep, kind, key, times
        )
        if shared > 0:  # they and their first ones take half of the table at most
            table = np.zeros(_power_over(4 * shared), np.int32)
            last, count = np.zeros(n, np.int32), np.zeros(n, np.int32)
            _group(
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
        ends[clock[SIZE] + k] = -1
    clock[ROWS] += n
    clock[SIZE] += n
    clock[UNFINISHED] += n
    for k in range(n):
        flow = first + k
        if flows[flow].pending < 0:  # another one stands for it
            continue
        if len(dep) > 0:
            _wait_for(clock, flows, edges, ends, flow, dep, gate, dep_ptr[k], dep_ptr[k + 1])
        if flows[flow].pending == 0:
            at_ps = flows[flow].since_ps + flows[flow].startup_ps
            _push_waiting(clock, flows, lists, recent, flow, at_ps)
        for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
            share = hops[h].share
            if flows[flow].cap * share >= links[hops[h].link].capacity:
                flows[flow].cap = np.inf
            if not (share <= MOST_EQUAL and share == float(int(share))):
                flows[flow].odd = 1
        if flows[flow].weight != 1.0 or flows[flow].cap < np.inf:
            flows[flow].odd = 1


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
    for k in range(clock[REGION_FLOWS]):
        lists[k].region = row_now[lists[k].region]
    for k in range(len(recent)):
        recent[k].bucket = row_now[recent[k].bucket]
    clock[ROWS] = kept
    clock[EDGES_USED] = edge
    clock[SUMS] += 1


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
OWN = 8  # the matrix's diagonal: what the row's flows have of the link that holds them back
REALS = 9
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


CELLS = [("slot", "i4"), ("column", "i2"), ("share", "i2")]


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
    slot_begin: I4  # the flow's hops, and where they stop
    slot_stop: I4
    cells: Table  # of each hop


@inner_kernel
def _is_lower(free: F8, rising: F8, slack: F8, level: float) -> Int:
    """Return how many links would be full below a level."""
    lower = 0
    for k in range(len(free)):
        lower += 1 if free[k] + slack[k] < level * rising[k] else 0
    return lower


@inner_kernel
def _lowest(free: F8, rising: F8) -> Int:
    """Return the column with the lowest level; -1 where nothing rises any more."""
    best = -1
    for k in range(len(free)):
        if rising[k] > 0.0 and (best < 0 or free[k] * rising[best] < free[best] * rising[k]):
            best = k
    return best


@inner_kernel
def _freeze_row(row: NDArray[np.int16], free: F8, rising: F8, level: float) -> None:
    """Take a row at a level out of all columns."""
    for k in range(len(free)):
        count = float(row[k])
        free[k] -= level * count
        rising[k] -= count


@inner_kernel
def _freeze_flows(dense: Any, row: Int, free: F8, rising: F8, level: float) -> None:
    """Do what `_freeze_row` does, flow by flow."""
    whole, slot_row, begin, stop, cells = dense[2], dense[6], dense[8], dense[9], dense[10]
    for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
        if slot_row[slot] == row:
            for h in range(begin[slot], stop[slot]):
                share, column = float(cells[h].share), cells[h].column
                free[column] -= level * share
                rising[column] -= share


@inner_kernel
def _copy(source: F8, target: F8) -> None:
    """Copy a row."""
    for k in range(len(source)):
        target[k] = source[k]


@inner_kernel
def _read(reals: F8, whole: I8, row: Int, now: Int) -> float:
    """Return what a row's clock shows now."""
    elapsed = float(now - whole[SINCE, row])
    return float(
        reals[SERVED, row] + (reals[SERVED_LOW, row] + reals[LEVEL, row] * elapsed / PS_PER_S)
    )


@inner_kernel
def _take_slots(flows: Table, hops: Table, links: Table, dense: Any, flow: Int) -> None:
    """Give a flow a slot on each of its links."""
    whole, slot_hop, slot_row, begin, stop, cells = (
        dense[2],
        dense[5],
        dense[6],
        dense[8],
        dense[9],
        dense[10],
    )
    first, end = flows[flow].first_hop, flows[flow + 1].first_hop
    for h in range(first, end):
        column = links[hops[h].link].column
        slot = whole[SLOT, column] + whole[USED, column]
        whole[USED, column] += 1
        slot_hop[slot] = h
        slot_row[slot] = -1
        begin[slot], stop[slot] = first, end
        cells[h].slot = slot
        cells[h].column = column
        cells[h].share = int(hops[h].share)


@inner_kernel
def _give_slots_back(flows: Table, dense: Any, flow: Int) -> None:
    """Let the last slot of each of a flow's links take the place of its own."""
    whole, slot_hop, slot_row, slot_target = dense[2], dense[5], dense[6], dense[7]
    begin, stop, cells = dense[8:11]
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        column, slot = cells[h].column, cells[h].slot
        whole[USED, column] -= 1
        last = whole[SLOT, column] + whole[USED, column]
        slot_hop[slot] = slot_hop[last]
        slot_row[slot] = slot_row[last]
        slot_target[slot] = slot_target[last]
        begin[slot], stop[slot] = begin[last], stop[last]
        cells[slot_hop[slot]].slot = slot


@inner_kernel
def _join_row(clock: I8, flows: Table, dense: Any, flow: Int, row: Int, left: float) -> None:
    """Put a flow with some bytes left into a row."""
    matrix, reals, whole, slot_row, slot_target, cells = (
        dense[0],
        dense[1],
        dense[2],
        dense[6],
        dense[7],
        dense[10],
    )
    if whole[MEMBERS, row] == 0:
        reals[SERVED, row] = 0.0
        reals[SERVED_LOW, row] = 0.0
        reals[LEVEL, row] = 0.0
        reals[TARGET, row] = np.inf
        whole[FIRST, row] = -1
        whole[SINCE, row] = clock[NOW]
    target = _read(reals, whole, row, clock[NOW]) + left
    flows[flow].row = row
    flows[flow].target = target
    whole[MOVED, row] = 1
    whole[MEMBERS, row] += 1
    if target < reals[TARGET, row]:
        reals[TARGET, row] = target
        whole[FIRST, row] = flow
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        matrix[row, cells[h].column] += cells[h].share
        slot_row[cells[h].slot] = row
        if cells[h].column == row:
            slot_target[cells[h].slot] = target
            reals[OWN, row] += cells[h].share


@inner_kernel
def _leave_row(flows: Table, dense: Any, flow: Int) -> None:
    """Take a flow out of its row."""
    matrix, reals, whole, cells = dense[0], dense[1], dense[2], dense[10]
    row = np.int64(flows[flow].row)
    whole[MOVED, row] = 1
    whole[MEMBERS, row] -= 1
    if whole[FIRST, row] == flow:
        whole[FIRST, row] = -1
        reals[TARGET, row] = -1.0  # until it is looked for, nobody is before it
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        matrix[row, cells[h].column] -= cells[h].share
        if cells[h].column == row:
            reals[OWN, row] -= cells[h].share


@inner_kernel
def _gather(clock: I8, flows: Table, hops: Table, dense: Any, column: Int) -> None:
    """Move the rising flows of a link that are in other rows to its own."""
    reals, whole, slot_hop, slot_row = dense[1], dense[2], dense[5], dense[6]
    for slot in range(whole[SLOT, column], whole[SLOT, column] + whole[USED, column]):
        row = np.int64(slot_row[slot])
        if row != column and whole[PLACE, row] == UNPLACED:
            clock[TOUCHED] += 1
            flow = np.int64(hops[slot_hop[slot]].flow)
            left = flows[flow].target - _read(reals, whole, row, clock[NOW])
            _leave_row(flows, dense, flow)
            _join_row(clock, flows, dense, flow, column, left)


@inner_kernel
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


@inner_kernel
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
    ahead = np.int64(0)
    for k in range(first, clock[STEPS]):
        whole[BEFORE, ahead] = whole[ORDER, k]
        ahead += 1
    step, end, at = first, clock[STEPS], np.int64(0)
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
            at = np.int64(0)
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
        if reals[OWN, column] != rising[column]:
            _gather(clock, flows, hops, dense, column)
        own = whole[MEMBERS, column]
        frozen += own
        if 100 * own + whole[USED, column] < len(free):  # in the time of one column of the matrix
            _freeze_flows(dense, column, free, rising, level)
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


@inner_kernel
def _first_of_row(hops: Table, dense: Any, row: Int) -> None:
    """Look for the flow of a row that will end first."""
    reals, whole, slot_hop, slot_row, slot_target = dense[1], dense[2], dense[5], dense[6], dense[7]
    best, first = np.inf, -1
    for slot in range(whole[SLOT, row], whole[SLOT, row] + whole[USED, row]):
        if slot_row[slot] == row and slot_target[slot] < best:
            best, first = slot_target[slot], slot
    reals[TARGET, row] = best
    whole[FIRST, row] = hops[slot_hop[first]].flow


@inner_kernel
def _end_of(target: float, served: float, low: float, level: float, since: Int) -> Int:
    """Return when a row's clock will show a target."""
    duration = float(max(0.0, (target - served) - low) / level * PS_PER_S)
    end: Int = since + int(duration + ROUND_UP) if duration < 4e18 else NEVER
    return end


@inner_kernel
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


@inner_kernel
def _build_rows(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, levels: Table, dense: Any
) -> None:
    """Sort the active flows into rows by what holds them back, and the rows by level."""
    _, reals, whole, free_then, open_then = dense[:5]
    now, n, slots = clock[NOW], len(reals[0]), np.int64(0)
    clock[COLUMNS] = n
    clock[CROWD] = clock[ACTIVE]
    clock[SUMS] += 1
    for link in range(len(links)):
        links[link].column = -1
    for k in range(n):
        link = k if n == len(links) - 1 else links[k].busy
        links[link].column = k
        whole[LINK, k] = link
        whole[PLACE, k] = UNPLACED
        whole[END, k] = NEVER
        whole[SLOT, k] = slots
        slots += links[link].crowd + links[link].crowd // 2 + SPARE_SLOTS
        whole[SLOT_END, k] = slots
        reals[SLACK, k] = SAME_LEVEL * links[link].capacity
        free_then[0, k] = links[link].capacity
        open_then[0, k] = 0.0
        h = links[link].first_hop
        while h >= 0:
            open_then[0, k] += hops[h].share
            h = hops[h].next
    for k in range(clock[ACTIVE]):
        flow = np.int64(lists[k].active)
        _take_slots(flows, hops, links, dense, flow)
        elapsed = float(now - flows[flow].since_ps)
        left = max(0.0, flows[flow].left - flows[flow].rate * elapsed / PS_PER_S)
        row = np.int64(links[flows[flow].stopped_by].column)
        _join_row(clock, flows, dense, flow, row, left)
    rows: Int = np.int64(0)
    for k in range(n):
        if whole[MOVED, k] != 0:
            levels[rows].level = links[whole[LINK, k]].stop_level
            levels[rows].of = k
            rows += 1
    for k in range((rows + 2) // 4 - 1, -1, -1):
        _sink_level(levels, k, rows)
    clock[STEPS] = rows
    for k in range(clock[STEPS]):
        whole[ORDER, k] = levels[0].of
        rows = _drop_top(levels, rows)
    clock[LOWEST] = 0
    clock[STALE] = 1


@inner_kernel
def _unpack_rows(clock: I8, flows: Table, lists: Table, blocks: Table, dense: Any) -> None:
    """Write each active flow's own rate, bytes left and end."""
    reals, whole = dense[1:3]
    for k in range(clock[ACTIVE]):
        flow = lists[k].active
        row = flows[flow].row
        if row < 0:
            continue  # it has just started
        served, low, level = reals[SERVED, row], reals[SERVED_LOW, row], reals[LEVEL, row]
        flows[flow].rate = level
        flows[flow].stopped_by = whole[LINK, row]
        flows[flow].since_ps = whole[SINCE, row]
        flows[flow].left = max(0.0, (flows[flow].target - served) - low)
        lists[k].due_ps = NEVER
        if level > 0.0:
            lists[k].due_ps = _end_of(flows[flow].target, served, low, level, whole[SINCE, row])
        blocks[k >> BLOCK_BITS].dirty = 1


@inner_kernel
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
    reals, whole, open_then, slot_hop, slot_row, slot_target, cells = (
        dense[1],
        dense[2],
        dense[4],
        dense[5],
        dense[6],
        dense[7],
        dense[10],
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
                    lists[n].batch = hops[slot_hop[slot]].flow
                    n += 1
    _sort_ids(lists.batch, n)
    for k in range(n):
        flow = np.int64(lists[k].batch)
        place = whole[PLACE, flows[flow].row]
        clock[LOWEST] = min(clock[LOWEST], place)
        for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
            for snapshot in range(place // STRIDE + 1):
                open_then[snapshot, cells[h].column] -= cells[h].share
        _leave_row(flows, dense, flow)
        _give_slots_back(flows, dense, flow)
        _deactivate(clock, flows, hops, links, lists, blocks, flow)
        _finish(clock, flows, hops, edges, links, lists, recent, ends, flow)


@inner_kernel
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


@inner_kernel
def _lower(clock: I8, flows: Table, hops: Table, links: Table, dense: Any, flow: Int) -> None:
    """Lower `LOWEST` to a snapshot before which one more flow fills none of its links."""
    _, reals, whole, free_then, open_then = dense[:5]
    snapshot = clock[LOWEST] // STRIDE
    for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
        column = links[hops[h].link].column
        snapshot = min(snapshot, whole[PLACE, column] // STRIDE)
        while snapshot > 0:
            level = reals[LEVEL, whole[ORDER, snapshot * STRIDE - 1]]
            if free_then[snapshot, column] > level * (open_then[snapshot, column] + hops[h].share):
                break
            snapshot -= 1
    clock[LOWEST] = min(clock[LOWEST], snapshot * STRIDE)


@inner_kernel
def _start_in_rows(
    clock: I8, flows: Table, hops: Table, links: Table, lists: Table, dense: Any, n: Int
) -> None:
    """Put flows that start into rows, or say that they are unfit for it."""
    whole, open_then = dense[2], dense[4]
    for k in range(n):
        for h in range(flows[lists[k].batch].first_hop, flows[lists[k].batch + 1].first_hop):
            column = links[hops[h].link].column
            if column < 0 or open_then[0, column] + MOST_EQUAL > MOST_SHARES:
                clock[UNFIT] = 1
            elif whole[SLOT, column] + links[hops[h].link].crowd > whole[SLOT_END, column]:
                clock[UNFIT] = CRAMPED if clock[UNFIT] == 0 else clock[UNFIT]
    if clock[ODD_FLOWS] > 0:
        clock[UNFIT] = 1
    if clock[UNFIT] != 0:
        return
    for k in range(n):
        flow = np.int64(lists[k].batch)
        row = np.int64(links[hops[flows[flow].first_hop].link].column)
        _lower(clock, flows, hops, links, dense, flow)
        for h in range(flows[flow].first_hop, flows[flow + 1].first_hop):
            column = links[hops[h].link].column
            for snapshot in range(clock[LOWEST] // STRIDE + 1):
                open_then[snapshot, column] += hops[h].share
            if whole[PLACE, column] < whole[PLACE, row]:
                row = column
        if whole[PLACE, row] == UNPLACED:  # nothing there yet: into the order, at its end
            whole[PLACE, row] = clock[STEPS]
            whole[ORDER, clock[STEPS]] = row
            clock[STEPS] += 1
        _take_slots(flows, hops, links, dense, flow)
        _join_row(clock, flows, dense, flow, row, float(flows[flow].volume))


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
        due = clock[WAITING] > 0 and lists[0].waiting_ps <= clock[NOW]
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
            now = min(now, lists[0].waiting_ps)
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
