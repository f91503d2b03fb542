"""Dispatch: every token goes to the ranks of its experts, quantised before it is sent.

Each rank prepares what it sends (`prepare`) and receives its rows in the expert-contiguous layout
(`receive`). `Dispatch` does so for all ranks of one process, one receiving rank at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import MismatchedCall, OptionError
from ubnet.fabric import Ints
from ubnet.jit import kernel

from .fp8 import quantise_fp8, scale_groups
from .layout import ReceiveLayout, SendOrder, receive_layout, send_order
from .quantise import Bits, Singles, bytes_per_copy, check_quant, quantise, token_bits
from .token_plan import token_plan


@dataclass(frozen=True, eq=False)
class Outgoing:
    """What one rank sends in a dispatch.

    Attributes
    ----------
    order : SendOrder
        Its copies, sorted by expert.
    rows : ndarray, shape (tokens, hidden)
        Its tokens as they are sent: int8, or the bits of FP8 (uint8) or bfloat16 (uint16).
    scales : ndarray of float32, shape (tokens,) or (tokens, groups), or None
        ``1 / s`` of each token, or of its groups of 128 channels (FP8); None where nothing is
        quantised.
    """

    order: SendOrder
    rows: NDArray[Any]
    scales: Singles | None


@dataclass(frozen=True, eq=False)
class Handle:
    """What a rank must know of its rows to send the experts' results back.

    Attributes
    ----------
    rank : int
        The rank that holds the rows.
    layout : ReceiveLayout
        Where they lie.
    source_rank, source_token, source_key : ndarray of int64, shape (rows,)
        Where each row came from: rank, batch slot and key offset.
    """

    rank: int
    layout: ReceiveLayout
    source_rank: Ints
    source_token: Ints
    source_key: Ints


@dataclass(frozen=True, eq=False)
class Received:
    """What a dispatch returns on one rank.

    Attributes
    ----------
    expand_x : ndarray of int8, uint8 (FP8) or uint16 (bfloat16), shape (rows, hidden)
        The rows, grouped by local expert; rows that hold tokens and no others.
    scales : ndarray of float32, shape (rows,) or (rows, groups), or None
        ``1 / s`` of each row or its groups; None where nothing is quantised.
    expert_counts : ndarray of int64, shape (local experts,)
        Rows of each local expert.
    handle : Handle
        For the combine.
    """

    expand_x: NDArray[Any]
    scales: Singles | None
    expert_counts: Ints
    handle: Handle


def prepare(
    tokens: Bits, topk_idx: NDArray[Any], experts: int, quant: str = "int8", rank: int = 0
) -> Outgoing:
    """Sort and quantise what one rank sends.

    Parameters
    ----------
    tokens : ndarray of uint16, shape (tokens, hidden)
        Bits of bfloat16; see `ubnet.collectives.quantise.bits`.
    topk_idx : ndarray of int, shape (tokens, topk)
        Experts of each token, -1 = none.
    experts : int
        Number of experts in all.
    quant : {"int8", "fp8", "none"}
        INT8 with one scale per token, FP8 with one per 128 channels, or bfloat16 as it is.
    rank : int
        The rank, for the message of an error.

    Raises
    ------
    OptionError
        If experts are wrong or named twice, tokens are no matrix of bfloat16, or a token that is
        quantised holds inf or nan.
    MismatchedCall
        If the two arrays speak of different numbers of tokens.
    """
    check_quant(quant)
    tokens = token_bits(tokens, f"tokens of rank {rank} are")
    topk_idx = np.asarray(topk_idx)
    if topk_idx.ndim != 2 or topk_idx.dtype.kind not in "iu":
        raise OptionError(
            f"topk_idx of rank {rank} is {topk_idx.dtype} of shape {topk_idx.shape}; give whole "
            "numbers of shape (tokens, topk)"
        )
    if len(tokens) != len(topk_idx):
        raise MismatchedCall(
            f"rank {rank} has {len(tokens)} tokens and experts for {len(topk_idx)}; "
            "x and topk_idx need the same number of rows"
        )
    order = send_order(topk_idx, experts, rank)
    return Outgoing(order, *quantised(tokens, quant))


def quantised(tokens: Bits, quant: str) -> tuple[NDArray[Any], Singles | None]:
    """Return tokens as they are sent, and their scales."""
    if quant == "none":
        return tokens, None
    if quant == "fp8":
        octets = np.empty(tokens.shape, dtype=np.uint8)
        groups = np.empty((len(tokens), scale_groups(tokens.shape[1])), dtype=np.float32)
        quantise_fp8(tokens, octets, groups)
        return octets, groups
    rows = np.empty(tokens.shape, dtype=np.int8)
    scales = np.empty(len(tokens), dtype=np.float32)
    quantise(tokens, rows, scales)
    return rows, scales


def make_handle(rank: int, orders: Sequence[SendOrder], local_experts: int) -> Handle:
    """Work out where the rows of one rank lie and where they come from.

    Parameters
    ----------
    rank : int
        The receiving rank.
    orders : sequence of SendOrder
        What each source sends.
    local_experts : int
        Experts on each rank.
    """
    first = rank * local_experts
    mine = slice(first, first + local_experts)
    layout = receive_layout(np.array([order.expert_counts[mine] for order in orders]))
    place = np.empty((3, layout.rows), dtype=np.int64)
    for source, order in enumerate(orders):
        copies = order.copies_for(first, local_experts)
        row = layout.rows_from(source)
        place[:, row] = np.broadcast_to(source, len(row)), order.token[copies], order.key[copies]
    return Handle(rank, layout, place[0], place[1], place[2])


def receive(rank: int, local_experts: int, outgoing: Sequence[Outgoing]) -> Received:
    """Assemble the rows of one rank from what all ranks send.

    Parameters
    ----------
    rank : int
        The receiving rank.
    local_experts : int
        Experts on each rank.
    outgoing : sequence of Outgoing
        What each rank sends.
    """
    handle = make_handle(rank, [out.order for out in outgoing], local_experts)
    layout, sent = handle.layout, outgoing[0]
    expand_x = np.empty((layout.rows, sent.rows.shape[1]), dtype=sent.rows.dtype)
    scales = None
    if sent.scales is not None:
        scales = np.empty((layout.rows, *sent.scales.shape[1:]), dtype=np.float32)
    for source, out in enumerate(outgoing):
        row = layout.rows_from(source)
        token = handle.source_token[row]
        copy_rows(out.rows, token, row, expand_x)
        if scales is not None and out.scales is not None:
            scales[row] = out.scales[token]
    return Received(expand_x, scales, layout.expert_counts, handle)


class Dispatch:
    """A dispatch of all ranks in one process; the rows of a rank are made when they are asked for.

    Parameters
    ----------
    tokens : sequence of ndarray of uint16, shape (tokens, hidden)
        Bits of bfloat16 of each rank; a generator is fine, one rank's are held at a time.
    topk_idx : sequence of ndarray of int, shape (tokens, topk)
        Experts of each rank's tokens, -1 = none.
    experts : int
        Number of experts, a multiple of the ranks; in contiguous blocks.
    quant : {"int8", "fp8", "none"}
        What is sent.
    batch : int, optional
        Tokens of a rank that the static buffers are made for; default: as many as there are.

    Raises
    ------
    OptionError, MismatchedCall
        As `prepare`.
    CapacityExceeded
        If a static buffer is too small; nothing has moved then.

    Examples
    --------
    Two ranks with an expert each; token 1 of rank 0 goes to both:

    >>> from ubnet.collectives.quantise import to_bf16
    >>> x = [to_bf16(np.full((2, 4), r + 1.0, np.float32)) for r in range(2)]
    >>> topk_idx = [np.array([[0, -1], [0, 1]]), np.array([[1, -1], [1, -1]])]
    >>> dispatch = Dispatch(x, topk_idx, experts=2, quant="none")
    >>> got = dispatch.received(1)
    >>> got.expert_counts.tolist(), got.handle.source_rank.tolist()
    ([3], [0, 1, 1])
    """

    def __init__(
        self,
        tokens: Any,
        topk_idx: Sequence[NDArray[Any]],
        experts: int,
        quant: str = "int8",
        batch: int | None = None,
    ) -> None:
        self.quant = quant
        self.outgoing: list[Outgoing] = []
        given = iter(tokens)
        for rank, idx in enumerate(topk_idx):
            x = next(given, None)
            if x is None:
                raise MismatchedCall(f"rank {rank} of {len(topk_idx)} has experts and no tokens")
            self.outgoing.append(prepare(x, idx, experts, quant, rank))
        if not self.outgoing or next(given, None) is not None:
            raise MismatchedCall(
                f"there are experts for {len(topk_idx)} ranks: give tokens and topk_idx of every "
                "rank, at least one"
            )
        self._check_alike()
        orders = [out.order for out in self.outgoing]
        counts = [order.expert_counts for order in orders]
        self.plan = token_plan(counts, [o.tokens for o in orders], topk_idx[0].shape[1])
        if batch is not None:
            hidden = self.outgoing[0].rows.shape[1]
            self.plan.check(batch, bytes_per_copy(hidden, quant))

    def _check_alike(self) -> None:
        """Refuse ranks whose tokens have other channels or numbers of experts than rank 0's."""
        first = self.outgoing[0]
        wanted = first.rows.shape[1], first.order.topk
        for rank, out in enumerate(self.outgoing):
            if (out.rows.shape[1], out.order.topk) != wanted:
                raise MismatchedCall(
                    f"rank {rank} has tokens of {out.rows.shape[1]} channels and "
                    f"{out.order.topk} experts, rank 0 of {wanted[0]} and {wanted[1]}"
                )

    def received(self, rank: int) -> Received:
        """Return what one rank receives."""
        return receive(rank, self.plan.local_experts, self.outgoing)


@kernel
def copy_rows(source: NDArray[Any], token: Ints, row: Ints, out: NDArray[Any]) -> None:
    """Copy rows ``token`` of `source` to rows ``row`` of `out`."""
    for i in range(len(token)):
        given, taken = source[token[i]], out[row[i]]
        for h in range(len(given)):
            taken[h] = given[h]
