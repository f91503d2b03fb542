"""Flows of a post that are equal become one, whose shares are multiplied by their number."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import inner_kernel

from .first_rows import at
from .state import I4, I8, U1, Int, Mask, Row, Table

MOST_TRIES = 64  # flows that are compared with one for being equal
NO_ROOM = tuple(np.zeros(0, kind) for kind in (np.int32, np.uint8, np.int32))


def room_to_compare(n: int) -> tuple[NDArray[Any], ...]:
    """Return arrays for `count_keys` and `group` to work in: key, times, table.

    The second and the third are hash tables, four times as long as there are flows: they are fast
    when nearly empty, and memory that nobody touches costs nothing.
    """
    if n < 2:
        return NO_ROOM
    places = 1 << max(4, (4 * n - 1).bit_length())
    return (
        np.empty(n, np.int32),
        np.zeros(places, np.uint8),
        np.zeros(places, np.int32),
    )


@inner_kernel
def _are_equal(kinds: Table, routes: Table, one_id: Int, other_id: Int) -> bool:
    """Tell whether flows of two kinds have the same bytes, weight, cap, route and shares."""
    one, other = at(kinds, one_id), at(kinds, other_id)
    if (
        one.volume != other.volume
        or one.startup_ps != other.startup_ps
        or one.weight != other.weight
        or one.cap != other.cap
        or one.hops != other.hops
    ):
        return False
    for k in range(one.hops):
        stop, its = at(routes, one.first_stop + k), at(routes, other.first_stop + k)
        if stop.link != its.link or stop.share != its.share:
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
def count_keys(
    start_ps: I8,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    dep_ptr: I8,
    dep: I8,
    kind: I4,
    key: I4,
    times: U1,
) -> Int:
    """Write a key of 31 bits of each flow's columns; count the flows at places taken before.

    ``times`` says where there were two or more.
    """
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
        if times[word & mask] > 0:
            times[word & mask] = 2
            shared += 1
        else:
            times[word & mask] = 1
    return shared


@inner_kernel
def group(
    clock: Row,
    posted: Table,
    kinds: Table,
    routes: Table,
    dep_ptr: I8,
    dep: I8,
    gate: Mask,
    key: I4,
    times: U1,
    table: I4,
    shared: Int,
) -> None:
    """Let the first of equal flows of a post stand for all, which follow it in a list.

    The others keep their rows, for those who wait for them, but have nothing to do. ``shared`` is
    what `count_keys` returned. ``table`` is a hash table of rows plus one, all zero. The last of
    its equals so far is kept at the first, where the queue's lists will begin.
    """
    first, n = clock.rows, len(key)
    rare, mask = len(times) - 1, 15
    while mask < 4 * shared:  # they and their first ones take half of the table at most
        mask = 2 * mask + 1
    for k in range(n):
        entry = at(posted, first + k)
        if times[key[k] & rare] < 2 or at(kinds, entry.kind).hops == 0:
            continue
        slot, tries = (key[k] >> 3) & mask, 0
        while table[slot] > 0 and tries < MOST_TRIES:
            tries += 1
            other = np.int64(table[slot]) - 1
            one = at(posted, first + other)
            alike = key[other] == key[k] and one.since_ps == entry.since_ps
            alike = alike and _are_equal(kinds, routes, np.int64(one.kind), np.int64(entry.kind))
            if alike and (len(dep) == 0 or _wait_alike(dep_ptr, dep, gate, other, k)):
                at(posted, one.bucket).equal = first + k
                one.bucket = first + k
                entry.pending = -1
                clock.grouped += 1
                break
            slot = (slot + 1) & mask
        if entry.pending == 0 and table[slot] == 0:
            table[slot] = k + 1
            entry.bucket = first + k
