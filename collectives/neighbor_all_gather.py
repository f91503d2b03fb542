"""Neighbourhood all-gather: every rank sends the same block to each of its neighbours."""

from collections.abc import Sequence
from typing import Any

from ubnet.schedule import Schedule

from . import neighbours


def mesh(parts: Sequence[Sequence[Any]]) -> Schedule:
    """Let every rank write to all its neighbours in one step.

    Parameters
    ----------
    parts : sequence of (outward, inward)
        What every rank gives: its edges to others and from others, each as columns (peers, labels,
        counts, starts); see `ubnet.collectives.neighbours.paired`.

    Examples
    --------
    A ring of three, in which everybody has two elements for the next.

    >>> parts = [(([(r + 1) % 3], [0], [2], [0]), ([(r - 1) % 3], [0], [2], [0])) for r in range(3)]
    >>> mesh(parts)
    <Schedule neighbor_all_gather mesh: 3 ranks, 3 operations, 1 steps>
    """
    return neighbours.mesh(parts, "neighbor_all_gather")


ALGORITHMS = {"mesh": mesh}
