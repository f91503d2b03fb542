"""Engines that take the transfers of a schedule in the order of its steps.

Flows that share an engine slow each other down and end together, late. Where pieces follow each
other along a chain, that makes bunches of them, and a bunch moves like one large piece: the
pipeline is gone. A queue of descriptors serves the first piece first. So the bytes of a transfer
follow those of the step before on the same engine, a gate for them alone: its start-up needs no
engine and begins when the data is there. Transfers of one step share it as ever.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.compressed_rows import pointers
from ubnet.fabric import Ints
from ubnet.schedule import Schedule


@dataclass(frozen=True, eq=False)
class EngineOrder:
    """Which transfer's bytes follow which: those of the step before on the same engine.

    Attributes
    ----------
    held : ndarray of int64
        The transfers that keep an order, ascending.
    count : ndarray of int64, shape (held,)
        How many each of them follows.
    earlier : ndarray of int64, shape (sum of counts,)
        These, row by row.
    """

    held: Ints
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
            A number for what each transfer has to itself while it moves: the engine of a rank, or
            its link inside the package; -1 for all else.
        """
        held = np.flatnonzero(engine >= 0)
        keys = [
            _small(column[held])
            for column in (engine, schedule.step - schedule.step.min(initial=0))
        ]
        queue = np.lexsort(keys[::-1])
        turns = np.zeros(len(queue), dtype=bool)
        turns[:1] = True
        for key in keys:
            turns[1:] |= np.diff(key[queue]) != 0
        first = np.flatnonzero(turns)
        size = np.diff(first, append=len(queue))
        follows = np.zeros(len(first), dtype=bool)
        follows[1:] = np.diff(keys[0][queue[first]]) == 0
        # Behind each transfer of a turn come all of the turn before.
        before = np.repeat(np.where(follows, np.roll(size, 1), 0), size)
        begin = np.repeat(np.repeat(np.roll(first, 1), size), before)
        number = np.arange(len(begin)) - np.repeat(np.cumsum(before) - before, before)
        count = np.empty(len(held), dtype=np.int64)
        count[queue] = before
        place = np.repeat(pointers(count)[queue], before) + number
        earlier = np.empty(len(begin), dtype=np.int64)
        earlier[place] = held[queue[begin + number]]
        return cls(held, count, earlier)

    @classmethod
    def none(cls) -> "EngineOrder":
        """Return an order that nothing keeps."""
        return cls(*np.zeros((3, 0), dtype=np.int64))

    def added_to(self, ptr: Ints, dep: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """Return what each flow waits for with the order in it, and which of these are gates.

        Parameters
        ----------
        ptr, dep : ndarray of int64
            What the flows wait for without any order, in compressed rows; the operations first.
        """
        before = np.zeros(len(ptr), dtype=np.int64)
        before[self.held + 1] = self.count
        ptr = ptr + np.cumsum(before, out=before)
        gate = np.zeros(len(dep) + len(self.earlier), dtype=bool)
        gate[_lasts(ptr[self.held + 1], self.count)] = True
        made = np.empty(len(gate), dtype=np.int64)
        made[gate], made[~gate] = self.earlier, dep
        return ptr, made, gate


def _lasts(end: Ints, count: Ints) -> Ints:
    """Return the last so many places before each end.

    >>> _lasts(np.array([4, 9]), np.array([1, 2]))
    array([3, 7, 8])
    """
    first = np.repeat(end - np.cumsum(count), count)
    return first + np.arange(len(first))


def _small(values: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return numbers from 0 on in the smallest type: numpy sorts two bytes much faster."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))
