"""A schedule in portions, so that running it on real bytes touches little memory at a time.

Two sorts of schedules fall apart into portions which have nothing to do with each other: those in
which every operation goes from an input to an output (one destination does not see another's), and
those in which every operation keeps its place in the buffer (one element does not see another).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ubnet.schedule import INPUT, JOIN, OUTPUT, Schedule

PORTION_BYTES = 64 << 20
"""What a portion may take, as far as the schedule lets itself be divided."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Portion:
    """A part of a schedule that can be run by itself.

    Attributes
    ----------
    schedule : Schedule
        Its operations, on buffers that hold only what they touch.
    input_first, output_first : ndarray of int64, shape (ranks,)
        Where the buffers of the portion begin within those of the whole.
    """

    schedule: Schedule
    input_first: Ints
    output_first: Ints


def portions(schedule: Schedule, itemsize: int, limit: int = PORTION_BYTES) -> Iterator[Portion]:
    """Divide a schedule into portions of about `limit` bytes; together they do all of it.

    Parameters
    ----------
    schedule : Schedule
        What is done.
    itemsize : int
        Bytes of an element.
    limit : int
        Bytes of all buffers of a portion.

    Yields
    ------
    Portion
        The whole, where it is small enough or cannot be divided.
    """
    parts = -(-int(schedule.sizes.sum()) * itemsize // limit)
    moving = schedule.kind != JOIN
    one_hop = (schedule.src_buf == INPUT) & (schedule.dst_buf == OUTPUT)
    if parts > 1 and (one_hop | ~moving).all():
        yield from _by_destination(schedule, parts)
    elif parts > 1 and ((schedule.src_off == schedule.dst_off) | ~moving).all():
        yield from _by_element(schedule, parts)
    else:
        nothing = np.zeros(schedule.ranks, dtype=np.int64)
        yield Portion(schedule, nothing, nothing)


def largest_portion(schedule: Schedule, itemsize: int, limit: int = PORTION_BYTES) -> int:
    """Return the bytes of the buffers of the largest portion, without making all of them."""
    first = next(portions(schedule, itemsize, limit))
    return int(first.schedule.sizes.sum()) * itemsize


def _by_destination(schedule: Schedule, parts: int) -> Iterator[Portion]:
    """Take some destinations at a time, and of every input what goes to them."""
    ranks = schedule.ranks
    for some in np.array_split(np.arange(ranks), min(parts, ranks)):
        chosen = np.flatnonzero(
            (schedule.dst >= some[0]) & (schedule.dst <= some[-1]) & (schedule.kind != JOIN)
        )
        src, off = schedule.src[chosen], schedule.src_off[chosen]
        first, end = schedule.sizes[:, INPUT].copy(), np.zeros(ranks, dtype=np.int64)
        np.minimum.at(first, src, off)
        np.maximum.at(end, src, off + schedule.count[chosen])
        sizes = np.zeros_like(schedule.sizes)
        sizes[:, INPUT] = np.maximum(end - first, 0)
        sizes[some, OUTPUT] = schedule.sizes[some, OUTPUT]
        part = _chosen(
            schedule, chosen, sizes, off - first[src], schedule.dst_off[chosen], schedule.count
        )
        yield Portion(part, first, np.zeros(ranks, dtype=np.int64))


def _by_element(schedule: Schedule, parts: int) -> Iterator[Portion]:
    """Take some elements at a time, on all ranks."""
    edges = np.linspace(0, schedule.sizes.max(), parts + 1).astype(np.int64)
    for low, high in pairwise(edges):
        start = np.maximum(schedule.src_off, low)
        count = np.minimum(schedule.src_off + schedule.count, high) - start
        chosen = np.flatnonzero((count > 0) & (schedule.kind != JOIN))
        sizes = np.clip(schedule.sizes, low, high) - low
        off = start[chosen] - low
        begin = np.full(schedule.ranks, low)
        yield Portion(_chosen(schedule, chosen, sizes, off, off, count), begin, begin)


def _chosen(
    whole: Schedule, chosen: Ints, sizes: Ints, src_off: Ints, dst_off: Ints, count: Ints
) -> Schedule:
    """Return some operations of a schedule; their order is kept, so they need no dependencies."""
    return Schedule(
        name=whole.name,
        ranks=whole.ranks,
        sizes=sizes,
        kind=whole.kind[chosen],
        step=whole.step[chosen],
        src=whole.src[chosen],
        dst=whole.dst[chosen],
        src_buf=whole.src_buf[chosen],
        src_off=src_off,
        dst_buf=whole.dst_buf[chosen],
        dst_off=dst_off,
        count=count[chosen],
        dep_ptr=np.zeros(len(chosen) + 1, dtype=np.int64),
        dep=np.empty(0, dtype=np.int64),
    )
