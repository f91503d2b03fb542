"""Engines that take the transfers of a schedule in the order of its steps.

Flows that share an engine slow each other down and end together, late. Where pieces follow each
other along a chain, that makes bunches of them, and a bunch moves like one large piece: the
pipeline is gone. A queue of descriptors serves the first piece first. So the start-up of a transfer
becomes a flow of its own, which needs no engine and begins when the data is there; its bytes
follow those of the step before on the same engine. Transfers of one step share it as ever.
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

    def added_to(self, ptr: Ints, dep: Ints, first_start: int) -> tuple[Ints, Ints]:
        """Return what each flow waits for once start-ups are flows that wait for the data.

        Parameters
        ----------
        ptr, dep : ndarray of int64
            What the flows wait for without any order, in compressed rows.
        first_start : int
            Where the rows of start-ups are put in; their transfers wait for them instead, and for
            their engine.
        """
        if not len(self.held):
            return ptr, dep
        held, lengths = self.held, np.diff(ptr)
        is_held = np.zeros(len(lengths), dtype=bool)
        is_held[held] = True
        now = lengths.copy()
        now[held] = 1 + self.count
        ptr = pointers(np.concatenate([now[:first_start], lengths[held], now[first_start:]]))
        first, last = ptr[first_start], ptr[first_start + len(held)]
        made = np.empty(ptr[-1], dtype=np.int64)
        of_start = np.repeat(is_held, lengths)
        made[first:last] = dep[of_start]
        as_before = np.repeat(~is_held[:first_start], now[:first_start])
        rest = dep[~of_start]
        behind = len(rest) - (ptr[-1] - last)
        made[:first][as_before] = rest[:behind]
        made[last:] = rest[behind:]
        of_engine = ~as_before
        of_engine[ptr[held]] = False
        made[:first][of_engine] = self.earlier
        made[ptr[held]] = first_start + np.arange(len(held))
        return ptr, made


def _small(values: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return numbers from 0 on in the smallest type: numpy sorts two bytes much faster."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))
