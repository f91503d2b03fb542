"""What comes first: ids of flows in order, and a heap of levels."""

import numpy as np

from ubnet.jit import inner_kernel

from .state import I4, TOP, Int, Row, Table

FEW_ROWS = 16  # so many to look at for each flow of a batch cost less than sorting it
IN_BATCH = -2  # instead of the next flow that waits


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
def sort_ids(ids: I4, n: Int) -> None:
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


@inner_kernel
def sort_batch(clock: Row, flows: Table, lists: Table, n: Int) -> None:
    """Sort the first n flows of the batch, none of which waits in the queue.

    Where they are many of the rows, a walk over these is faster than sorting.
    """
    if FEW_ROWS * n < clock.rows:
        sort_ids(lists.batch, n)
        return
    for k in range(n):
        flows[lists[k].batch].next_waiting = IN_BATCH
    place = np.int64(0)
    for row in range(clock.rows):
        if flows[row].next_waiting == IN_BATCH:
            flows[row].next_waiting = -1
            lists[place].batch = row
            place += 1


@inner_kernel
def sink_level(levels: Table, k: Int, n: Int) -> None:
    """Sink place k in a heap of four children a place whose lowest level is on top."""
    place = levels[k]
    x, x_of = place.level, place.of
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
        place.level = least
        place.of = levels[lowest].of
        k, place = lowest, levels[lowest]
    place.level = x
    place.of = x_of


@inner_kernel
def drop_top(levels: Table, waiting: Int) -> Int:
    """Take the top off a heap of levels; return how many are left."""
    waiting -= 1
    top, last = levels[0], levels[waiting]
    top.level = last.level
    top.of = last.of
    if waiting > 0:
        sink_level(levels, TOP, waiting)
    return waiting


@inner_kernel
def raise_level(levels: Table, k: Int, level: float, of: Int) -> None:
    """Put one more level into a heap of k."""
    place = levels[k]
    while k > 0:
        k = (k - 1) >> 2
        above = levels[k]
        if above.level <= level:
            break
        place.level = above.level
        place.of = above.of
        place = above
    place.level = level
    place.of = of
