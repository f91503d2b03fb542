"""All-to-all: rank r gets block r of every rank's array, in rank order."""

from ubnet.schedule import Schedule

from .exchange import Exchange


def mesh(ranks: int, count: int) -> Schedule:
    """Let every rank write to every other, all in one step.

    Parameters
    ----------
    ranks, count : int
        Number of ranks; elements for every peer.

    Examples
    --------
    >>> mesh(3, 7)
    <Schedule all_to_all mesh: 3 ranks, 9 operations, 1 steps>
    """
    return Exchange.even(ranks, count).mesh("all_to_all mesh")


def pairwise(ranks: int, count: int) -> Schedule:
    """Exchange with one peer after the other, in n - 1 steps.

    Parameters
    ----------
    ranks, count : int
        As for `mesh`.

    Examples
    --------
    >>> pairwise(3, 7)
    <Schedule all_to_all pairwise: 3 ranks, 9 operations, 2 steps>
    """
    return Exchange.even(ranks, count).pairwise("all_to_all pairwise")


ALGORITHMS = {"mesh": mesh, "pairwise": pairwise}
