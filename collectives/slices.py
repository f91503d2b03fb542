"""Orders of slices in which each step of a logarithmic exchange sends one contiguous block.

NHR and NB gather p slices in ceil(log2 p) steps, for any p. A rank keeps the slices in an order of
its own, counted from its own slice; what it sends in a step is then one block of that order.
Backwards in time, with sums instead of copies, the same steps are a reduce-scatter.
"""

from typing import NamedTuple

import numpy as np

from .blocks import Ints
from .tree import depth


class Exchanged(NamedTuple):
    """A step of an all-gather: every rank sends one block of its slices to another.

    Attributes
    ----------
    shift : int
        Rank r sends to rank r + shift.
    first, target, slices : int
        Where the block begins at the sender and at the receiver, and how many slices it has.
    """

    shift: int
    first: int
    target: int
    slices: int


class Order(NamedTuple):
    """An order of slices, and the steps of an all-gather in it.

    Attributes
    ----------
    offset : ndarray of int64, shape (p,)
        Place q of rank r holds slice r + offset[q], modulo p.
    steps : list of Exchanged
    """

    offset: Ints
    steps: list[Exchanged]

    @property
    def own(self) -> int:
        """The place of a rank's own slice."""
        return int(np.flatnonzero(self.offset == 0)[0])


def nb(ranks: int) -> Order:
    """Return the order of the Bruck algorithm for any p: the last step is shortened.

    >>> [tuple(step) for step in nb(5).steps]
    [(-1, 0, 1, 1), (-2, 0, 2, 2), (-4, 0, 4, 1)]
    """
    steps = []
    for step in range(depth(ranks)):
        reach = 1 << step
        steps.append(Exchanged(-reach, 0, reach, min(reach, ranks - reach)))
    return Order(np.arange(ranks), steps)


def nhr(ranks: int) -> Order:
    """Return the order of HCCL's non-uniform hierarchical ring: far ranks first.

    In step s the ranks hold every 2**(K-s)-th slice below their own and send them on by half of
    that. Where the receiver has no use for the farthest one, the new ones are put in front, so
    that the farthest always stands last and can be left out of a contiguous block.

    Examples
    --------
    >>> nhr(5).offset.tolist()
    [2, 4, 3, 0, 1]
    >>> sum(step.slices for step in nhr(48).steps)
    47
    """
    held, begin = [0], [0]
    shifts: list[tuple[int, bool, int]] = []
    for step in range(depth(ranks)):
        shift = 1 << (depth(ranks) - 1 - step)
        useful = [o + shift for o in held if o + shift < ranks]
        in_front = len(useful) < len(held)
        shifts.append((shift, in_front, len(useful)))
        held = useful + held if in_front else held + useful
        begin = [b + len(useful) * in_front for b in begin] + [0]
    steps = []
    for number, (shift, in_front, slices) in enumerate(shifts):
        before, after = begin[number], begin[number + 1]
        have = _held(shifts, number)
        steps.append(Exchanged(shift, before, after if in_front else before + have, slices))
    return Order(-np.array(held) % ranks, steps)


def _held(shifts: list[tuple[int, bool, int]], step: int) -> int:
    """Return how many slices a rank holds before a step."""
    return 1 + sum(slices for _, _, slices in shifts[:step])


ORDERS = {"nhr": nhr, "nb": nb}
