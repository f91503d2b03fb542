"""Running a collective in place on real bytes: input and output of a rank in one array."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.cli.check import Check
from ubnet.cli.expected import Call
from ubnet.cli.inputs import Numbers
from ubnet.cli.tiles import whole
from ubnet.in_place import Placed, in_place, placed
from ubnet.operation import INPUT, OUTPUT
from ubnet.schedule import Schedule

Ints = NDArray[np.int64]

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
    sizes: Ints
    where: Placed

    @property
    def held(self) -> Ints:
        """The ranks that are here."""
        return self.arena.held

    @property
    def flat(self) -> NDArray[Any]:
        """The memory of all of them."""
        return self.arena.flat

    def inputs(self) -> tuple[Ints, Ints]:
        """Return where what each rank sends begins in the memory, and how many elements it has."""
        return self.arena.outputs()[0] + self.where.input[self.held], self.sizes[self.held, INPUT]

    def outputs(self) -> tuple[Ints, Ints]:
        """Return the same of what each rank receives."""
        return self.arena.outputs()[0] + self.where.output[self.held], self.sizes[self.held, OUTPUT]


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
    at, count = arrays.inputs()
    numbers.fill_parts(arrays.flat, at, arrays.held, np.zeros_like(at), count)
    tile.moves(arrays.arena).run(arrays.arena)
    return Check(call, numbers).wrong(tile, arrays)
