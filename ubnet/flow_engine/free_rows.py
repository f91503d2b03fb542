"""Rows of flows that move bytes: taken as they enter the network, free again as they leave it.

Few flows of a long schedule move at a time: their rows, used again and again, stay in the cache.
"""

import numpy as np

from ubnet.jit import at, inlined_kernel, merged_kernel

from .state import Int, Row, Table

ROOM_A_HOP = 2  # rows of hops that are set apart for each, at most; and one for a flow without


@inlined_kernel
def size_of_room(hops: Int) -> Int:
    """Return the power of two of the rows of hops that are set apart for so many."""
    size = np.int64(0)
    while (1 << size) < hops:
        size += 1
    return size


@merged_kernel
def take_row(clock: Row, flows: Table, hops: Int) -> Int:
    """Return a row with room for so many hops: the one that came free last, or a fresh one."""
    size = size_of_room(hops)
    sizes = at(flows, size)
    free: Int = sizes.first_free - 1
    if free >= 0:
        sizes.first_free = at(flows, free).next_free
    else:
        free = clock.flow_rows
        clock.flow_rows += 1
        at(flows, free).first_hop = clock.hop_rows
        clock.hop_rows += 1 << size
    pass_by(clock, hops)
    at(flows, free).end_hop = at(flows, free).first_hop + hops
    return free


@inlined_kernel
def pass_by(clock: Row, hops: Int) -> None:
    """Note that a flow ends without having moved a byte: it needs no row."""
    clock.to_come -= 1
    clock.hops_to_come -= 1 << size_of_room(hops)


@inlined_kernel
def give_back(flows: Table, flow_id: Int) -> None:
    """Let a row be free for flows with as many hops."""
    flow = at(flows, flow_id)
    sizes = at(flows, size_of_room(flow.end_hop - flow.first_hop))
    flow.next_free = sizes.first_free
    sizes.first_free = flow_id + 1
