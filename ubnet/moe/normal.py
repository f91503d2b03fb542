"""DeepEP's normal calls: the rank-packed layout, a token once for each rank, plain sums."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.collectives.combine import weighted_sum
from ubnet.collectives.fp8 import fp8_values
from ubnet.collectives.layout import ReceiveLayout, SendOrder, receive_layout, send_order
from ubnet.collectives.quantise import values
from ubnet.collectives.rank_packed import local_experts, rank_index
from ubnet.collectives.routing import NO_EXPERT
from ubnet.collectives.token_plan import check_experts
from ubnet.collectives.token_records import fields_of
from ubnet.errors import MismatchedCall, OptionError
from ubnet.fabric import Ints
from ubnet.moe.calls import (
    Shape,
    check_index,
    check_tokens,
    received,
    returned,
    start_combine,
    start_dispatch,
)
from ubnet.moe.event import Call
from ubnet.moe.members import Members
from ubnet.rank import current

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class NormalHandle:
    """What a normal dispatch leaves behind: for its combine, and for a dispatch of the same tokens.

    Attributes
    ----------
    order : SendOrder
        What this rank sends, by rank.
    layout : ReceiveLayout
        The rows that it receives, by source rank.
    """

    order: SendOrder
    layout: ReceiveLayout


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens of a normal dispatch: bfloat16, or FP8 with their scales."""

    rows: Array
    scales: Array | None

    @property
    def quant(self) -> str:
        """What is timed for a copy."""
        return "none" if self.scales is None else "fp8"

    @property
    def columns(self) -> list[Array]:
        """What rides with a token."""
        return [self.rows] if self.scales is None else [self.rows, self.scales]


@dataclass(frozen=True, eq=False)
class Packed:
    """What `dispatch` returns: arrays that are filled when the call has ended."""

    x: Any
    topk_idx: Array | None
    topk_weights: Array | None
    handle: NormalHandle
    call: Call


def tokens_of(x: Any) -> Tokens:
    """Read what DeepEP takes as ``x``: bfloat16, or a pair of float8_e4m3fn and float32 scales."""
    if not isinstance(x, tuple):
        return Tokens(check_tokens(x), None)
    rows, scales = x
    if rows.ndim != 2 or rows.dtype.name != "float8_e4m3fn" or len(scales) != len(rows):
        raise OptionError(
            f"x is {rows.dtype.name} of shape {rows.shape} with scales of shape {scales.shape}; "
            "give float8_e4m3fn and as many rows of float32 scales"
        )
    octets = np.ascontiguousarray(rows).view(np.uint8)
    return Tokens(octets, np.ascontiguousarray(scales, dtype=np.float32))


def order_of(
    members: Members, topk_idx: Array | None, is_token_in_rank: Array, experts: int, tokens: int
) -> SendOrder:
    """Sort what a rank sends by rank, and check that index and mask agree."""
    mask = np.asarray(is_token_in_rank, dtype=bool)
    if mask.shape != (tokens, members.size):
        raise OptionError(
            f"is_token_in_rank has shape {mask.shape}; give ({tokens}, {members.size}), as "
            "get_dispatch_layout returned"
        )
    if topk_idx is None:
        table = np.where(mask, np.arange(members.size), NO_EXPERT)
    else:
        table = rank_index(topk_idx, experts, members.size, members.rank)
        inside = np.zeros(mask.shape, dtype=bool)
        token, key = np.nonzero(table != NO_EXPERT)
        inside[token, table[token, key]] = True
        if not np.array_equal(inside, mask):
            raise MismatchedCall(
                f"is_token_in_rank of rank {members.rank} is not that of topk_idx; give what "
                "get_dispatch_layout returned for it"
            )
    return send_order(table, members.size, members.rank)


def expected(members: Members, order: SendOrder) -> ReceiveLayout:
    """Tell each other how many rows come from whom; no virtual time passes."""
    told = current().exchange(members.context, members.group, order.expert_counts, "moe layout")
    return receive_layout(np.array([counts[members.rank] for counts in told])[:, None])


