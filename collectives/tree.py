"""The binomial tree: whoever has something doubles the number of those that have it."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .blocks import Ints


class Round(NamedTuple):
    """The edges of one round of a binomial tree, in numbers counted from the root.

    Attributes
    ----------
    step : int
        Number of the round.
    parent, child : ndarray of int64
        The two ends of each edge.
    below : ndarray of int64
        How many numbers, from the child's on, hang below the edge.
    """

    step: int
    parent: Ints
    child: Ints
    below: Ints


def depth(ranks: int) -> int:
    """Return the number of rounds, the binary logarithm rounded up.

    >>> [depth(ranks) for ranks in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    return (ranks - 1).bit_length()


def downwards(ranks: int) -> Iterator[Round]:
    """Yield the rounds from the root to the leaves; what hangs below an edge has no gap.

    >>> [(r.parent.tolist(), r.child.tolist(), r.below.tolist()) for r in downwards(5)]
    [([0], [4], [1]), ([0], [2], [2]), ([0, 2], [1, 3], [1, 1])]
    """
    for step in range(depth(ranks)):
        reach = 1 << (depth(ranks) - 1 - step)
        parent = np.arange(0, ranks - reach, 2 * reach)
        child = parent + reach
        yield Round(step, parent, child, np.minimum(reach, ranks - child))


def upwards(ranks: int) -> Iterator[Round]:
    """Yield the rounds from the leaves to the root."""
    for step, edges in enumerate(reversed(list(downwards(ranks)))):
        yield edges._replace(step=step)


def subtree(ranks: int) -> Ints:
    """Return how many numbers stand in the subtree of each, itself included.

    >>> subtree(5).tolist()
    [5, 1, 2, 1, 1]
    """
    number = np.arange(ranks)
    reach = np.where(number, number & -number, ranks)
    return np.minimum(reach, ranks - number)
