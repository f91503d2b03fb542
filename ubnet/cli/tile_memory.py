"""The memory in which tiles of schedules are run on real bytes, one after another."""

from numpy.typing import DTypeLike

from ubnet.arena import Arena
from ubnet.cli.inputs import Numbers
from ubnet.cli.tiles import Tile
from ubnet.operation import INPUT, OUTPUT, SCRATCH
from ubnet.replay import Moves


class TileMemory:
    """Memory that is kept from tile to tile, and with it what runs tiles that are alike.

    Parameters
    ----------
    dtype : dtype_like
        Type of the elements.
    instead : Arena, optional
        Memory that nobody needs any more, to begin with.

    Attributes
    ----------
    arena : Arena
        What is there after the last tile.
    """

    def __init__(self, dtype: DTypeLike, instead: Arena | None = None) -> None:
        self.arena = Arena([], dtype, instead=instead)
        self._last: Tile | None = None
        self._moves = Moves([])

    def run(self, tile: Tile, numbers: Numbers) -> None:
        """Give every rank what it sends and run a tile."""
        if self._last is None or tile.operations is not self._last.operations:
            self.arena = Arena(tile.sizes, self.arena.dtype, instead=self.arena)
            self._moves = tile.moves(self.arena)
            self._last = tile
        self.arena.clear(*([SCRATCH] if tile.in_place else [OUTPUT, SCRATCH]))
        fill_inputs(tile, self.arena, numbers)
        self._moves.run(self.arena)


def fill_inputs(tile: Tile, arena: Arena, numbers: Numbers) -> None:
    """Give every rank the numbers that it sends in a tile."""
    held, window = arena.held, tile.inputs
    buf = OUTPUT if tile.in_place else INPUT
    at, count, first = arena.start[held, buf], arena.sizes[held, buf], window.first[held]
    numbers.fill_parts(arena.flat, at, held, first, count, window.width, window.unit)
