"""Broadcast and reduce of teams, in place: from one member to the others, and back."""

from collections.abc import Callable

import numpy as np

from ubnet.schedule import REDUCE

from .blocks import Ints
from .fan import in_rank_order, others
from .tree import downwards, upwards
from .work import Work

Fan = Callable[[Work, Ints, int, int], None]


def out_mesh(work: Work, ranks: Ints, first: int, count: int) -> None:
    """Write W of member `first` to all others of its group, in one step."""
    peer = others(np.array([first]), ranks.shape[1])[0]
    work.move(ranks[:, first : first + 1], ranks[:, peer], 0, 0, count)
    work.close()


def in_mesh(work: Work, ranks: Ints, first: int, count: int) -> None:
    """Add the W of all others to that of member `first`, in one step."""
    peer, kind = in_rank_order(np.array([first]), ranks.shape[1])
    work.move(ranks[:, peer[0]], ranks[:, first : first + 1], 0, 0, count, kind=kind[0])
    work.close()


def out_binomial(work: Work, ranks: Ints, first: int, count: int) -> None:
    """Double the members that have it, step by step."""
    members = ranks.shape[1]
    for edges in downwards(members):
        parent, child = ((end + first) % members for end in (edges.parent, edges.child))
        work.move(ranks[:, parent], ranks[:, child], 0, 0, count)
        work.close()


def in_binomial(work: Work, ranks: Ints, first: int, count: int) -> None:
    """Halve the members that have a part of the sum, step by step."""
    members = ranks.shape[1]
    for edges in upwards(members):
        parent, child = ((end + first) % members for end in (edges.parent, edges.child))
        work.move(ranks[:, child], ranks[:, parent], 0, 0, count, kind=REDUCE)
        work.close()


FAN_OUT: dict[str, Fan] = {"mesh": out_mesh, "binomial": out_binomial}
FAN_IN: dict[str, Fan] = {"mesh": in_mesh, "binomial": in_binomial}
