"""What an algorithm does at a time: the messages that are under way together.

The automatic choice prices these; a schedule has every single operation, a phase only what it
takes to tell how long they take.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.schedule import Schedule

from .blocks import Ints


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


def messages(phases: list[Phase]) -> float:
    """Return how many messages phases stand for."""
    return float(sum(_messages(phase) for phase in phases))


def _messages(phase: Phase) -> float:
    each = phase.passes * phase.chunks if isinstance(phase, Chain) else phase.repeats
    return len(phase.src) * phase.weight * each


def of_schedule(schedule: Schedule, together: int = 1) -> list[Phase]:
    """Return the steps of a schedule as phases; steps that are alike stand as one, repeated.

    So many steps behind each other are under way together, such as those of two trees.
    """
    s = schedule
    step = s.step // together
    moved = np.flatnonzero(s.transfers)
    moved = moved[np.argsort(step[moved], kind="stable")]
    bounds = np.flatnonzero(np.diff(step[moved], prepend=-1, append=-1))
    found: dict[bytes, Phase] = {}
    for first, last in pairwise(bounds):
        ops = moved[first:last]
        src, dst, count, sums = s.src[ops], s.dst[ops], s.count[ops], s.reduces[ops]
        reduced = np.bincount(dst[sums], count[sums]).max(initial=0)
        pairs = np.sort(src * s.ranks + dst)
        key = np.concatenate([pairs, [count.max(), reduced]]).astype(np.int64).tobytes()
        if key in found:
            found[key] = replace(found[key], repeats=found[key].repeats + 1)
            continue
        targets = int(np.bincount(src).max())
        found[key] = Phase(src, dst, count, targets=targets, reduced=float(reduced))
    return list(found.values())
