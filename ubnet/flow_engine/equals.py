"""Flows of a post that are equal become one, whose shares are multiplied by their number."""

import numpy as np

from ubnet.jit import inner_kernel

from .state import I4, I8, Int, Mask, Row, Table

MOST_TRIES = 64  # flows that are compared with one for being equal


@inner_kernel
def _are_equal(flows: Table, hops: Table, one_id: Int, other_id: Int) -> bool:
    """Tell whether two flows have the same start, bytes, weight, cap, route and shares."""
    one, other = flows[one_id], flows[other_id]
    n = flows[one_id + 1].first_hop - one.first_hop
    if (
        one.volume != other.volume
        or one.since_ps != other.since_ps
        or one.startup_ps != other.startup_ps
        or one.weight != other.weight
        or one.cap != other.cap
        or flows[other_id + 1].first_hop - other.first_hop != n
    ):
        return False
    for k in range(n):
        hop, its = hops[one.first_hop + k], hops[other.first_hop + k]
        if hop.link != its.link or hop.share != its.share:
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
def power_over(least: Int) -> Int:
    """Return a power of two, not less than 16 and ``least``."""
    power = np.int64(16)
    while power < least:
        power *= 2
    return power


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
def group(
    clock: Row,
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
    first, n = clock.rows, len(key)
    rare, mask = len(times) - 1, len(table) - 1
    for k in range(n):
        flow_id = first + k
        routed = flows[flow_id].first_hop < flows[flow_id + 1].first_hop
        if times[key[k] & rare] < 2 or not routed:
            continue
        slot, tries = (key[k] >> 3) & mask, 0
        while table[slot] > 0 and tries < MOST_TRIES:
            tries += 1
            other = np.int64(table[slot]) - 1
            alike = key[other] == key[k] and _are_equal(flows, hops, first + other, flow_id)
            if alike and (len(dep) == 0 or _wait_alike(dep_ptr, dep, gate, other, k)):
                flows[first + last[other]].equal = flow_id
                last[other] = k
                count[other] += 1
                count[k] = -1
                clock.grouped += 1
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
