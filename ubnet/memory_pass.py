"""The reductions of one rank in one step: one pass over its memory once all has arrived."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.compressed_rows import number_of
from ubnet.schedule import Schedule

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MemoryPasses:
    """The memory passes of a schedule, ordered by (step, rank).

    Attributes
    ----------
    member, number : ndarray of int64
        The operations that reduce, and the pass of each.
    rank, elements : ndarray of int64, shape (passes,)
        Where a pass is, and how many elements arrive for it.
    """

    member: Ints
    number: Ints
    rank: Ints
    elements: Ints

    @classmethod
    def of(cls, schedule: Schedule) -> "MemoryPasses":
        """Find the passes of a schedule."""
        s = schedule
        member = np.flatnonzero(s.reduces)
        key = s.step[member].astype(np.int64) * s.ranks + s.dst[member]
        found, number = number_of(key)
        # Exact: whole numbers far below 2**53.
        elements = np.bincount(number, s.count[member], len(found)).astype(np.int64)
        return cls(member, number, found % max(s.ranks, 1), elements)
