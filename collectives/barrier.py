"""Barrier: no rank leaves before every rank has come."""

import numpy as np

from ubnet.schedule import Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .fan import others
from .tree import depth


def dissemination(ranks: int, count: int = 0) -> Schedule:
    """Tell ever more ranks in ceil(log2 n) steps: in step k the rank 2**k further on.

    A rank passes on what it has heard in all steps before, so each send also waits for its last.

    Parameters
    ----------
    ranks : int
        Number of ranks.
    count : int, optional
        Not used: a barrier moves no data.

    Examples
    --------
    >>> dissemination(5)
    <Schedule barrier dissemination: 5 ranks, 15 operations, 3 steps>
    """
    builder = ScheduleBuilder("barrier dissemination", ranks, [0, 0, 0])
    rank = np.arange(ranks)
    before = None
    for step in range(depth(ranks)):
        sent = builder.add(step, rank, (rank + (1 << step)) % ranks, 0, 0, 0, after=before)
        before = np.stack([sent, np.roll(sent, 1 << step)], axis=-1)
    return builder.build()


def mesh(ranks: int, count: int = 0) -> Schedule:
    """Tell every other rank, all in one step.

    Parameters
    ----------
    ranks : int
        Number of ranks.
    count : int, optional
        Not used: a barrier moves no data.
    """
    builder = ScheduleBuilder("barrier mesh", ranks, [0, 0, 0])
    rank = np.arange(ranks)
    builder.add(0, rank[:, None], others(rank, ranks), 0, 0, 0)
    return builder.build()


ALGORITHMS = {"dissemination": dissemination, "mesh": mesh}
