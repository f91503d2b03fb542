"""All-to-all of uneven parts: what each rank has for each other is the ranks' own affair."""

from collections.abc import Sequence
from typing import Any

from ubnet.schedule import Schedule

from .exchange import Exchange


def mesh(parts: Sequence[Sequence[Any]]) -> Schedule:
    """Let every rank write to every other for which it has something, all in one step.

    Parameters
    ----------
    parts : sequence of (sendcounts, sdispls, recvcounts, rdispls)
        What every rank gives: elements for and from each rank, and where they stand in its input
        and output.

    Examples
    --------
    >>> rank0 = ([1, 2], [0, 1], [1, 0], [0, 1])
    >>> rank1 = ([0, 4], [0, 0], [2, 4], [0, 2])
    >>> mesh([rank0, rank1])
    <Schedule all_to_all_v mesh: 2 ranks, 3 operations, 1 steps>
    """
    return Exchange.of_parts(parts).mesh("all_to_all_v mesh")


def pairwise(parts: Sequence[Sequence[Any]]) -> Schedule:
    """Exchange with one peer after the other, in n - 1 steps, leaving out what is empty.

    Parameters
    ----------
    parts : sequence of (sendcounts, sdispls, recvcounts, rdispls)
        As for `mesh`.
    """
    return Exchange.of_parts(parts).pairwise("all_to_all_v pairwise")


ALGORITHMS = {"mesh": mesh, "pairwise": pairwise}
