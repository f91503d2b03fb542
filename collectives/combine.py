"""Combine: the experts' results go back in bfloat16 and are summed with the gate's weights.

A rank sends each source its rows (`send_back`), which are then in the order in which the source
had sent them; the source sums what came for each token (`weighted_sum`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import MismatchedCall
from ubnet.fabric import Ints
from ubnet.jit import kernel

from .dispatch import Dispatch, Handle
from .layout import SendOrder
from .quantise import Bits, Singles, token_bits


def send_back(results: Bits, handle: Handle, source: int) -> Bits:
    """Return the rows that go back to one source rank, in the order in which it sent them.

    Parameters
    ----------
    results : ndarray of uint16, shape (rows, hidden)
        Bits of bfloat16: what the experts made of the rows of a dispatch.
    handle : Handle
        From that dispatch.
    source : int
        The rank to which they go.

    Raises
    ------
    MismatchedCall
        If the number of rows is not that of the dispatch.
    """
    layout = handle.layout
    results = token_bits(results, f"results on rank {handle.rank} are")
    if len(results) != layout.rows:
        raise MismatchedCall(
            f"rank {handle.rank} combines {len(results)} rows, its dispatch received "
            f"{layout.rows}; give one result for each row of expand_x"
        )
    rows: Bits = results[layout.rows_from(source)]
    return rows


def weighted_sum(incoming: Bits, order: SendOrder, weights: Singles) -> Bits:
    """Sum what came back for each token with its weights.

    In float32, key by key: ``sum = sum + w * y``, each operation rounded, and the end rounded to
    bfloat16 once. A token without experts gets zeros.

    Parameters
    ----------
    incoming : ndarray of uint16, shape (copies, hidden)
        Bits of bfloat16, in the order of `order`.
    order : SendOrder
        The order in which this rank had sent its copies.
    weights : ndarray of float32, shape (tokens, topk)
        The gate's weights.

    Returns
    -------
    ndarray of uint16, shape (tokens, hidden)
        Bits of bfloat16.

    Raises
    ------
    MismatchedCall
        If the shapes do not fit the dispatch.
    """
    incoming = token_bits(incoming, "rows that came back are")
    given = np.shape(weights)
    if len(incoming) != len(order) or given != (order.tokens, order.topk):
        raise MismatchedCall(
            f"{len(incoming)} rows and weights of shape {given} came to a combine whose "
            f"dispatch sent {len(order)} copies with weights of shape {(order.tokens, order.topk)}"
        )
    out = np.empty((order.tokens, incoming.shape[1]), dtype=np.uint16)
    sum_rows(incoming, order.position(), np.ascontiguousarray(weights, dtype=np.float32), out)
    return out


def combine(
    results: Sequence[Bits],
    handles: Sequence[Handle],
    dispatch: Dispatch,
    weights: NDArray[Any],
    rank: int,
) -> Bits:
    """Combine for one rank what the experts of all ranks made of its tokens.

    Parameters
    ----------
    results : sequence of ndarray of uint16, shape (rows, hidden)
        Bits of bfloat16 on every rank.
    handles : sequence of Handle
        Of every rank.
    dispatch : Dispatch
        The dispatch they come from.
    weights : ndarray of float32, shape (tokens, topk)
        The weights of this rank.
    rank : int
        This rank.
    """
    if not len(results) == len(handles) == len(dispatch.outgoing):
        raise MismatchedCall(
            f"{len(results)} results and {len(handles)} handles came to a combine on "
            f"{len(dispatch.outgoing)} ranks; give those of every rank"
        )
    rows = [send_back(y, h, rank) for y, h in zip(results, handles, strict=True)]
    return weighted_sum(np.concatenate(rows), dispatch.outgoing[rank].order, weights)


@kernel
def sum_rows(incoming: Bits, position: Ints, weights: Singles, out: Bits) -> None:
    """Sum rows ``position[t, :]`` of `incoming` with their weights into row t of `out`."""
    tokens, topk = position.shape
    hidden = incoming.shape[1]
    wide = np.empty(hidden, dtype=np.uint32)
    row = wide.view(np.float32)
    total = np.empty(hidden, dtype=np.float32)
    held = total.view(np.uint32)
    for t in range(tokens):
        for h in range(hidden):
            total[h] = 0.0
        for j in range(topk):
            p = position[t, j]
            if p < 0:
                continue
            for h in range(hidden):
                wide[h] = np.uint32(incoming[p, h]) << np.uint32(16)
            for h in range(hidden):
                total[h] = total[h] + weights[t, j] * row[h]
        for h in range(hidden):
            b = np.int64(held[h])
            if b & 0x7FFFFFFF > 0x7F800000:
                out[t, h] = np.uint16((b >> 16) | 0x40)
            else:
                out[t, h] = np.uint16((b + 0x7FFF + ((b >> 16) & 1)) >> 16)
