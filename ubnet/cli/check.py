"""Comparing what ranks have received with what an operation must leave there."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ubnet.cli.expected import MOVES, PREFIXES, SCATTERED_SUMS, SUMS, Call, Parts
from ubnet.cli.inputs import Numbers, native, wrong_repeated
from ubnet.cli.tiles import Tile, Window

Ints = NDArray[np.int64]


class Received(Protocol):
    """What ranks have received; an `Arena` is such."""

    @property
    def held(self) -> Ints:
        """The ranks that are here."""
        ...

    @property
    def flat(self) -> NDArray[Any]:
        """The memory of all of them."""
        ...

    def outputs(self) -> tuple[Ints, Ints]:
        """Return where the outputs of these ranks begin in it, and how many elements each has."""
        ...


class Check:
    """Counts what is wrong in the outputs of a call, tile after tile.

    Parameters
    ----------
    call : Call
        What is done.
    numbers : Numbers
        What is in the inputs.
    """

    def __init__(self, call: Call, numbers: Numbers) -> None:
        self.call, self.numbers = call, numbers
        self._last: Tile | None = None
        self._parts: list[tuple[slice, Parts]] = []

    def wrong(self, tile: Tile, received: Received) -> int:
        """Count the elements of all outputs that differ from what the call must leave there.

        Parameters
        ----------
        tile : Tile
            The part of the call that was run.
        received : Received
            The memory after it.
        """
        if self.call.op == "barrier":
            return 0
        if self.call.op in PREFIXES:
            return self._wrong_prefixes(tile.outputs, received)
        if self.call.op in SUMS:
            return self._wrong_sums(tile.outputs, received)
        return self._wrong_moved(tile, received)

    def _wrong_moved(self, tile: Tile, received: Received) -> int:
        window = tile.outputs
        if self._last is None or tile.operations is not self._last.operations:
            self._parts = list(_parts(self.call, window, received))
            self._last = tile
        # Tiles that do the same lie at another place within the same units.
        place = int((window.first - self._last.outputs.first).max(initial=0))
        wrong = 0
        for span, parts in self._parts:
            columns = parts.at, parts.source, parts.first + place, parts.count
            values = received.flat[span]
            wrong += self.numbers.wrong_moved(values, *columns, window.width, window.unit)
        return wrong

    def _wrong_sums(self, window: Window, received: Received) -> int:
        """Compare with the sums over all ranks."""
        start, count = received.outputs()
        blocks = self.call.starts if self.call.op in SCATTERED_SUMS else 0
        first = (window.first + blocks)[received.held]
        columns = start, first, count, window.width, window.unit
        return self.numbers.wrong_sums(received.flat, self.call.ranks, *columns)

    def _wrong_prefixes(self, window: Window, received: Received) -> int:
        """Compare each rank with the sums over the ranks below it, and itself in a scan."""
        wrong, added, total = 0, 0, np.zeros_like(self.numbers.of_rank(0))
        for rank, start, count in zip(received.held.tolist(), *received.outputs(), strict=True):
            below = rank + (self.call.op == "scan")
            for other in range(added, below):
                total += self.numbers.of_rank(other)
            added = below
            if below:  # nobody may rely on what an exscan leaves on rank 0
                output, begin = received.flat[start : start + count], int(window.first[rank])
                wrong += wrong_repeated(output, total, begin, window.width, window.unit)
        return wrong


def _parts(call: Call, window: Window, received: Received) -> Iterator[tuple[slice, Parts]]:
    """Yield which memory is compared at once, and the parts of it.

    It is all of it where kernels know the type of its elements, else the output of one rank, so
    that no more than that is converted.
    """
    outputs = list(zip(received.held.tolist(), *received.outputs(), strict=True))
    filled = [output for output in outputs if output[2]]
    together = native(received.flat.dtype)
    for some in filter(None, [filled] if together else [[output] for output in filled]):
        begin = some[0][1]
        found = Parts.joined(
            [_parts_of(call, rank, window, count).behind(at - begin) for rank, at, count in some]
        )
        yield slice(begin, some[-1][1] + some[-1][2]), found


def _parts_of(call: Call, rank: int, window: Window, count: int) -> Parts:
    """Return the parts of what a rank holds of its output in a tile."""
    first = int(window.first[rank])
    if window.unit:
        return MOVES[call.op](call, rank).of_units(first, window.width, window.unit)
    return MOVES[call.op](call, rank).within(first, count)
