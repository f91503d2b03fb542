"""Running a collective in place on real bytes: input and output of a rank in one array."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.cli.expected import Call, wrong_elements
from ubnet.cli.inputs import Numbers
from ubnet.cli.tiles import whole
from ubnet.in_place import Placed, in_place, placed
from ubnet.operation import INPUT, OUTPUT
from ubnet.schedule import Schedule

MOST_BYTES = 64 << 20
"""Larger rows are not run a second time, in place: their bytes were checked out of place."""


@dataclass(frozen=True, eq=False)
class OneArray:
    """The outputs within arrays that hold the inputs, too.

    Attributes
    ----------
    arena : Arena
        The arrays, as outputs of the schedule in place.
    sizes : ndarray of int64, shape (ranks, 3)
        Of the schedule out of place.
    where : Placed
        Where its buffers begin.
    """

    arena: Arena
    sizes: NDArray[np.int64]
    where: Placed

    @property
    def held(self) -> NDArray[np.int64]:
        """The ranks that are here."""
        return self.arena.held

    def input(self, rank: int) -> NDArray[Any]:
        """Return a view of what a rank sends."""
        begin = self.where.input[rank]
        return self.arena.output(rank)[begin : begin + self.sizes[rank, INPUT]]

    def output(self, rank: int) -> NDArray[Any]:
        """Return a view of a rank's output."""
        begin = self.where.output[rank]
        return self.arena.output(rank)[begin : begin + self.sizes[rank, OUTPUT]]


def wrong_in_place(call: Call, schedule: Schedule, dtype: np.dtype[Any], numbers: Numbers) -> int:
    """Run a schedule in place and count the elements of its outputs that are wrong.

    Parameters
    ----------
    call : Call
        What is done.
    schedule : Schedule
        How, out of place.
    dtype : dtype
        Type of the elements.
    numbers : Numbers
        What the ranks send.
    """
    where = placed(schedule.sizes)
    tile = whole(in_place(schedule, where))
    arrays = OneArray(Arena(tile.sizes, dtype), schedule.sizes, where)
    for rank in map(int, arrays.held):
        numbers.fill(arrays.input(rank), rank)
    tile.moves(arrays.arena).run(arrays.arena)
    return wrong_elements(call, tile, arrays, numbers)
