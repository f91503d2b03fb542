"""Fans of the full mesh: one rank and all the others, in one step."""

import numpy as np
from numpy.typing import NDArray

from ubnet.schedule import REDUCE, REDUCE_LEFT

from .blocks import Ints


def others(rank: Ints, ranks: int) -> Ints:
    """Return every other rank, starting behind each given one, shape (len(rank), ranks - 1).

    >>> others(np.array([0, 2]), 4).tolist()
    [[1, 2, 3], [3, 0, 1]]
    """
    return (rank[:, None] + np.arange(1, ranks)) % ranks


def in_rank_order(owner: Ints, ranks: int) -> tuple[Ints, NDArray[np.int64]]:
    """Return whom an owner adds to its own part, in which order, and from which side.

    The ranks below come from the left, nearest first, then those above from the right: so an
    operation that is associative but not commutative gets its operands in rank order.

    Returns
    -------
    peer, kind : ndarray of int64, shape (len(owner), ranks - 1)
        The other ranks, and REDUCE_LEFT or REDUCE.

    Examples
    --------
    >>> peer, kind = in_rank_order(np.array([2]), 4)
    >>> peer.tolist(), (kind == REDUCE_LEFT).tolist()
    ([[1, 0, 3]], [[True, True, False]])
    """
    place = np.arange(ranks - 1)
    mine = owner[:, None]
    below = place < mine
    return np.where(below, mine - 1 - place, place + 1), np.where(below, REDUCE_LEFT, REDUCE)
