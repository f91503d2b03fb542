"""Routes of many flows laid out in one row: the loops of it, compiled where that pays."""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Loop = TypeVar("Loop", bound=Callable[..., object])

MANY = 2_000  # flows from which loading the compiler, or what it has compiled, is worth it


def for_flows(loop: Loop, flows: int) -> Loop:
    """Return a loop over so many flows, compiled where they are many."""
    return loop if flows < MANY else _compiled(loop)


@cache
def _compiled(loop: Loop) -> Loop:
    from ubnet.jit import kernel

    return kernel(loop)


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
