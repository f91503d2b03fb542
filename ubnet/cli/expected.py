"""What every operation must leave in every rank's output, element by element."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Parts:
    """Where one rank's output comes from.

    Attributes
    ----------
    at, source, first, count : ndarray of int64
        ``count[k]`` elements from ``at[k]`` on come from the input of rank ``source[k]``, from
        index ``first[k]`` on.
    """

    at: Ints
    source: Ints
    first: Ints
    count: Ints

    @classmethod
    def joined(cls, parts: Sequence["Parts"]) -> "Parts":
        """Return all parts in one row."""
        columns = zip(*((p.at, p.source, p.first, p.count) for p in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    def behind(self, at: int) -> "Parts":
        """Return it in a memory in which the output begins at a place."""
        return replace(self, at=self.at + at)

    def within(self, begin: int, length: int) -> "Parts":
        """Return what of it lies in `length` elements of the output from `begin` on."""
        start = np.clip(self.at, begin, begin + length)
        end = np.clip(self.at + self.count, begin, begin + length)
        return Parts(start - begin, self.source, self.first + (start - self.at), end - start)

    def of_units(self, place: int, width: int, unit: int) -> "Parts":
        """Return `width` elements of every unit of it, from `place` within the unit on.

        Those of the units of one part stand one behind the other.
        """
        at, count = self.at // unit * width, self.count // unit * width
        return Parts(at, self.source, self.first + place, count)


@dataclass(frozen=True, slots=True)
class Call:
    """One collective call, as far as its result depends on it.

    Attributes
    ----------
    op : str
        Canonical name.
    ranks, count, root : int
        As in `ubnet.collectives.build`.
    parts : sequence
        What the ranks give to an operation with uneven counts, as in `ubnet.collectives.build`.
    """

    op: str
    ranks: int
    count: int
    root: int
    parts: Sequence[Any] = ()

    @property
    def sizes(self) -> Ints:
        """Elements of every rank's block, shape (ranks,)."""
        if self.parts and self.op != "all_to_all_v":
            return np.array(self.parts, dtype=np.int64)
        return np.full(self.ranks, self.count)

    @property
    def starts(self) -> Ints:
        """Where every rank's block begins in an array of all blocks, shape (ranks,)."""
        return np.cumsum(self.sizes) - self.sizes


def uneven_parts(uneven: str, ranks: int, count: int) -> list[Any]:
    """Return what the ranks give where counts differ: a half, one or one and a half times `count`.

    Parameters
    ----------
    uneven : {"", "pairs", "ranks"}
        Nothing differs, or the counts of all pairs do, or those of the ranks' blocks.
    ranks, count : int
        Ranks, and elements on average.

    Examples
    --------
    >>> uneven_parts("ranks", 4, 10)
    [5, 10, 15, 5]
    >>> [int(n) for n in uneven_parts("pairs", 3, 10)[1][0]]
    [10, 15, 5]
    """
    ids = np.arange(ranks)
    if uneven == "ranks":
        return [int(n) for n in count * (1 + ids % 3) // 2]
    if uneven != "pairs":
        return []
    sent = count * (1 + (ids[:, None] + ids) % 3) // 2
    starts = np.cumsum(sent, axis=1) - sent
    # The pattern is symmetric: what r sends s is what it receives from s.
    return [(sent[r], starts[r], sent[r], starts[r]) for r in range(ranks)]


def _all_to_all(call: Call, rank: int) -> Parts:
    ids, each = np.arange(call.ranks), np.full(call.ranks, call.count)
    return Parts(ids * call.count, ids, rank * each, each)


def _all_to_all_v(call: Call, rank: int) -> Parts:
    _, _, received, at = call.parts[rank]
    first = np.array([start[rank] for _, start, _, _ in call.parts])
    return Parts(at, np.arange(call.ranks), first, received)


def _all_gather(call: Call, rank: int) -> Parts:
    return Parts(call.starts, np.arange(call.ranks), np.zeros_like(call.starts), call.sizes)


def _broadcast(call: Call, rank: int) -> Parts:
    return _one(call.root, 0, call.count)


def _scatter(call: Call, rank: int) -> Parts:
    return _one(call.root, call.starts[rank], call.sizes[rank])


def _send_recv(call: Call, rank: int) -> Parts:
    return _one((rank - 1) % call.ranks, 0, call.count)


def _one(source: int, first: int, count: int) -> Parts:
    return Parts(*(np.array([value]) for value in (0, source, first, count)))


SCATTERED_SUMS = ("reduce_scatter", "reduce_scatter_v")
"""The operations that leave each rank its block of the sums."""

SUMS = ("all_reduce", "reduce", *SCATTERED_SUMS)
"""The operations whose results are sums over all ranks."""

PREFIXES = ("scan", "exscan")
"""The operations whose results are sums over the ranks so far."""

MOVES: dict[str, Callable[[Call, int], Parts]] = {
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all_v,
    "all_gather": _all_gather,
    "all_gather_v": _all_gather,
    "gather": _all_gather,
    "gather_v": _all_gather,
    "broadcast": _broadcast,
    "scatter": _scatter,
    "scatter_v": _scatter,
    "send_recv": _send_recv,
}
"""The operations whose results are moved as they are."""
