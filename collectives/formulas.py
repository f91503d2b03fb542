"""What each algorithm costs in steps, messages, elements sent and elements combined, by formula.

Written from the description of the algorithms, apart from the code that builds their schedules,
so that each can be held against the other. Sources: the table of costs in Thakur, Rabenseifner
and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005), carried over to
counts that do not divide.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .blocks import Ints, split
from .exchange import Exchange
from .tree import depth, subtree


@dataclass(frozen=True, eq=False)
class Cost:
    """The cost of one algorithm; columns have the shape (ranks,).

    Attributes
    ----------
    rounds : int
        Messages on the longest chain in which each waits for the one before.
    steps : ndarray of int64
        Steps in which a rank sends or receives.
    messages, sent : ndarray of int64
        Messages and elements that a rank sends.
    reduced : ndarray of int64
        Elements that a rank combines with its own.
    """

    rounds: int
    steps: Ints
    messages: Ints
    sent: Ints
    reduced: Ints


def cost(
    operation: str, algorithm: str, ranks: int, count: int, *, root: int = 0, chunks: int = 1
) -> Cost:
    """Return the cost of an algorithm by its formula.

    Parameters
    ----------
    operation, algorithm : str
        Names of the registry; not all_to_all_v, which has `exchange_cost`.
    ranks, count, root, chunks : int
        As for the builders.

    Examples
    --------
    >>> ring = cost("all_reduce", "ring", ranks=4, count=1000)
    >>> ring.rounds, ring.sent.tolist()
    (6, [1500, 1500, 1500, 1500])
    """
    if ranks == 1 or (count == 0 and operation != "barrier"):
        return _cost(ranks, 0)
    turned = (np.arange(ranks) - root) % ranks
    return FORMULAS[operation, algorithm](turned, count, chunks)


def exchange_cost(algorithm: str, parts: Sequence[Sequence[Any]]) -> Cost:
    """Return the cost of all_to_all_v by what the ranks have for each other."""
    count = Exchange.of_parts(parts).count.copy()
    np.fill_diagonal(count, 0)
    ranks, rank = len(count), np.arange(len(count))
    steps, level = np.zeros(ranks, dtype=np.int64), np.zeros(ranks, dtype=np.int64)
    for shift in range(1, ranks):
        sends = count[rank, (rank + shift) % ranks] > 0
        receives = np.roll(sends, shift)
        steps += sends | receives
        reached = np.where(sends, level + 1, 0)
        level = np.maximum.reduce([level, reached, np.roll(reached, shift)])
    if algorithm == "mesh":
        steps, level = np.minimum(steps, 1), np.minimum(level, 1)
    messages, sent = (count > 0).sum(axis=1), count.sum(axis=1)
    return _cost(ranks, int(level.max()), steps, messages, sent)


def _cost(
    ranks: int, rounds: int, steps: Any = 0, messages: Any = 0, sent: Any = 0, reduced: Any = 0
) -> Cost:
    columns = [np.broadcast_to(c, ranks).astype(np.int64) for c in (steps, messages, sent, reduced)]
    return Cost(rounds, *columns)


def _children(turned: Ints) -> Ints:
    """Return how many children each number has in the binomial tree."""
    ranks = len(turned)
    reach = 1 << np.arange(depth(ranks))
    lowest = np.where(turned, turned & -turned, ranks)[:, None]
    found: Ints = ((reach < lowest) & (turned[:, None] + reach < ranks)).sum(axis=1)
    return found


def _dissemination(turned: Ints, count: int, chunks: int) -> Cost:
    rounds = depth(len(turned))
    return _cost(len(turned), rounds, rounds, rounds)


def _mesh_barrier(turned: Ints, count: int, chunks: int) -> Cost:
    return _cost(len(turned), 1, 1, len(turned) - 1)


def _fan_out(turned: Ints, count: int, chunks: int) -> Cost:
    messages = np.where(turned, 0, len(turned) - 1)
    return _cost(len(turned), 1, 1, messages, messages * count)


def _fan_in(turned: Ints, count: int, chunks: int) -> Cost:
    messages = np.minimum(turned, 1)
    return _cost(len(turned), 1, 1, messages, messages * count)


def _fan_in_sum(turned: Ints, count: int, chunks: int) -> Cost:
    ranks, sends = len(turned), np.minimum(turned, 1)
    return _cost(ranks, 1, 1, sends, sends * count, np.where(turned, 0, (ranks - 1) * count))


def _all_pairs(turned: Ints, count: int, chunks: int) -> Cost:
    ranks = len(turned)
    return _cost(ranks, 1, 1, ranks - 1, (ranks - 1) * count)


def _all_pairs_sum(turned: Ints, count: int, chunks: int) -> Cost:
    ranks = len(turned)
    return _cost(ranks, 1, 1, ranks - 1, (ranks - 1) * count, (ranks - 1) * count)


def _pairwise(turned: Ints, count: int, chunks: int) -> Cost:
    ranks = len(turned)
    return _cost(ranks, ranks - 1, ranks - 1, ranks - 1, (ranks - 1) * count)


def _chain(place: Ints, count: int, chunks: int) -> Cost:
    """Place 0 starts the chain, the last place ends it."""
    ranks, parts = len(place), min(chunks, count)
    inner = (place > 0) & (place < ranks - 1)
    sends = place < ranks - 1
    return _cost(ranks, ranks - 1, parts + inner, sends * parts, sends * count)


def _chain_sum(turned: Ints, count: int, chunks: int) -> Cost:
    ranks = len(turned)
    place = (turned - 1) % ranks
    found = _chain(place, count, chunks)
    return _cost(ranks, found.rounds, found.steps, found.messages, found.sent, (place > 0) * count)


def _tree_down(turned: Ints, count: int, chunks: int) -> Cost:
    children = _children(turned)
    steps = children + (turned > 0)
    return _cost(len(turned), depth(len(turned)), steps, children, children * count)


def _tree_down_blocks(turned: Ints, count: int, chunks: int) -> Cost:
    children = _children(turned)
    sent = (subtree(len(turned))[turned] - 1) * count
    return _cost(len(turned), depth(len(turned)), children + (turned > 0), children, sent)


def _tree_up_blocks(turned: Ints, count: int, chunks: int) -> Cost:
    sends = np.minimum(turned, 1)
    sent = sends * subtree(len(turned))[turned] * count
    return _cost(len(turned), depth(len(turned)), _children(turned) + sends, sends, sent)


def _tree_up_sum(turned: Ints, count: int, chunks: int) -> Cost:
    children, sends = _children(turned), np.minimum(turned, 1)
    rounds = depth(len(turned))
    return _cost(len(turned), rounds, children + sends, sends, sends * count, children * count)


def _mesh_all_reduce(turned: Ints, count: int, chunks: int) -> Cost:
    """Every rank sends all blocks but its own, then its own to all."""
    ranks = len(turned)
    size = split(count, ranks)[1]
    owns = size > 0
    messages = owns.sum() - owns + owns * (ranks - 1)
    return _cost(ranks, 2, 2, messages, count + size * (ranks - 2), (ranks - 1) * size)


def _ring_all_reduce(turned: Ints, count: int, chunks: int) -> Cost:
    """Every rank sends all blocks twice, but once each of the two that end behind it."""
    ranks = len(turned)
    size = split(count, ranks)[1]
    parts = np.minimum(size, chunks)
    messages, sent = (2 * c.sum() - np.roll(c, -1) - np.roll(c, -2) for c in (parts, size))
    hop = np.arange(2 * ranks - 2)
    goes = turned[:, None] - hop
    steps = np.maximum(parts[goes % ranks], parts[(goes - 1) % ranks]).sum(axis=1)
    return _cost(ranks, 2 * (ranks - 1), steps, messages, sent, count - size)


def _ring_blocks(turned: Ints, count: int, chunks: int) -> Cost:
    ranks, parts = len(turned), min(chunks, count)
    hops = ranks - 1
    return _cost(ranks, hops, hops * parts, hops * parts, hops * count)


def _ring_blocks_sum(turned: Ints, count: int, chunks: int) -> Cost:
    found = _ring_blocks(turned, count, chunks)
    return _cost(
        len(turned), found.rounds, found.steps, found.messages, found.sent, reduced=found.sent
    )


FORMULAS: dict[tuple[str, str], Callable[[Ints, int, int], Cost]] = {
    ("barrier", "dissemination"): _dissemination,
    ("barrier", "mesh"): _mesh_barrier,
    ("broadcast", "mesh"): _fan_out,
    ("broadcast", "ring"): _chain,
    ("broadcast", "binomial"): _tree_down,
    ("reduce", "mesh"): _fan_in_sum,
    ("reduce", "ring"): _chain_sum,
    ("reduce", "binomial"): _tree_up_sum,
    ("all_reduce", "mesh"): _mesh_all_reduce,
    ("all_reduce", "ring"): _ring_all_reduce,
    ("all_gather", "mesh"): _all_pairs,
    ("all_gather", "ring"): _ring_blocks,
    ("reduce_scatter", "mesh"): _all_pairs_sum,
    ("reduce_scatter", "ring"): _ring_blocks_sum,
    ("gather", "mesh"): _fan_in,
    ("gather", "binomial"): _tree_up_blocks,
    ("scatter", "mesh"): _fan_out,
    ("scatter", "binomial"): _tree_down_blocks,
    ("all_to_all", "mesh"): _all_pairs,
    ("all_to_all", "pairwise"): _pairwise,
}
