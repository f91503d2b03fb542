"""All-gather of uneven blocks: every rank gets every rank's block, in rank order."""

from collections.abc import Callable, Sequence

import numpy as np

from ubnet.schedule import Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .block_stages import ALL_GATHER
from .uneven import blocks
from .whole_stages import SCRATCH_ROOMS
from .work import Work


def by(name: str, operation: str = "all_gather_v") -> Callable[[Sequence[int]], Schedule]:
    """Return the builder of an algorithm, which takes the elements of each rank's block.

    >>> by("ring")([2, 0, 1])
    <Schedule all_gather_v ring: 3 ranks, 6 operations, 2 steps>
    """

    def make(counts: Sequence[int]) -> Schedule:
        team = blocks(counts)
        start, size = team.start[0], team.size[0]
        sizes = np.stack([size, 0 * size + size.sum(), 0 * size], axis=1)
        sizes[:, 2] = SCRATCH_ROOMS.get(name, 0) * size.sum()
        builder = ScheduleBuilder(f"{operation} {name}", len(size), sizes, in_order=name == "ring")
        rank = np.flatnonzero(size)
        ready = np.full(len(size), -1)
        ready[rank] = builder.add(0, rank, rank, 0, start[rank], size[rank])
        ALL_GATHER[name](Work(builder, ready), team)
        return builder.build()

    return make


ALGORITHMS = {name: by(name) for name in ("mesh", "ring", "nhr", "nb")}
