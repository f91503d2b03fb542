"""Dispatch and combine with real bytes for all ranks of one process, in bounded memory.

A dispatch keeps what every rank sends (quantised) and makes the rows of one receiving rank at a
time; a combine goes through the source ranks in blocks and holds what comes back to one block.
"""

import numpy as np
from numpy.typing import NDArray

from .combine import send_back, weighted_sum
from .dispatch import Dispatch, make_handle
from .layout import SendOrder, send_order
from .made_tokens import fill_rows, make_tokens, wrong_bf16, wrong_int8
from .quantise import BF16_BYTES
from .routing import Routing

FACTORS = 4
"""Expert e multiplies by ``1 + e % 4``, so that a row which went astray shows."""

BLOCK_BYTES = 1 << 26
"""What may come back to a block of source ranks of a combine, unless one rank gets more."""


def wrong_dispatch(routing: Routing, ranks: int, tokens: int, hidden: int, quant: str) -> int:
    """Dispatch made tokens between all ranks; count the elements and scales that are wrong."""
    routed = [routing.of(rank, tokens)[0] for rank in range(ranks)]
    made = (make_tokens(routing.seed, rank, tokens, hidden) for rank in range(ranks))
    dispatch = Dispatch(made, routed, routing.experts, quant, batch=tokens)
    wrong = 0
    for rank in range(ranks):
        got = dispatch.received(rank)
        source, token = got.handle.source_rank, got.handle.source_token
        if got.scales is None:
            once = np.ones(len(source), dtype=np.float32)
            wrong += wrong_bf16(routing.seed, source, token, once, got.expand_x)
        else:
            wrong += wrong_int8(routing.seed, source, token, got.expand_x, got.scales)
    return wrong


def wrong_combine(routing: Routing, ranks: int, tokens: int, hidden: int) -> int:
    """Combine made results of all experts; count the elements of the sums that are wrong."""
    rows = tokens * routing.topk
    block = max(1, min(ranks, BLOCK_BYTES // max(1, rows * hidden * BF16_BYTES)))
    held = np.empty((block, rows, hidden), dtype=np.uint16)
    wrong = 0
    for first in range(0, ranks, block):
        routed = [routing.of(rank, tokens) for rank in range(first, min(first + block, ranks))]
        pairs = enumerate(routed, first)
        orders = [send_order(idx, routing.experts, rank) for rank, (idx, _) in pairs]
        _bring_back(routing, ranks, first, orders, held)
        for i, (idx, weights) in enumerate(routed):
            out = weighted_sum(held[i, : len(orders[i])], orders[i], weights)
            total = (weights * (1 + idx % FACTORS)).sum(axis=1, dtype=np.float32)
            wrong += wrong_bf16(
                routing.seed, np.full(tokens, first + i), np.arange(tokens), total, out
            )
    return wrong


def _bring_back(
    routing: Routing, ranks: int, first: int, orders: list[SendOrder], held: NDArray[np.uint16]
) -> None:
    """Let each rank make its experts' results for a block of sources and send them back."""
    local = routing.experts // ranks
    for rank in range(ranks):
        handle = make_handle(rank, orders, local)
        layout = handle.layout
        expert = np.repeat(np.arange(rank * local, (rank + 1) * local), layout.expert_counts)
        results = np.empty((layout.rows, held.shape[2]), dtype=np.uint16)
        source = handle.source_rank + first
        fill_rows(routing.seed, source, handle.source_token, 1 + expert % FACTORS, results)
        for i, order in enumerate(orders):
            held[i, order.copies_for(rank * local, local)] = send_back(results, handle, i)
