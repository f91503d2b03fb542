"""Flows of a post that are equal become one, whose shares are multiplied by their number."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import at, between, first_row, inner_kernel, merged_kernel, of_row, upto

from .state import I4, I8, U1, Column, Int, Mask, Row, Table

# 2**16 over the golden ratio: multiples of it spread keys evenly (D. Knuth, The Art of Computer
# Programming, vol. 3, 6.4).
GOLDEN = 40503
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


@merged_kernel
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
    for k in upto(one.hops):
        stop, its = at(routes, one.first_stop + k), at(routes, other.first_stop + k)
        if stop.link != its.link or stop.share != its.share:
            return False
    return True


@merged_kernel
def _wait_alike(dep_ptr: Column, dep: Column, gate: Mask, one: Int, other: Int) -> bool:
    """Tell whether two rows of a post wait for the same flows in the same way."""
    first, place = dep_ptr[one], dep_ptr[other]
    if dep_ptr[one + 1] - first != dep_ptr[other + 1] - place:
        return False
    for j in upto(dep_ptr[one + 1] - first):
        if dep[first + j] != dep[place + j]:
            return False
        if of_row(gate, first + j) != of_row(gate, place + j):
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
    begin, links, kinds = first_row(route_ptr), first_row(route_link), first_row(kind)
    first_dep, before = first_row(dep_ptr), first_row(dep)
    keys, seen, mask = first_row(key), first_row(times), len(times) - 1
    own_kinds, shared = len(kind) == 0, 0
    for k in upto(len(key)):
        row = k if own_kinds else kinds[k]
        word = of_row(nbytes, row) ^ (of_row(start_ps, row) << 3)
        word = (word ^ (word >> 32)) & 0xFFFFFFFF
        for h in between(begin[row], begin[row + 1]):
            word = ((word << 5) ^ (word >> 11) ^ links[h]) * GOLDEN & 0xFFFFFFFF
        if len(dep) > 0:
            for j in between(first_dep[k], first_dep[k + 1]):
                word = ((word << 5) ^ (word >> 11) ^ before[j]) * GOLDEN & 0xFFFFFFFF
        word = (word ^ (word >> 15)) & 0x7FFFFFFF
        keys[k] = word
        if seen[word & mask] > 0:
            seen[word & mask] = 2
            shared += 1
        else:
            seen[word & mask] = 1
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
    begin, before, keys = first_row(dep_ptr), first_row(dep), first_row(key)
    seen, slots = first_row(times), first_row(table)
    first, rare, mask = clock.rows, len(times) - 1, 15
    while mask < 4 * shared:  # they and their first ones take half of the table at most
        mask = 2 * mask + 1
    for k in upto(len(key)):
        entry = at(posted, first + k)
        if seen[keys[k] & rare] < 2 or at(kinds, entry.kind).hops == 0:
            continue
        slot, tries = (keys[k] >> 3) & mask, 0
        while slots[slot] > 0 and tries < MOST_TRIES:
            tries += 1
            other = slots[slot] - 1
            one = at(posted, first + other)
            alike = keys[other] == keys[k] and one.since_ps == entry.since_ps
            alike = alike and _are_equal(kinds, routes, one.kind, entry.kind)
            if alike and (len(dep) == 0 or _wait_alike(begin, before, gate, other, k)):
                at(posted, one.bucket).equal = first + k
                one.bucket = first + k
                entry.pending = -1
                clock.grouped += 1
                break
            slot = (slot + 1) & mask
        if entry.pending == 0 and slots[slot] == 0:
            slots[slot] = k + 1
            entry.bucket = first + k
