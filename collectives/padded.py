"""The expert-padded layout (DeepEP's low-latency kernels, pplx): as many rows for every expert.

The rows of local expert ``l`` begin at ``[l, 0]``, in the order of the expert-contiguous layout;
there is room for ``ranks x max tokens`` of them, and what holds no token is zero. Memory is taken
for rows that hold tokens only: the rest of the array is never touched.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import CapacityExceeded
from ubnet.fabric import Ints

from .layout import ReceiveLayout


def slot_of_rows(layout: ReceiveLayout) -> tuple[Ints, Ints]:
    """Return the local expert of every row and its place among that expert's rows.

    >>> from .layout import receive_layout
    >>> expert, place = slot_of_rows(receive_layout(np.array([[1, 0], [1, 3]])))
    >>> expert.tolist(), place.tolist()
    ([0, 0, 1, 1, 1], [0, 1, 0, 1, 2])
    """
    expert = np.repeat(np.arange(len(layout.expert_counts)), layout.expert_counts)
    return expert, np.arange(layout.rows) - layout.expert_start[expert]


def padded_rows(rows: NDArray[Any], layout: ReceiveLayout, slots: int) -> NDArray[Any]:
    """Spread expert-contiguous rows over the padded array.

    Parameters
    ----------
    rows : ndarray, shape (rows, ...)
        One row (or scale) for each row of the layout.
    layout : ReceiveLayout
        Whose they are.
    slots : int
        Rows set aside for each local expert, ``ranks x max tokens``.

    Returns
    -------
    ndarray, shape (local experts, slots, ...)

    Raises
    ------
    CapacityExceeded
        If an expert has more rows than slots.
    """
    check_slots(layout, slots)
    padded = np.zeros((len(layout.expert_counts), slots, *rows.shape[1:]), dtype=rows.dtype)
    padded[slot_of_rows(layout)] = rows
    return padded


def packed_rows(padded: NDArray[Any], layout: ReceiveLayout) -> NDArray[Any]:
    """Return the rows of a padded array that hold tokens, expert-contiguous."""
    packed: NDArray[Any] = padded[slot_of_rows(layout)]
    return packed


def check_slots(layout: ReceiveLayout, slots: int) -> None:
    """Refuse more rows for an expert than there are slots."""
    need = int(layout.expert_counts.max(initial=0))
    if need > slots:
        expert = int(layout.expert_counts.argmax())
        raise CapacityExceeded(
            f"local expert {expert} would receive {need} tokens, its buffer has {slots} slots = "
            f"ranks {len(layout.counts)} x max tokens {slots // len(layout.counts)}: give a "
            f"maximum of {-(-need // len(layout.counts))} tokens or more"
        )
