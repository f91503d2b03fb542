"""What the composed algorithms cost in all, where the count divides: rounds, bytes, sums.

From the table of costs in Thakur, Rabenseifner and Gropp (2005), the descriptions of NHR and NB by
HCCL and of the double binary tree by NCCL; apart from the code that builds the schedules.
"""

from collections.abc import Callable
from math import ceil, log2
from typing import NamedTuple

from .grid import usual_grid


class Totals(NamedTuple):
    """The cost of an algorithm, all ranks together.

    Attributes
    ----------
    rounds : int or None
        Messages on the longest chain; None where no formula stands for it.
    sent, reduced : int
        Elements that are sent, and that are combined with others, by all ranks together.
    """

    rounds: int | None
    sent: int
    reduced: int


def totals(operation: str, algorithm: str, ranks: int, count: int) -> Totals:
    """Return the cost of an algorithm for a count that every part of the ranks divides.

    >>> totals("all_reduce", "nhr", ranks=5, count=100)
    Totals(rounds=6, sent=800, reduced=400)
    """
    if ranks == 1 or count == 0:
        return Totals(0, 0, 0)
    return TOTALS[operation, algorithm](ranks, count)


def _log(ranks: int) -> int:
    return ceil(log2(ranks))


def _fold(ranks: int) -> tuple[int, int]:
    """Return the largest power of two up to p, and how many ranks fold into it."""
    inner = 1 << (ranks.bit_length() - 1)
    return inner, ranks - inner


def _recursive_doubling(p: int, n: int) -> Totals:
    inner, extra = _fold(p)
    steps = inner.bit_length() - 1
    each = inner * steps * n
    return Totals(steps + 2 * (extra > 0), each + 2 * extra * n, each + extra * n)


def _halving_doubling(p: int, n: int) -> Totals:
    inner, extra = _fold(p)
    rounds = 2 * (inner.bit_length() - 1) + 2 * (extra > 0)
    return Totals(rounds, 2 * (inner - 1) * n + 2 * extra * n, (inner - 1) * n + extra * n)


def _servers(p: int) -> tuple[int, int]:
    """Return the number of servers and the ranks of each."""
    servers, inside = usual_grid(p).ranks.shape
    return servers, inside


def _levels(p: int, n: int) -> Totals:
    servers, inside = _servers(p)
    return Totals(2 * (inside > 1) + 2 * _log(servers), 2 * (p - 1) * n, (p - 1) * n)


def _levels_blocks(p: int, n: int) -> int:
    servers, inside = _servers(p)
    return (inside > 1) + _log(servers)


def _levels_exchange(p: int, n: int) -> Totals:
    servers, inside = _servers(p)
    sent = p * n * (servers * (inside - 1) + inside * (servers - 1))
    return Totals((inside > 1) + (servers > 1), sent, 0)


def _levels_tree(p: int, n: int) -> int:
    """One step inside; a binomial tree between servers."""
    servers, inside = _servers(p)
    return (inside > 1) + _log(servers)


def _prefix(p: int, n: int) -> int:
    return n * sum(p - (1 << k) for k in range(_log(p)))


Formula = Callable[[int, int], Totals]

TOTALS: dict[tuple[str, str], Formula] = {
    ("all_reduce", "recursive_doubling"): _recursive_doubling,
    ("all_reduce", "halving_doubling"): _halving_doubling,
    ("all_reduce", "hierarchical"): _levels,
    ("all_reduce", "double_tree"): lambda p, n: Totals(None, 2 * (p - 1) * n, (p - 1) * n),
    ("broadcast", "double_tree"): lambda p, n: Totals(None, (p - 1) * n, 0),
    ("broadcast", "scatter_all_gather"): lambda p, n: Totals(2, (p - 1) * (n + n // p), 0),
    ("broadcast", "hierarchical"): lambda p, n: Totals(_levels_tree(p, n), (p - 1) * n, 0),
    ("reduce", "double_tree"): lambda p, n: Totals(None, (p - 1) * n, (p - 1) * n),
    ("reduce", "reduce_scatter_gather"): lambda p, n: Totals(
        2, (p - 1) * (n + n // p), (p - 1) * n
    ),
    ("reduce", "hierarchical"): lambda p, n: Totals(_levels_tree(p, n), (p - 1) * n, (p - 1) * n),
    ("all_to_all", "bruck"): lambda p, n: Totals(
        _log(p), p * n * sum(i.bit_count() for i in range(p)), 0
    ),
    ("all_to_all", "hierarchical"): _levels_exchange,
    ("scan", "doubling"): lambda p, n: Totals(_log(p), _prefix(p, n), _prefix(p, n)),
    ("exscan", "doubling"): lambda p, n: Totals(
        1 + _log(p - 1), (p - 1) * n + _prefix(p - 1, n), _prefix(p - 1, n)
    ),
    ("send_recv", "shift"): lambda p, n: Totals(1, p * n, 0),
    ("gather_v", "mesh"): lambda p, n: Totals(1, (p - 1) * n, 0),
    ("scatter_v", "mesh"): lambda p, n: Totals(1, (p - 1) * n, 0),
}

for _name, _rounds in {
    "mesh": lambda p, n: 1,
    "ring": lambda p, n: p - 1,
    "bidirectional_ring": lambda p, n: p - 1,
    "double_ring": lambda p, n: p - 1,
    "nhr": lambda p, n: _log(p),
    "nb": lambda p, n: _log(p),
    "hierarchical": _levels_blocks,
}.items():
    for _tail in ("", "_v"):
        TOTALS["all_gather" + _tail, _name] = lambda p, n, r=_rounds: Totals(  # type: ignore[misc]
            r(p, n), p * (p - 1) * n, 0
        )
        TOTALS["reduce_scatter" + _tail, _name] = lambda p, n, r=_rounds: Totals(  # type: ignore[misc]
            r(p, n), p * (p - 1) * n, p * (p - 1) * n
        )
    TOTALS.setdefault(
        ("all_reduce", _name),
        lambda p, n, r=_rounds: Totals(2 * r(p, n), 2 * (p - 1) * n, (p - 1) * n),  # type: ignore[misc]
    )
