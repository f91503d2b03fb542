"""Send-receive: every rank sends an array to the next one and gets that of the one before."""

import numpy as np

from ubnet.schedule import Schedule
from ubnet.schedule_builder import ScheduleBuilder


def shift(ranks: int, count: int) -> Schedule:
    """Let all ranks send at the same time, the last one to the first.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements of an array.

    Examples
    --------
    >>> shift(3, 7)
    <Schedule send_recv shift: 3 ranks, 3 operations, 1 steps>
    """
    builder = ScheduleBuilder("send_recv shift", ranks, [count, count, 0])
    rank = np.arange(ranks if count else 0)
    builder.add(0, rank, (rank + 1) % ranks, 0, 0, count)
    return builder.build()


ALGORITHMS = {"shift": shift}
