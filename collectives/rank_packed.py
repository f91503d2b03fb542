"""The rank-packed layout (DeepEP's normal kernels): a token goes once to each rank it needs.

It is the expert-contiguous layout with ranks in the place of experts: `rank_index` turns the
experts of a token into the ranks that hold them, each once; everything else is shared.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import Ints

from .routing import NO_EXPERT, check_routing


def rank_index(topk_idx: NDArray[Any], experts: int, ranks: int, rank: int = 0) -> Ints:
    """Return the ranks that each token goes to, in the place of its first expert there.

    Parameters
    ----------
    topk_idx : ndarray of int, shape (tokens, topk)
        Experts of each token, -1 = none.
    experts, ranks : int
        How many there are; expert ``e`` is on rank ``e // (experts / ranks)``.
    rank : int
        The rank whose tokens they are, for the message of an error.

    Returns
    -------
    ndarray of int64, shape (tokens, topk)
        Ranks, all different within a row; -1 where a further expert is on a rank that is there
        already, or where there is none.

    Examples
    --------
    >>> rank_index(np.array([[0, 5, 1], [3, -1, 4]]), experts=6, ranks=3).tolist()
    [[0, 2, -1], [1, -1, 2]]
    """
    check_routing(topk_idx, experts, rank)
    local = experts // ranks
    owner = np.where(topk_idx == NO_EXPERT, NO_EXPERT, topk_idx // local).astype(np.int64)
    # Stable, so that the first expert of a rank comes first among its equals.
    order = np.argsort(owner, axis=1, kind="stable")
    ordered = np.take_along_axis(owner, order, axis=1)
    again = np.zeros(owner.shape, dtype=bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeated = np.zeros(owner.shape, dtype=bool)
    np.put_along_axis(repeated, order, again, axis=1)
    owner[repeated] = NO_EXPERT
    return owner


def local_experts(topk_idx: NDArray[Any], rank: int, local: int) -> Ints:
    """Return expert numbers as a rank counts its own, -1 for those of other ranks.

    >>> local_experts(np.array([[4, 0, 5]]), rank=2, local=2).tolist()
    [[0, -1, 1]]
    """
    mine = (topk_idx >= 0) & (topk_idx // local == rank)
    numbered: Ints = np.where(mine, topk_idx - rank * local, NO_EXPERT).astype(np.int64)
    return numbered


@dataclass(frozen=True, eq=False)
class DispatchLayout:
    """What a rank's routing means for the ranks, before anything is sent.

    Attributes
    ----------
    tokens_per_rank : ndarray of int64, shape (ranks,)
        Tokens that go to each rank, each counted once.
    tokens_per_node : ndarray of int64, shape (nodes,)
        The same by nodes, whose ranks follow each other.
    tokens_per_expert : ndarray of int64, shape (experts,)
        Token copies for each expert.
    is_token_in_rank : ndarray of bool, shape (tokens, ranks)
        Whether a token goes to a rank.
    """

    tokens_per_rank: Ints
    tokens_per_node: Ints
    tokens_per_expert: Ints
    is_token_in_rank: NDArray[np.bool_]


def dispatch_layout(
    topk_idx: NDArray[Any], experts: int, ranks: int, ranks_per_node: int = 0, rank: int = 0
) -> DispatchLayout:
    """Count a rank's tokens by rank, node and expert; 0 ranks per node: all are one node.

    >>> layout = dispatch_layout(np.array([[0, 5, 1], [3, -1, 4]]), 6, 3, ranks_per_node=2)
    >>> layout.tokens_per_rank.tolist(), layout.tokens_per_node.tolist()
    ([1, 1, 2], [2, 2])
    """
    owner = rank_index(topk_idx, experts, ranks, rank)
    inside = np.zeros((len(owner), ranks), dtype=bool)
    token, key = np.nonzero(owner != NO_EXPERT)
    inside[token, owner[token, key]] = True
    starts = np.arange(0, ranks, ranks_per_node or ranks)
    by_node = np.logical_or.reduceat(inside, starts, axis=1) if ranks else inside
    chosen = topk_idx[topk_idx != NO_EXPERT]
    return DispatchLayout(
        inside.sum(axis=0),
        by_node.sum(axis=0),
        np.bincount(chosen, minlength=experts).astype(np.int64),
        inside,
    )
