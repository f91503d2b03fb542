"""What comes first: rows of flows in order, and a heap of levels."""

import numpy as np

from ubnet.jit import at, between, inlined_kernel, inner_kernel, lesser, upto

from .state import TOP, Int, Row, Table

FEW_ROWS = 16  # so many to look at for each flow of a batch cost less than sorting it
IN_BATCH = -2  # instead of the next flow that waits


@inner_kernel
def _sink(lists: Table, k: Int, n: Int) -> None:
    """Sink place k of the batch in a heap whose largest is on top."""
    x = at(lists, k).batch
    while True:
        child = 2 * k + 1
        if child >= n:
            break
        largest = at(lists, child).batch
        if child + 1 < n and at(lists, child + 1).batch > largest:
            child += 1
            largest = at(lists, child).batch
        if largest <= x:
            break
        at(lists, k).batch = largest
        k = child
    at(lists, k).batch = x


@inlined_kernel
def _swap(lists: Table, one: Int, other: Int) -> None:
    """Let two places of the batch change places."""
    at(lists, one).batch, at(lists, other).batch = at(lists, other).batch, at(lists, one).batch


@inner_kernel
def sort_rows(lists: Table, n: Int) -> None:
    """Sort the first n of the batch; costs one pass where they are sorted or reversed."""
    rising, falling = True, True
    for k in between(1, n):
        if at(lists, k).batch < at(lists, k - 1).batch:
            rising = False
        else:
            falling = False
    if rising:
        return
    if falling:
        for k in upto(n >> 1):
            _swap(lists, k, n - 1 - k)
        return
    k = n >> 1
    while k > 0:
        k -= 1
        _sink(lists, k, n)
    k = n
    while k > 1:
        k -= 1
        _swap(lists, TOP, k)
        _sink(lists, TOP, k)


@inner_kernel
def sort_batch(clock: Row, posted: Table, lists: Table, n: Int) -> None:
    """Sort the first n rows of the batch, none of which waits in the queue.

    Where they are many of the rows, a walk over these is faster than sorting.
    """
    if FEW_ROWS * n < clock.rows:
        sort_rows(lists, n)
        return
    for k in upto(n):
        at(posted, at(lists, k).batch).next_waiting = IN_BATCH
    place = np.int64(0)
    for row in upto(clock.rows):
        if at(posted, row).next_waiting == IN_BATCH:
            at(posted, row).next_waiting = -1
            at(lists, place).batch = row
            place += 1


@inner_kernel
def sink_level(levels: Table, k: Int, n: Int) -> None:
    """Sink place k in a heap of four children a place whose lowest level is on top."""
    place = at(levels, k)
    x, x_of = place.level, place.of
    while True:
        child = 4 * k + 1
        if child >= n:
            break
        lowest, least = child, at(levels, child).level
        for other in between(child + 1, lesser(child + 4, n)):
            if at(levels, other).level < least:
                lowest, least = other, at(levels, other).level
        if least >= x:
            break
        place.level = least
        place.of = at(levels, lowest).of
        k, place = lowest, at(levels, lowest)
    place.level = x
    place.of = x_of


@inner_kernel
def order_levels(levels: Table, n: Int) -> None:
    """Make a heap of n levels."""
    k = (n + 2) >> 2
    while k > 0:
        k -= 1
        sink_level(levels, k, n)


@inner_kernel
def drop_top(levels: Table, waiting: Int) -> Int:
    """Take the top off a heap of levels; return how many are left."""
    waiting -= 1
    top, last = at(levels, 0), at(levels, waiting)
    top.level = last.level
    top.of = last.of
    if waiting > 0:
        sink_level(levels, TOP, waiting)
    return waiting


@inner_kernel
def raise_level(levels: Table, k: Int, level: float, of: Int) -> None:
    """Put one more level into a heap of k."""
    place = at(levels, k)
    while k > 0:
        k = (k - 1) >> 2
        above = at(levels, k)
        if above.level <= level:
            break
        place.level = above.level
        place.of = above.of
        place = above
    place.level = level
    place.of = of
