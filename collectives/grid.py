"""The levels of a fabric as a grid of ranks: dies of a package or server, servers, supernodes."""

from dataclasses import dataclass

import numpy as np

from ubnet.errors import ScheduleError
from ubnet.fabric import Fabric

from .blocks import Ints

USUAL = 16
"""Ranks of a server where no fabric says otherwise: the dies of a CloudMatrix384's node."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Ranks in boxes of equal size.

    Attributes
    ----------
    ranks : ndarray of int64
        The ranks; the last axis is the innermost level, level 0.
    """

    ranks: Ints

    @property
    def levels(self) -> int:
        """Number of levels."""
        return self.ranks.ndim

    def teams(self, level: int) -> Ints:
        """Return the groups of a level: ranks that differ at this level alone.

        >>> usual_grid(6, 3).teams(1).tolist()
        [[0, 3], [1, 4], [2, 5]]
        """
        axis = self.levels - 1 - level
        return np.moveaxis(self.ranks, axis, -1).reshape(-1, self.ranks.shape[axis])

    @property
    def in_order(self) -> bool:
        """Whether the ranks of every box follow each other."""
        return bool((self.ranks.reshape(-1) == np.arange(self.ranks.size)).all())


def usual_grid(ranks: int, server: int = USUAL) -> Grid:
    """Return servers of the largest equal size up to `server` ranks that follow each other."""
    size = next(size for size in range(min(server, ranks), 0, -1) if ranks % size == 0)
    return Grid(np.arange(ranks).reshape(-1, size))


def grid_of(fabric: Fabric, endpoints: Ints, *, packages: bool = False) -> Grid:
    """Return the grid that the places of the ranks make: nodes, and in them packages if wanted.

    Raises
    ------
    ScheduleError
        If nodes or packages hold different numbers of ranks.
    """
    labels = [fabric.node_of[endpoints]]
    if packages:
        labels.append(fabric.package_of[endpoints])
    order = np.lexsort([np.arange(len(endpoints)), *labels[::-1]])
    shape, inside = [], len(endpoints)
    for label in labels:
        sizes = np.unique(np.unique(label, return_counts=True)[1])
        if len(sizes) > 1:
            raise ScheduleError(
                f"levels need boxes of equal size, but nodes or packages hold from {sizes[0]} to "
                f"{sizes[-1]} of the {len(endpoints)} ranks: take another algorithm or place"
            )
        shape.append(inside // int(sizes[0]))
        inside = int(sizes[0])
    return Grid(order.reshape(*shape, inside))
