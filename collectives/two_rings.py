"""Two rings over the same ranks, each with half of every block."""

from collections.abc import Callable

import numpy as np

from .blocks import Ints
from .work import Team


def opposite(ranks: int) -> tuple[Ints, Ints]:
    """Return the ring in both directions.

    >>> [ring.tolist() for ring in opposite(4)]
    [[0, 1, 2, 3], [3, 2, 1, 0]]
    """
    return np.arange(ranks), np.arange(ranks)[::-1]


def interleaved(ranks: int) -> tuple[Ints, Ints]:
    """Return the ring, and one over every second rank first: it crosses no link of the other.

    >>> [ring.tolist() for ring in interleaved(5)]
    [[0, 1, 2, 3, 4], [0, 2, 4, 1, 3]]
    """
    rank = np.arange(ranks)
    return rank, np.concatenate([rank[::2], rank[1::2]])


def rings(orders: tuple[Ints, Ints], start: Ints, size: Ints) -> list[Team]:
    """Return the teams of two rings; each has half of the block of every rank."""
    half = size // 2
    shares = (start, size - half), (start + size - half, half)
    return [
        Team(order[None, :], first[order][None, :], length[order][None, :])
        for order, (first, length) in zip(orders, shares, strict=True)
    ]


ORDERS: dict[str, Callable[[int], tuple[Ints, Ints]]] = {
    "bidirectional_ring": opposite,
    "double_ring": interleaved,
}
