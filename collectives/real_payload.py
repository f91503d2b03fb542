"""Dispatch and combine with real bytes for all ranks of one process, in bounded memory.

A dispatch keeps what every rank sends (quantised) and makes the rows of one receiving rank at a
time; a combine goes through the source ranks in blocks and holds what comes back to one block.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import Ints

from .combine import send_back, weighted_sum
from .dispatch import Dispatch, Received, make_handle
from .gate import PADDED, Gate
from .layout import SendOrder, send_order
from .made_tokens import (
    fill_rows,
    fp8_table,
    make_tokens,
    wrong_bf16,
    wrong_fp8,
    wrong_int8,
)
from .padded import packed_rows, padded_rows
from .quantise import BF16_BYTES

FACTORS = 4
"""Target e multiplies by ``1 + e % 4``, so that a row which went astray shows."""

BLOCK_BYTES = 1 << 26
"""What may come back to a block of source ranks of a combine, unless one rank gets more."""


Show = Callable[[float], None]
"""Is told which part is done, from 0 to 1."""


def quiet(done: float) -> None:
    """Show nothing."""


def wrong_dispatch(gate: Gate, tokens: Ints, hidden: int, quant: str, show: Show = quiet) -> int:
    """Dispatch made tokens between all ranks; count the elements and scales that are wrong.

    Parameters
    ----------
    gate : Gate
        Who sends what to whom; the seed of its routing makes the tokens.
    tokens : ndarray of int64, shape (ranks,)
        Tokens of each rank.
    hidden : int
        Their channels.
    quant : {"int8", "fp8", "none"}
        What is sent.
    show : callable
        Is told now and then which part is done.
    """
    seed, each = gate.routing.seed, list(enumerate(tokens.tolist()))
    routed = [gate.of(rank, count)[0] for rank, count in each]

    def made() -> Iterator[NDArray[np.uint16]]:
        for rank, count in each:
            show(rank / gate.ranks / 2)
            yield make_tokens(seed, rank, count, hidden)

    batch, wrong = int(tokens.max(initial=0)), 0
    dispatch = Dispatch(made(), routed, gate.targets, quant, batch=batch)
    for rank in range(gate.ranks):
        show(0.5 + rank / gate.ranks / 2)
        wrong += _wrong_rows(gate, dispatch.received(rank), gate.ranks * batch)
    return wrong


def _wrong_rows(gate: Gate, got: Received, slots: int) -> int:
    """Count what is wrong on one rank; for the padded layout, as it comes out of that."""
    rows, scales, handle, seed = got.expand_x, got.scales, got.handle, gate.routing.seed
    if gate.layout == PADDED:
        rows = packed_rows(padded_rows(rows, handle.layout, slots), handle.layout)
        if scales is not None:
            scales = packed_rows(padded_rows(scales, handle.layout, slots), handle.layout)
    source, token = handle.source_rank, handle.source_token
    if scales is None:
        once = np.ones(len(source), dtype=np.float32)
        return int(wrong_bf16(seed, source, token, once, rows))
    if scales.ndim == 2:
        return int(wrong_fp8(seed, source, token, fp8_table(), rows, scales))
    return int(wrong_int8(seed, source, token, rows, scales))


def wrong_combine(gate: Gate, tokens: Ints, hidden: int, show: Show = quiet) -> int:
    """Combine made results of all targets; count the elements of the sums that are wrong.

    Parameters
    ----------
    gate, tokens, hidden, show
        As in `wrong_dispatch`.
    """
    rows = int(tokens.max(initial=0)) * gate.keys
    block = max(1, min(gate.ranks, BLOCK_BYTES // max(1, rows * hidden * BF16_BYTES)))
    held = np.empty((block, rows, hidden), dtype=np.uint16)
    wrong = 0
    for first in range(0, gate.ranks, block):
        show(first / gate.ranks)
        sources = range(first, min(first + block, gate.ranks))
        routed = [gate.of(rank, int(tokens[rank])) for rank in sources]
        pairs = zip(sources, routed, strict=True)
        orders = [send_order(idx, gate.targets, rank) for rank, (idx, _) in pairs]
        _bring_back(gate, first, orders, held)
        for i, (idx, weights) in enumerate(routed):
            out = weighted_sum(held[i, : len(orders[i])], orders[i], weights)
            factor = np.where(idx >= 0, 1 + idx % FACTORS, 0)
            total = (weights * factor).sum(axis=1, dtype=np.float32)
            source = np.full(len(idx), first + i)
            wrong += wrong_bf16(gate.routing.seed, source, np.arange(len(idx)), total, out)
    return wrong


def _bring_back(gate: Gate, first: int, orders: list[SendOrder], held: NDArray[np.uint16]) -> None:
    """Let each rank make its targets' results for a block of sources and send them back."""
    local = gate.targets // gate.ranks
    for rank in range(gate.ranks):
        handle = make_handle(rank, orders, local)
        layout = handle.layout
        target = np.repeat(np.arange(rank * local, (rank + 1) * local), layout.expert_counts)
        results = np.empty((layout.rows, held.shape[2]), dtype=np.uint16)
        source = handle.source_rank + first
        fill_rows(gate.routing.seed, source, handle.source_token, 1 + target % FACTORS, results)
        for i, order in enumerate(orders):
            held[i, order.copies_for(rank * local, local)] = send_back(results, handle, i)
