"""The phases of each algorithm, from its numbers of ranks and elements alone."""

from collections.abc import Callable

import numpy as np

from .blocks import split
from .fan import others
from .grid import usual_grid
from .phase import Chain, Phase
from .slices import ORDERS
from .tree import Round, depth, downwards, upwards
from .two_rings import ORDERS as TWO_RINGS

SAMPLE = 4096
"""Messages up to which all pairs are priced; above it an even sample of the shifts r to r + k."""

STEPS = 4
"""Steps of a pairwise exchange up to which each is priced; above it an even sample."""


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


def _two_rings(name: str) -> Phases:
    def phases(ranks: int, count: int, root: int, chunks: int) -> list[Phase]:
        """Return both rings as one chain: their hops share the engines."""
        block = float(split(count, ranks)[1][0])
        return [_both(name, ranks, block, reduced=r, turns=2) for r in (block, 0.0)]

    return phases


def _both(name: str, ranks: int, block: float, *, reduced: float = 0.0, turns: int = 1) -> Chain:
    order = np.stack(TWO_RINGS[name](ranks))
    src, dst = order.reshape(-1), np.roll(order, -1, axis=1).reshape(-1)
    hops = ranks - 1
    return Chain(src, dst, block / 2, reduced=reduced / 2, hops=hops, passes=hops, turns=turns)


def _by_order(name: str, ranks: int, block: float, *, inwards: bool) -> list[Phase]:
    """Return the steps of NHR or NB, each a block of slices to one rank."""
    return [
        Phase(
            np.arange(ranks),
            (np.arange(ranks) + (-step.shift if inwards else step.shift)) % ranks,
            step.slices * block,
            reduced=step.slices * block if inwards else 0.0,
        )
        for step in ORDERS[name](ranks).steps
    ]


def _by_order_twice(name: str) -> Phases:
    def phases(ranks: int, count: int, root: int, chunks: int) -> list[Phase]:
        block = float(split(count, ranks)[1][0])
        both = (_by_order(name, ranks, block, inwards=inwards) for inwards in (True, False))
        return [phase for part in both for phase in part]

    return phases


def _bruck(ranks: int, count: int, root: int, chunks: int) -> list[Phase]:
    way = np.arange(ranks)
    return [
        _shift(ranks, 1 << step, int(np.count_nonzero(way >> step & 1)) * count)
        for step in range(depth(ranks))
    ]


def _inside_then_between(ranks: int, count: int, root: int, chunks: int) -> list[Phase]:
    teams = [usual_grid(ranks).teams(level) for level in (0, 1)]
    return [
        Phase(
            np.repeat(team, team.shape[1] - 1),
            team[:, others(np.arange(team.shape[1]), team.shape[1])].reshape(-1),
            ranks // team.shape[1] * count,
            targets=max(team.shape[1] - 1, 1),
        )
        for team in teams
        if team.shape[1] > 1
    ]


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
    ("all_reduce", "double_ring"): _two_rings("double_ring"),
    ("all_reduce", "bidirectional_ring"): _two_rings("bidirectional_ring"),
    ("all_reduce", "nhr"): _by_order_twice("nhr"),
    ("all_reduce", "nb"): _by_order_twice("nb"),
    ("all_gather", "bidirectional_ring"): lambda n, c, r, k: [_both("bidirectional_ring", n, c)],
    ("all_gather", "nhr"): lambda n, c, r, k: _by_order("nhr", n, c, inwards=False),
    ("all_gather", "nb"): lambda n, c, r, k: _by_order("nb", n, c, inwards=False),
    ("reduce_scatter", "nhr"): lambda n, c, r, k: _by_order("nhr", n, c, inwards=True),
    ("reduce_scatter", "nb"): lambda n, c, r, k: _by_order("nb", n, c, inwards=True),
    ("all_to_all", "bruck"): _bruck,
    ("all_to_all", "hierarchical"): _inside_then_between,
    ("send_recv", "shift"): lambda n, c, r, k: [_shift(n, 1, c)],
    ("gather_v", "mesh"): lambda n, c, r, k: [_fan(n, r, c, inwards=True)],
    ("scatter_v", "mesh"): lambda n, c, r, k: [_fan(n, r, c, inwards=False)],
}
"""The phases of the algorithms whose schedules are long; those of others come from a schedule."""

PHASES |= {
    (f"{op}_v", name): PHASES[op, name]
    for op in ("all_gather", "reduce_scatter")
    for name in ("mesh", "ring", "nhr", "nb")
}
