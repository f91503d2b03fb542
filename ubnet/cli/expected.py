"""What every operation must leave in every rank's output, element by element."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.arena import Arena
from ubnet.cli.inputs import Numbers, wrong_equal

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

    def within(self, begin: int, length: int) -> "Parts":
        """Return what of it lies in `length` elements of the output from `begin` on."""
        start = np.clip(self.at, begin, begin + length)
        end = np.clip(self.at + self.count, begin, begin + length)
        return Parts(start - begin, self.source, self.first + (start - self.at), end - start)


@dataclass(frozen=True, slots=True)
class Call:
    """One collective call, as far as its result depends on it.

    Attributes
    ----------
    op : str
        Canonical name.
    ranks, count, root : int
        As in `ubnet.collectives.build`.
    uneven : sequence of (sendcounts, sdispls, recvcounts, rdispls)
        What the ranks give to an all_to_all_v.
    """

    op: str
    ranks: int
    count: int
    root: int
    uneven: Sequence[Sequence[Ints]] = ()


def fill_inputs(arena: Arena, numbers: Numbers, first: Ints) -> None:
    """Give every rank the numbers that it sends.

    Its input buffer begins at index ``first[rank]`` of what the rank has in all.
    """
    for rank in map(int, arena.held):
        numbers.fill(arena.input(rank), rank, int(first[rank]))


def wrong_elements(call: Call, arena: Arena, numbers: Numbers, first: Ints) -> int:
    """Count the elements of all outputs that differ from what the operation must leave there.

    Parameters
    ----------
    call : Call
        What was done.
    arena : Arena
        The memory after it.
    numbers : Numbers
        What was in the inputs.
    first : ndarray of int64, shape (ranks,)
        The index within a rank's whole output at which its output buffer begins.
    """
    if call.op in SUMS:
        return _wrong_sums(call, arena, numbers, first)
    if call.op in PREFIXES:
        return _wrong_prefixes(call, arena, numbers, first)
    if call.op == "barrier":
        return 0
    wrong = 0
    for rank in map(int, arena.held):
        output = arena.output(rank)
        if len(output):
            parts = MOVES[call.op](call, rank).within(int(first[rank]), len(output))
            wrong += numbers.wrong_moved(output, parts.at, parts.source, parts.first, parts.count)
    return wrong


def uneven_parts(ranks: int, count: int) -> list[tuple[Ints, Ints, Ints, Ints]]:
    """Return an uneven exchange: rank r sends rank s a half, one or one and a half times `count`.

    >>> [int(n) for n in uneven_parts(3, 10)[1][0]]
    [10, 15, 5]
    """
    ids = np.arange(ranks)
    sent = count * (1 + (ids[:, None] + ids) % 3) // 2
    starts = np.zeros_like(sent)
    np.cumsum(sent[:, :-1], axis=1, out=starts[:, 1:])
    # The pattern is symmetric: what r sends s is what it receives from s.
    return [(sent[r], starts[r], sent[r], starts[r]) for r in range(ranks)]


def _all_to_all(call: Call, rank: int) -> Parts:
    ids, each = np.arange(call.ranks), np.full(call.ranks, call.count)
    return Parts(ids * call.count, ids, rank * each, each)


def _all_gather(call: Call, rank: int) -> Parts:
    ids, each = np.arange(call.ranks), np.full(call.ranks, call.count)
    return Parts(ids * call.count, ids, 0 * each, each)


def _broadcast(call: Call, rank: int) -> Parts:
    return _one(call.root, 0, call.count)


def _scatter(call: Call, rank: int) -> Parts:
    return _one(call.root, rank * call.count, call.count)


def _all_to_all_v(call: Call, rank: int) -> Parts:
    _, _, received, at = call.uneven[rank]
    first = np.array([start[rank] for _, start, _, _ in call.uneven])
    return Parts(at, np.arange(call.ranks), first, received)


def _one(source: int, first: int, count: int) -> Parts:
    return Parts(*(np.array([value]) for value in (0, source, first, count)))


def _wrong_sums(call: Call, arena: Arena, numbers: Numbers, first: Ints) -> int:
    """Compare with the sums over all ranks, worked out once where the outputs are the same."""
    wrong, known, total = 0, None, np.empty(0, dtype=np.int64)
    for rank in map(int, arena.held):
        output = arena.output(rank)
        if not len(output):
            continue
        begin = int(first[rank]) + (rank * call.count if call.op == "reduce_scatter" else 0)
        if known != (begin, len(output)):
            known, total = (begin, len(output)), numbers.sums(len(output), call.ranks, begin)
        wrong += wrong_equal(output, total)
    return wrong


def _wrong_prefixes(call: Call, arena: Arena, numbers: Numbers, first: Ints) -> int:
    """Compare each rank with the sums over the ranks below it, and itself in a scan."""
    wrong, total = 0, np.zeros(0, dtype=np.int64)
    for rank in map(int, arena.held):
        output = arena.output(rank)
        if rank == 0:
            total = np.zeros(len(output), dtype=np.int64)
        own = np.empty(len(output), dtype=np.int64)
        numbers.fill(own, rank, int(first[rank]))
        if call.op == "scan":
            wrong += wrong_equal(output, total + own)
        elif rank:  # nobody may rely on what an exscan leaves on rank 0
            wrong += wrong_equal(output, total)
        total += own
    return wrong


SUMS = ("all_reduce", "reduce", "reduce_scatter")
"""The operations whose results are sums over all ranks."""

PREFIXES = ("scan", "exscan")
"""The operations whose results are sums over the ranks so far."""

MOVES: dict[str, Callable[[Call, int], Parts]] = {
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all_v,
    "all_gather": _all_gather,
    "gather": _all_gather,
    "broadcast": _broadcast,
    "scatter": _scatter,
}
"""The operations whose results are moved as they are."""
