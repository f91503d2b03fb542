"""What each algorithm does at a time: the messages that are under way together.

The automatic choice prices these; a schedule has every single operation, a phase only what it
takes to tell how long they take.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import Ints, split
from .fan import others
from .tree import Round, depth, downwards, upwards

SAMPLE = 4096
"""Messages up to which all pairs are priced; above it an even sample of the shifts r to r + k."""

STEPS = 4
"""Steps of a pairwise exchange up to which each is priced; above it an even sample."""


@dataclass(frozen=True, eq=False)
class Phase:
    """Messages that are under way together.

    Attributes
    ----------
    src, dst : ndarray of int64, shape (m,)
        The ranks of each message.
    count : float or ndarray of shape (m,)
        Elements of each.
    weight : float
        How many such messages each one stands for.
    targets : int
        Targets of a sender in one step.
    reduced : float
        Elements that a receiver combines after it, 0 = none.
    repeats : float
        How often it takes place, one after the other.
    """

    src: Ints
    dst: Ints
    count: float | NDArray[Any]
    weight: float = 1.0
    targets: int = 1
    reduced: float = 0.0
    repeats: float = 1.0


@dataclass(frozen=True, eq=False)
class Chain(Phase):
    """Pieces that are passed on: the messages are the hops, in the order of the chain.

    Attributes
    ----------
    hops : int
        Hops of every piece.
    passes : float
        Blocks that pass each hop.
    chunks : int
        Pieces of a block; `count` and `reduced` are those of a whole block.
    turns : int
        Phases of as many hops that a piece passes one after the other, this one among them.
    """

    hops: int = 1
    passes: float = 1.0
    chunks: int = 1
    turns: int = 1


def all_pairs(ranks: int, count: float, owners: int | None = None) -> Phase:
    """Return the step in which every rank, or each of the first `owners`, writes to every other."""
    owner = np.arange(ranks if owners is None else owners)
    shifts = np.arange(1, ranks)
    most = max(SAMPLE // ranks, 4)
    if len(shifts) > most:
        shifts = 1 + (np.arange(most) * 2 + 1) * (ranks - 1) // (2 * most)
    src = np.repeat(owner, len(shifts))
    dst = (src + np.tile(shifts, len(owner))) % ranks
    return Phase(src, dst, count, (ranks - 1) / max(len(shifts), 1), ranks - 1)


def all_sums(ranks: int, count: float, owners: int | None = None) -> Phase:
    """Return the step in which every rank writes to every other, or to the owners, which add."""
    owned = ranks if owners is None else owners
    there = all_pairs(ranks, count, owners)
    targets = min(owned, ranks - 1)
    return Phase(there.dst, there.src, count, there.weight, targets, (ranks - 1) * count)


def one_by_one(ranks: int, count: float) -> list[Phase]:
    """Return the n - 1 steps in which every rank writes to one other, or an even sample of them."""
    shifts = np.unique(np.linspace(1, ranks - 1, min(ranks - 1, STEPS)).astype(np.int64))
    repeats = (ranks - 1) / max(len(shifts), 1)
    return [_shift(ranks, int(shift), count, repeats) for shift in shifts]


def _shift(ranks: int, shift: int, count: float, repeats: float = 1.0) -> Phase:
    src = np.arange(ranks)
    return Phase(src, (src + shift) % ranks, count, repeats=repeats)


def _fan(ranks: int, root: int, count: float, *, inwards: bool, reduces: bool = False) -> Phase:
    peer = others(np.array([root]), ranks)[0]
    mine = np.full(ranks - 1, root)
    if inwards:
        return Phase(peer, mine, count, reduced=(ranks - 1) * count if reduces else 0.0)
    return Phase(mine, peer, count, targets=ranks - 1)


def _circle(
    ranks: int, count: float, chunks: int, *, reduced: float = 0.0, turns: int = 1
) -> Chain:
    """Return a turn of the ring in which n chains run at a time, each from a rank of its own."""
    src, hops = np.arange(ranks), ranks - 1
    return Chain(
        src,
        (src + 1) % ranks,
        count,
        reduced=reduced,
        hops=hops,
        passes=hops,
        chunks=chunks,
        turns=turns,
    )


def _line(ranks: int, first: int, count: float, chunks: int, *, reduces: bool) -> Chain:
    src = (first + np.arange(ranks - 1)) % ranks
    reduced = count if reduces else 0.0
    return Chain(src, (src + 1) % ranks, count, reduced=reduced, hops=ranks - 1, chunks=chunks)


def _tree(
    rounds: list[Round], ranks: int, root: int, count: int, *, up: bool, kind: str
) -> list[Phase]:
    phases = []
    for edges in rounds:
        parent, child = (edges.parent + root) % ranks, (edges.child + root) % ranks
        size = edges.below * count if kind == "blocks" else count
        src, dst = (child, parent) if up else (parent, child)
        phases.append(Phase(src, dst, size, reduced=count if kind == "sum" else 0.0))
    return phases


Phases = Callable[[int, int, int, int], list[Phase]]
"""A function of ranks, count, root and chunks."""


def _mesh_all_reduce(ranks: int, count: int, root: int, chunks: int) -> list[Phase]:
    block, owners = split(count, ranks)[1][0], min(count, ranks)
    return [all_sums(ranks, block, owners), all_pairs(ranks, block, owners)]


def _ring_all_reduce(ranks: int, count: int, root: int, chunks: int) -> list[Phase]:
    block = split(count, ranks)[1][0]
    return [_circle(ranks, block, chunks, reduced=r, turns=2) for r in (block, 0)]


PHASES: dict[tuple[str, str], Phases] = {
    ("barrier", "dissemination"): lambda n, c, r, k: [
        _shift(n, 1 << step, 0) for step in range(depth(n))
    ],
    ("barrier", "mesh"): lambda n, c, r, k: [all_pairs(n, 0)],
    ("broadcast", "mesh"): lambda n, c, r, k: [_fan(n, r, c, inwards=False)],
    ("broadcast", "ring"): lambda n, c, r, k: [_line(n, r, c, k, reduces=False)],
    ("broadcast", "binomial"): lambda n, c, r, k: _tree(
        list(downwards(n)), n, r, c, up=False, kind="copy"
    ),
    ("reduce", "mesh"): lambda n, c, r, k: [_fan(n, r, c, inwards=True, reduces=True)],
    ("reduce", "ring"): lambda n, c, r, k: [_line(n, r + 1, c, k, reduces=True)],
    ("reduce", "binomial"): lambda n, c, r, k: _tree(
        list(upwards(n)), n, r, c, up=True, kind="sum"
    ),
    ("all_reduce", "mesh"): _mesh_all_reduce,
    ("all_reduce", "ring"): _ring_all_reduce,
    ("all_gather", "mesh"): lambda n, c, r, k: [all_pairs(n, c)],
    ("all_gather", "ring"): lambda n, c, r, k: [_circle(n, c, k)],
    ("reduce_scatter", "mesh"): lambda n, c, r, k: [all_sums(n, c)],
    ("reduce_scatter", "ring"): lambda n, c, r, k: [_circle(n, c, k, reduced=c)],
    ("gather", "mesh"): lambda n, c, r, k: [_fan(n, r, c, inwards=True)],
    ("gather", "binomial"): lambda n, c, r, k: _tree(
        list(upwards(n)), n, r, c, up=True, kind="blocks"
    ),
    ("scatter", "mesh"): lambda n, c, r, k: [_fan(n, r, c, inwards=False)],
    ("scatter", "binomial"): lambda n, c, r, k: _tree(
        list(downwards(n)), n, r, c, up=False, kind="blocks"
    ),
    ("all_to_all", "mesh"): lambda n, c, r, k: [all_pairs(n, c)],
    ("all_to_all", "pairwise"): lambda n, c, r, k: one_by_one(n, c),
    ("all_to_all_v", "mesh"): lambda n, c, r, k: [all_pairs(n, c)],
    ("all_to_all_v", "pairwise"): lambda n, c, r, k: one_by_one(n, c),
}
