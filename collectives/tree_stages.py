"""Up and down a tree, chunk behind chunk: sums to its root, copies from it."""

from collections.abc import Sequence

import numpy as np

from ubnet.schedule import REDUCE

from .blocks import Ints, Pieces, pieces, split
from .work import Work

ROOT = -1
"""The parent of a root."""

MOST_CHILDREN = 3
"""Children of a node: two, and the old root where a tree was hung under another node."""


def binary_tree(ranks: int) -> Ints:
    """Return the parent of each rank in NCCL's binary tree, in which every odd rank is a leaf.

    >>> binary_tree(6).tolist()
    [-1, 2, 4, 2, 0, 4]
    """
    number = np.arange(ranks)
    bit = np.where(number, number & -number, 1)
    above = (number ^ bit) | (bit << 1)
    parent = np.where(above < ranks, above, number ^ bit)
    parent[:1] = ROOT
    return parent


def double_tree(ranks: int) -> tuple[Ints, Ints]:
    """Return two binary trees in which hardly any rank is an inner node twice.

    The second is the first in a mirror, or for an odd number of ranks shifted by one.

    Examples
    --------
    >>> [tree.tolist() for tree in double_tree(4)]
    [[-1, 2, 0, 2], [1, 3, 1, -1]]
    """
    first = binary_tree(ranks)
    if ranks % 2 == 0:
        turned = first[::-1]
        return first, np.where(turned == ROOT, ROOT, ranks - 1 - turned)
    turned = np.roll(first, 1)
    return first, np.where(turned == ROOT, ROOT, (turned + 1) % ranks)


def rerooted(parent: Ints, root: int) -> Ints:
    """Hang a tree under another of its nodes, which loses its own parent."""
    hung = parent.copy()
    hung[hung == ROOT] = root
    hung[root] = ROOT
    return hung


def layers(parent: Ints) -> list[Ints]:
    """Return the nodes by their distance from the root, the root alone in front."""
    found = [np.flatnonzero(parent == ROOT)]
    while len(found[-1]):
        found.append(np.flatnonzero(np.isin(parent, found[-1])))
    return found[:-1]


def go_up(work: Work, rank: Ints, parents: Sequence[Ints], count: int, chunks: int) -> None:
    """Add up along each tree a part of W of its own; rank[v] is the rank of node v."""
    for number, (parent, part) in enumerate(_shares(parents, count, chunks)):
        children = np.zeros(len(rank), dtype=np.int64)
        arrived = np.full((len(rank), MOST_CHILDREN, len(part.start)), -1)
        for layer, nodes in enumerate(reversed(layers(parent)[1:])):
            above = parent[nodes]
            sent = work.move(
                rank[nodes][:, None],
                rank[above][:, None],
                part.start,
                part.start,
                part.size,
                kind=REDUCE,
                after=[arrived[nodes, child] for child in range(MOST_CHILDREN)],
                step=work.step + (layer * chunks + part.chunk) * len(parents) + number,
            )
            for node, ids in zip(above, sent, strict=True):
                arrived[node, children[node]] = ids
                children[node] += 1
    _end(work, parents, chunks)


def go_down(work: Work, rank: Ints, parents: Sequence[Ints], count: int, chunks: int) -> None:
    """Copy along each tree what its root has in the tree's part of W."""
    for number, (parent, part) in enumerate(_shares(parents, count, chunks)):
        arrived = np.full((len(rank), len(part.start)), -1)
        for layer, nodes in enumerate(layers(parent)[1:]):
            above = parent[nodes]
            arrived[nodes] = work.move(
                rank[above][:, None],
                rank[nodes][:, None],
                part.start,
                part.start,
                part.size,
                after=[arrived[above]],
                step=work.step + (layer * chunks + part.chunk) * len(parents) + number,
            )
    _end(work, parents, chunks)


def _shares(parents: Sequence[Ints], count: int, chunks: int) -> list[tuple[Ints, Pieces]]:
    """Cut W into a part for each tree, and each part into chunks."""
    start, size = split(count, len(parents))
    return [
        (parent, pieces(start[i : i + 1], size[i : i + 1], chunks))
        for i, parent in enumerate(parents)
    ]


def _end(work: Work, parents: Sequence[Ints], chunks: int) -> None:
    work.step += max(len(layers(parent)) for parent in parents) * chunks * len(parents)
    work.close()
    work.step += -work.step % len(parents)
