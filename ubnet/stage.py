"""Memory on which a whole schedule runs again and again: laid out and looked up once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.reductions import Combine
from ubnet.replay import Moves, moves_of
from ubnet.schedule import Schedule

KEPT_BYTES = 1 << 26
"""A bound on the memory of all stages that are kept."""

Array = NDArray[Any]


class Stage:
    """All ranks of a schedule in one memory.

    Parameters
    ----------
    schedule : Schedule
        What runs.
    dtype : numpy.dtype
        The type of every element.

    Attributes
    ----------
    schedule : Schedule
        What runs.
    arena : Arena
        The memory; zeros when it is made and after `clear`.
    inputs, outputs : list of ndarray
        Every rank's.
    """

    def __init__(self, schedule: Schedule, dtype: np.dtype[Any]) -> None:
        self.schedule = schedule
        self.arena = Arena(schedule.sizes, dtype)
        self._moves: Moves = moves_of(schedule, self.arena)
        ranks = range(schedule.ranks)
        self.inputs: list[Array] = [self.arena.input(rank) for rank in ranks]
        self.outputs: list[Array] = [self.arena.output(rank) for rank in ranks]

    @property
    def nbytes(self) -> int:
        """Bytes of its memory."""
        return self.arena.flat.nbytes

    def run(self, reduce: str | Combine) -> None:
        """Run the schedule."""
        self._moves.run(self.arena, reduce)

    def clear(self) -> None:
        """Make it as it was."""
        self.arena.flat[:] = np.zeros((), self.arena.dtype)


class Stages:
    """Stages that nobody uses, for whoever runs the same schedule next."""

    def __init__(self) -> None:
        self._free: dict[tuple[Schedule, np.dtype[Any]], list[Stage]] = {}
        self._nbytes = 0

    def take(self, schedule: Schedule, dtype: np.dtype[Any]) -> Stage:
        """Return a stage of a schedule for elements of a type."""
        free = self._free.get((schedule, dtype))
        if not free:
            return Stage(schedule, dtype)
        stage = free.pop()
        self._nbytes -= stage.nbytes
        return stage

    def give_back(self, stage: Stage) -> None:
        """Keep a stage for the next one; the kinds used first are forgotten if there are many."""
        stage.clear()
        self._free.setdefault((stage.schedule, stage.arena.dtype), []).append(stage)
        self._nbytes += stage.nbytes
        while self._nbytes > KEPT_BYTES:
            forgotten = self._free.pop(next(iter(self._free)))
            self._nbytes -= sum(stage.nbytes for stage in forgotten)
