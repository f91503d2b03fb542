"""What operations mean: whose chunks every place of the outputs must hold at the end."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ubnet.operation import INPUT, OUTPUT

Part = tuple[int, int]
"""A rank, and the number of a chunk of its input."""

Held = frozenset[Part]
"""What a place holds: the sum of these chunks."""

Place = tuple[int, int, int]
"""A rank, a buffer and the number of a chunk."""

Goal = dict[Place, Held]
Sizes = NDArray[np.int64]


def _alike(sizes: Sizes, inputs: int, outputs: int) -> bool:
    """Say whether all ranks have inputs and outputs of the same size, in this ratio."""
    into, out = sizes[:, INPUT], sizes[:, OUTPUT]
    same = bool((into == into[0]).all() and (out == out[0]).all())
    return same and bool(into[0] * outputs == out[0] * inputs)


def _outputs(sizes: Sizes) -> Iterator[Part]:
    return ((r, k) for r, n in enumerate(sizes[:, OUTPUT].tolist()) for k in range(n))


def _each(sizes: Sizes, rule: Callable[[int, int], list[Part]]) -> Goal:
    """Return what every output must hold; a rule that returns nothing leaves it open."""
    found = {(r, OUTPUT, k): frozenset(rule(r, k)) for r, k in _outputs(sizes)}
    return {place: held for place, held in found.items() if held}


def _all_reduce(sizes: Sizes) -> list[Goal]:
    if not _alike(sizes, 1, 1):
        return []
    ranks = range(len(sizes))
    return [_each(sizes, lambda r, k: [(q, k) for q in ranks])]


def _all_gather(sizes: Sizes) -> list[Goal]:
    each = int(sizes[0, INPUT])
    if not each or not _alike(sizes, 1, len(sizes)):
        return []
    return [_each(sizes, lambda r, k: [divmod(k, each)])]


def _reduce_scatter(sizes: Sizes) -> list[Goal]:
    if not _alike(sizes, len(sizes), 1):
        return []
    ranks, each = range(len(sizes)), int(sizes[0, OUTPUT])
    return [_each(sizes, lambda r, k: [(q, r * each + k) for q in ranks])]


def _all_to_all(sizes: Sizes) -> list[Goal]:
    each = int(sizes[0, OUTPUT]) // len(sizes)
    if not each or not _alike(sizes, 1, 1):
        return []
    return [_each(sizes, lambda r, k: [(k // each, r * each + k % each)])]


def _prefixes(last: int) -> Callable[[Sizes], list[Goal]]:
    def meaning(sizes: Sizes) -> list[Goal]:
        if not _alike(sizes, 1, 1):
            return []
        return [_each(sizes, lambda r, k: [(q, k) for q in range(r + last)])]

    return meaning


def _send_recv(sizes: Sizes) -> list[Goal]:
    if not _alike(sizes, 1, 1):
        return []
    return [_each(sizes, lambda r, k: [((r - 1) % len(sizes), k)])]


def _broadcast(sizes: Sizes) -> list[Goal]:
    count = int(sizes[0, OUTPUT])
    roots = np.flatnonzero(sizes[:, INPUT] == count).tolist()
    if (sizes[:, OUTPUT] != count).any():
        return []
    return [{(r, OUTPUT, k): frozenset([(root, k)]) for r, k in _outputs(sizes)} for root in roots]


def _reduce(sizes: Sizes) -> list[Goal]:
    count, ranks = int(sizes[0, INPUT]), range(len(sizes))
    roots = np.flatnonzero(sizes[:, OUTPUT] == count).tolist()
    if (sizes[:, INPUT] != count).any():
        return []
    total = [frozenset((q, k) for q in ranks) for k in range(count)]
    return [{(root, OUTPUT, k): held for k, held in enumerate(total)} for root in roots]


def _gather(sizes: Sizes) -> list[Goal]:
    count = int(sizes[0, INPUT])
    roots = np.flatnonzero(sizes[:, OUTPUT] == count * len(sizes)).tolist()
    if not count or (sizes[:, INPUT] != count).any():
        return []
    blocks = [frozenset([divmod(k, count)]) for k in range(count * len(sizes))]
    return [{(root, OUTPUT, k): held for k, held in enumerate(blocks)} for root in roots]


def _scatter(sizes: Sizes) -> list[Goal]:
    count = int(sizes[0, OUTPUT])
    roots = np.flatnonzero(sizes[:, INPUT] == count * len(sizes)).tolist()
    if (sizes[:, OUTPUT] != count).any():
        return []
    places = list(_outputs(sizes))
    return [
        {(r, OUTPUT, k): frozenset([(root, r * count + k)]) for r, k in places} for root in roots
    ]


MEANINGS: dict[str, Callable[[Sizes], list[Goal]]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "scan": _prefixes(1),
    "exscan": _prefixes(0),
    "send_recv": _send_recv,
}
"""What the outputs of an operation must hold, for buffers of these sizes in chunks: for each root
that there could be; nothing where the sizes are not those of the operation."""
