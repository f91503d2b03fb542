"""When the active flows end at their present rates, in blocks of 32, each with its first end.

A rate that changes moves an end; the first of all is asked for at each instant. So a block whose
first end has gone is looked through but once an instant, and the firsts of all blocks stand side by
side.
"""

from typing import NamedTuple

from ubnet.jit import between, inlined_kernel, lesser, merged_kernel, upto

from .state import NEVER, Column, Engine, Int, Row

BITS = 5
SIZE = 1 << BITS
UNKNOWN = -1  # instead of the first end of a block that has to be looked through


class Blocks(NamedTuple):
    """The ends of the active flows, by their places."""

    due_ps: Column
    first_ps: Column  # of each block
    unknown: Column  # the blocks that have to be looked through


@merged_kernel
def blocks_of(engine: Engine) -> Blocks:
    """Return the ends of an engine's active flows."""
    return Blocks(engine.due_ps, engine.first_ps, engine.unknown)


@merged_kernel
def forget_first(clock: Row, blocks: Blocks, block: Int) -> None:
    """Have a block looked through before the next end is asked for."""
    if blocks.first_ps[block] != UNKNOWN:
        blocks.first_ps[block] = UNKNOWN
        blocks.unknown[clock.unknown_blocks] = block
        clock.unknown_blocks += 1


@inlined_kernel
def forget_all(clock: Row, blocks: Blocks) -> None:
    """Have all blocks looked through."""
    clock.unknown_blocks = (clock.active + SIZE - 1) >> BITS
    for block in upto(clock.unknown_blocks):
        blocks.first_ps[block] = UNKNOWN
        blocks.unknown[block] = block


@merged_kernel
def open_place(blocks: Blocks, place: Int) -> None:
    """Let there be one place more, behind the others, of a flow that does not end yet."""
    blocks.due_ps[place] = NEVER
    if place & (SIZE - 1) == 0:
        blocks.first_ps[place >> BITS] = NEVER


@inlined_kernel
def set_due(clock: Row, blocks: Blocks, place: Int, due_ps: Int) -> None:
    """Set the end of the active flow at a place."""
    block = place >> BITS
    first_ps = blocks.first_ps[block]
    if blocks.due_ps[place] == first_ps and due_ps > first_ps:
        forget_first(clock, blocks, block)
    elif due_ps < first_ps:
        blocks.first_ps[block] = due_ps
    blocks.due_ps[place] = due_ps


@inlined_kernel
def find_next_end(clock: Row, blocks: Blocks) -> None:
    """Find the first end of all active flows, and the blocks from the first to the last with it."""
    due_ps, first_ps = blocks.due_ps, blocks.first_ps
    for k in upto(clock.unknown_blocks):
        block, first = blocks.unknown[k], NEVER
        for place in between(block << BITS, lesser(clock.active, (block + 1) << BITS)):
            first = lesser(first, due_ps[place])
        first_ps[block] = first
    clock.unknown_blocks = 0
    n, soonest = (clock.active + SIZE - 1) >> BITS, NEVER
    for block in upto(n):
        soonest = lesser(soonest, first_ps[block])
    clock.next_end = soonest
    if soonest == NEVER:
        return
    block = 0
    while first_ps[block] > soonest:
        block += 1
    clock.first_block = block
    block = n - 1
    while first_ps[block] > soonest:
        block -= 1
    clock.last_block = block
