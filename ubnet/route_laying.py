"""Routes of many flows laid out in one row: the loops of it, compiled."""

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def lay(
    cursor: Ints, rows: Ints, piece: Ints, share: float, resource: Ints, shares: Floats
) -> None:
    """Put the resources of a piece where each of its flows has come to, and move these on."""
    for k in range(len(rows)):
        at = cursor[rows[k]]
        for column in range(piece.shape[1]):
            resource[at + column] = piece[k, column]
            shares[at + column] = share
        cursor[rows[k]] = at + piece.shape[1]


@kernel
def behind(
    engine: Ints, share: Floats, ptr: Ints, resource: Ints, shares: Floats, factor: float
) -> tuple[Ints, Ints, Floats]:
    """Put each flow's route, its shares multiplied, behind its engine; -1: it holds none."""
    flows = len(engine)
    held = 0
    for k in range(flows):
        held += 1 if engine[k] >= 0 else 0
    new_ptr = np.zeros(flows + 1, np.int64)
    link, part = np.empty(ptr[flows] + held, np.int64), np.empty(ptr[flows] + held)
    at = 0
    for k in range(flows):
        if engine[k] >= 0:
            link[at], part[at] = engine[k], share[k]
            at += 1
        for h in range(ptr[k], ptr[k + 1]):
            link[at], part[at] = resource[h], shares[h] * factor
            at += 1
        new_ptr[k + 1] = at
    return new_ptr, link, part
