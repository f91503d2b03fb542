"""The inner loops of a replay: moving elements and folding what arrives into what is there.

Each takes one flat array and works off ``flat[src[i]:+count[i]]`` and ``flat[dst[i]:+count[i]]``,
one i after another, so that sums are added in the order of the operations. Slices keep the loops
free of checks for negative indices, which would stop them from being vectorised.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import kernel

Ints = NDArray[np.int64]
Array = NDArray[Any]

AND, OR, XOR = 0, 1, 2


def load_ahead() -> None:
    """Load what every kernel needs, once in a process: a third of a second of the first call."""
    nothing = np.empty(0, dtype=np.int64)
    move(np.empty(0, dtype=np.uint8), nothing, nothing, nothing)


@kernel
def move(flat: Array, src: Ints, dst: Ints, count: Ints) -> None:
    """Copy each source to its destination."""
    for i in range(len(count)):
        there = flat[src[i] : src[i] + count[i]]
        here = flat[dst[i] : dst[i] + count[i]]
        for k in range(len(here)):
            here[k] = there[k]


@kernel
def add(flat: Array, src: Ints, dst: Ints, count: Ints) -> None:
    """Add each source to its destination."""
    for i in range(len(count)):
        there = flat[src[i] : src[i] + count[i]]
        here = flat[dst[i] : dst[i] + count[i]]
        for k in range(len(here)):
            here[k] = here[k] + there[k]


@kernel
def multiply(flat: Array, src: Ints, dst: Ints, count: Ints) -> None:
    """Multiply each destination by its source."""
    for i in range(len(count)):
        there = flat[src[i] : src[i] + count[i]]
        here = flat[dst[i] : dst[i] + count[i]]
        for k in range(len(here)):
            here[k] = here[k] * there[k]


@kernel
def pick(flat: Array, src: Ints, dst: Ints, count: Ints, largest: bool) -> None:
    """Keep the larger (or the smaller) of both; a nan stays one, as in numpy."""
    for i in range(len(count)):
        there = flat[src[i] : src[i] + count[i]]
        here = flat[dst[i] : dst[i] + count[i]]
        for k in range(len(here)):
            old, new = here[k], there[k]
            better = new > old if largest else new < old
            if (better or new != new) and old == old:
                here[k] = new


@kernel
def judge(flat: Array, src: Ints, dst: Ints, count: Ints, rule: int) -> None:
    """Set each destination to 1 or 0: both (AND), either (OR) or just one (XOR) was not zero."""
    for i in range(len(count)):
        there = flat[src[i] : src[i] + count[i]]
        here = flat[dst[i] : dst[i] + count[i]]
        for k in range(len(here)):
            old, new = here[k] != 0, there[k] != 0
            if rule == AND:
                here[k] = old and new
            elif rule == OR:
                here[k] = old or new
            else:
                here[k] = old != new


@kernel
def mask(flat: Array, src: Ints, dst: Ints, count: Ints, rule: int) -> None:
    """Combine the bits of whole numbers: AND, OR or XOR."""
    for i in range(len(count)):
        there = flat[src[i] : src[i] + count[i]]
        here = flat[dst[i] : dst[i] + count[i]]
        for k in range(len(here)):
            if rule == AND:
                here[k] = here[k] & there[k]
            elif rule == OR:
                here[k] = here[k] | there[k]
            else:
                here[k] = here[k] ^ there[k]
