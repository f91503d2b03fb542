"""Memory on which a whole schedule runs again and again: laid out and looked up once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.reductions import Combine
from ubnet.replay import Moves, moves_of
from ubnet.schedule import Schedule

KEPT_BYTES = 1 << 20
"""Larger memory is not kept: what its bytes cost hides what its making costs."""

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
    arena : Arena
        The memory; zeros when it is made and after `clear`.
    """

    def __init__(self, schedule: Schedule, dtype: np.dtype[Any]) -> None:
        self.arena = Arena(schedule.sizes, dtype)
        self._moves: Moves = moves_of(schedule, self.arena)
        ranks = range(schedule.ranks)
        self.inputs: list[Array] = [self.arena.input(rank) for rank in ranks]
        self.outputs: list[Array] = [self.arena.output(rank) for rank in ranks]

    def run(self, reduce: str | Combine) -> None:
        """Run the schedule."""
        self._moves.run(self.arena, reduce)

    def clear(self) -> None:
        """Make it as it was."""
        self.arena.flat[:] = np.zeros((), self.arena.dtype)


class Stages:
    """The stages of one schedule that nobody uses, for whoever runs it next."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._free: dict[np.dtype[Any], list[Stage]] = {}

    def take(self, dtype: np.dtype[Any]) -> Stage:
        """Return a stage for elements of a type."""
        free = self._free.get(dtype)
        return free.pop() if free else Stage(self._schedule, dtype)

    def give_back(self, stage: Stage) -> None:
        """Keep a stage for the next one, if it is small."""
        if stage.arena.flat.nbytes <= KEPT_BYTES:
            stage.clear()
            self._free.setdefault(stage.arena.dtype, []).append(stage)
