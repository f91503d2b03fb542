"""Engines that take the transfers of a schedule in the order of its steps.

Flows that share an engine slow each other down and end together, late. Where pieces follow each
other along a chain, that makes bunches of them, and a bunch moves like one large piece: the
pipeline is gone. A queue of descriptors serves the first piece first. So the bytes of a transfer
follow those of the step before on the same engine, a gate for them alone: its start-up needs no
engine and begins when the data is there. Transfers of one step share it as ever.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import Ints
from ubnet.jit import kernel
from ubnet.schedule import Schedule


@dataclass(frozen=True, eq=False)
class EngineOrder:
    """Which transfers' bytes follow which: those of the step before on the same engine.

    Attributes
    ----------
    count : ndarray of int64, shape (operations,)
        How many each of the operations follows.
    earlier : ndarray of int64, shape (sum of counts,)
        These, row by row.
    """

    count: Ints
    earlier: Ints

    @classmethod
    def of(cls, schedule: Schedule, engine: Ints) -> "EngineOrder":
        """Find the order of a schedule's transfers.

        Parameters
        ----------
        schedule : Schedule
            What is done.
        engine : ndarray of int64, shape (operations,)
            A number from 0 on for what each transfer has to itself while it moves: the engine of a
            rank, or its link inside the package; -1 for all else.
        """
        step = schedule.step
        queue = np.flatnonzero(engine >= 0)
        if (np.diff(step[queue]) < 0).any():
            queue = queue[np.argsort(step[queue], kind="stable")]
        return cls(*_turns(engine, step, queue, int(engine.max(initial=-1)) + 1))

    @classmethod
    def none(cls, operations: int) -> "EngineOrder":
        """Return an order that nothing keeps."""
        return cls(np.zeros(operations, dtype=np.int64), np.zeros(0, dtype=np.int64))


@kernel
def _turns(engine: Ints, step: NDArray[np.int32], queue: Ints, engines: int) -> tuple[Ints, Ints]:
    """Return how many operations each one follows, and which: all of its engine's last turn.

    `queue` holds the transfers, step by step.
    """
    count = np.zeros(len(engine), np.int64)
    now, size, size_before = np.zeros((3, engines), np.int64)
    for op in queue:
        of = engine[op]
        if size[of] == 0 or step[op] != now[of]:
            now[of], size_before[of], size[of] = step[op], size[of], 0
        size[of] += 1
        count[op] = size_before[of]
    place = np.zeros(len(engine) + 1, np.int64)
    for op in range(len(engine)):
        place[op + 1] = place[op] + count[op]
    earlier = np.empty(place[-1], np.int64)
    # The transfers of a turn are a list from its first to its last.
    first, last, first_before = np.full((3, engines), -1)
    following = np.full(len(engine), -1, np.int32)
    for op in queue:
        of = engine[op]
        if first[of] < 0 or step[op] != step[last[of]]:
            first_before[of], first[of] = first[of], op
        else:
            following[last[of]] = op
        last[of] = op
        other = first_before[of]
        while other >= 0:
            earlier[place[op]] = other
            place[op] += 1
            other = np.int64(following[other])
    return count, earlier