def expert_counts(members: Members, per_expert: Array) -> Array:
    """Tell each other how many tokens come for each expert; no virtual time passes."""
    told = current().exchange(members.context, members.group, np.asarray(per_expert), "moe counts")
    local = len(per_expert) // members.size
    mine: Array = np.sum(told, axis=0)[members.rank * local : (members.rank + 1) * local]
    return mine


def check_again(
    members: Members, tokens: Tokens, handle: NormalHandle, topk_idx: Array | None
) -> None:
    """Refuse a dispatch with an earlier one's handle that is not of as many tokens."""
    if topk_idx is not None or len(tokens.rows) != handle.order.tokens:
        raise MismatchedCall(
            f"rank {members.rank} dispatches {len(tokens.rows)} tokens with the handle of "
            f"{handle.order.tokens}: give as many, and no topk_idx"
        )


def dispatch(
    members: Members,
    tokens: Tokens,
    handle: NormalHandle,
    topk_idx: Array | None,
    topk_weights: Array | None,
    experts: int,
    transport: str,
) -> Packed:
    """Start a dispatch; the arrays that it returns have their final shapes."""
    count, hidden = tokens.rows.shape
    rows = handle.layout.rows
    columns = tokens.columns
    index = weights = None
    if topk_idx is not None:
        check_experts(experts, members.size)
        columns = [*columns, check_index(topk_idx, count)]
        index = np.full((rows, topk_idx.shape[1]), NO_EXPERT, dtype=np.int64)
    if topk_weights is not None:
        given = np.asarray(topk_weights, dtype=np.float32)
        if topk_idx is None or given.shape != topk_idx.shape:
            raise OptionError(
                f"topk_weights has shape {given.shape}; give one weight for each of topk_idx"
            )
        columns = [*columns, given]
        weights = np.zeros((rows, given.shape[1]), dtype=np.float32)
    shape = Shape(members.size, hidden, tokens.quant, transport)
    pending = start_dispatch(members, shape, handle.order, columns)
    out = [np.zeros((rows, c.shape[1]), dtype=c.dtype) for c in tokens.columns]

    def finish(records: NDArray[np.uint8]) -> None:
        got, _ = received(members, shape, fields_of(columns), records)
        for target, column in zip(out, got, strict=False):
            target[:] = column
        if index is not None:
            index[:] = local_experts(got[len(out)], members.rank, experts // members.size)
        if weights is not None and index is not None:
            weights[:] = np.where(index == NO_EXPERT, 0, got[-1])

    x = values(out[0]) if tokens.scales is None else (fp8_values(out[0]), out[1])
    return Packed(x, index, weights, handle, Call(pending, finish))


def combine(
    members: Members, x: Array, handle: NormalHandle, topk_weights: Array | None, transport: str
) -> tuple[Array, Array | None, Call]:
    """Start the way back: every token is the plain sum of what comes from its ranks."""
    held, order = check_tokens(x), handle.order
    if len(held) != handle.layout.rows:
        raise MismatchedCall(
            f"rank {members.rank} combines {len(held)} rows, its dispatch received "
            f"{handle.layout.rows}; give one for each row of recv_x"
        )
    columns = [held]
    summed = None
    if topk_weights is not None:
        columns.append(np.asarray(topk_weights, dtype=np.float32))
        summed = np.zeros((order.tokens, columns[1].shape[1]), dtype=np.float32)
    shape = Shape(members.size, held.shape[1], "none", transport)
    pending = start_combine(members, shape, handle.layout, columns, order.tokens)
    out = values(np.zeros((order.tokens, held.shape[1]), dtype=np.uint16))
    one = np.ones((order.tokens, order.topk), dtype=np.float32)

    def finish(records: NDArray[np.uint8]) -> None:
        got = returned(fields_of(columns), records)
        out[:] = values(weighted_sum(got[0], order, one))
        if summed is not None:
            np.add.at(summed, order.token, got[1])

    return out, summed, Call(pending, finish)


def aligned_counts(per_expert: Ints, alignment: int) -> list[int]:
    """Return counts rounded up to multiples of `alignment`.

    >>> aligned_counts(np.array([0, 3, 4]), 4)
    [0, 4, 4]
    """
    rounded: list[int] = (-(-per_expert // alignment) * alignment).tolist()
    return rounded
