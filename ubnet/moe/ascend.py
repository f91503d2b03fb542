"""Ascend's functions for dispatch and combine: torch_npu's names, argument order and returns.

A communicator of mpi4py (or None, or a name: the whole world) stands for ``group_ep``. Rows lie
grouped by local expert, then by source rank, then by token; what is set aside beyond the rows that
hold tokens is zero and takes no memory. Tensor parallelism beside it is not modelled.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.collectives.combine import sum_rows
from ubnet.collectives.dispatch import quantised
from ubnet.collectives.layout import SendOrder, send_order
from ubnet.collectives.placement import Placement, plain_placement, shared_placement
from ubnet.collectives.quantise import values
from ubnet.collectives.routing import NO_EXPERT
from ubnet.collectives.token_records import fields_of
from ubnet.errors import MismatchedCall, OptionError
from ubnet.fabric import Ints
from ubnet.moe.ascend_rows import (
    buffer_rows,
    extended,
    largest_batch,
    layout_of,
    masked,
    turn_of_copies,
    weights_of,
)
from ubnet.moe.calls import (
    Shape,
    check_index,
    check_tokens,
    received,
    returned,
    start_combine,
    start_dispatch,
)
from ubnet.moe.members import Members, members_of
from ubnet.rank import current

Array = NDArray[Any]

QUANT_MODES = {0: "none", 2: "int8"}


def npu_moe_distribute_dispatch(
    x: Array,
    expert_ids: Array,
    group_ep: Any,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    scales: Array | None = None,
    x_active_mask: Array | None = None,
    expert_scales: Array | None = None,
    group_tp: str = "",
    tp_world_size: int = 0,
    tp_rank_id: int = 0,
    expert_shard_type: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    quant_mode: int = 0,
    global_bs: int = 0,
    expert_token_nums_type: int = 1,
) -> tuple[Array, Array | None, Array, Array, Array, Array, Array | None]:
    """Send every token to the ranks of its experts, quantised if asked for.

    Parameters
    ----------
    x : ndarray of bfloat16, shape (BS, H)
        Tokens.
    expert_ids : ndarray of int, shape (BS, K)
        Experts of each token, different within a row; -1 = none.
    group_ep : communicator, str or None
        The ranks that share the experts.
    ep_world_size, ep_rank_id, moe_expert_num : int
        Number of ranks, this rank, number of routed experts.
    x_active_mask : ndarray of bool, shape (BS,) or (BS, K), optional
        False: the token (or its key) is not sent.
    expert_scales : ndarray of float32, shape (BS, K), optional
        The gate's weights; they ride along and come out as ``expand_scales``.
    shared_expert_num, shared_expert_rank_num : int
        One shared expert; so many ranks, the first ones, hold it and nothing else.
    quant_mode : {0, 2}
        bfloat16 as it is, or INT8 with a scale per token.
    global_bs : int
        BS x ranks with the largest BS, where ranks have different ones; 0: all have the same.
    expert_token_nums_type : {0, 1}
        Prefix sums, or counts.

    Returns
    -------
    expand_x : ndarray of bfloat16 or int8, shape (A, H)
        Rows; A = BS x ranks x min(local experts, K), on ranks of the shared expert BS x ranks /
        shared ranks.
    dynamic_scales : ndarray of float32, shape (A,), or None
        ``1 / s`` of each row, for `quant_mode` 2.
    expand_idx : ndarray of int32, shape (BS * K,)
        Which of this rank's copies for its expert each one is; for the combine.
    expert_token_nums : ndarray of int64, shape (local experts,)
        Rows of each local expert.
    ep_recv_counts : ndarray of int32, shape (local experts * ranks,)
        Prefix sums of the rows of each local expert by source rank; for the combine.
    tp_recv_counts : ndarray of int32, shape (1,)
        Zero: there is no tensor parallelism.
    expand_scales : ndarray of float32, shape (A,), or None
        The weight of each row.

    Raises
    ------
    OptionError, MismatchedCall, CapacityExceeded
        Before anything is sent; no token is ever dropped.
    """
    _refuse_tp(tp_world_size, expert_shard_type, shared_expert_num)
    if scales is not None or quant_mode not in QUANT_MODES:
        raise OptionError(
            f"quant_mode {quant_mode}{' with scales' if scales is not None else ''}: allowed are "
            "0 (bfloat16) and 2 (INT8 with a scale per token), without smoothing scales"
        )
    members = _check_group(group_ep, ep_world_size, ep_rank_id)
    held = check_tokens(x)
    batch, hidden = held.shape
    experts = masked(check_index(expert_ids, batch, "expert_ids"), x_active_mask)
    placement = _placement(moe_expert_num, ep_world_size, shared_expert_rank_num)
    order = _order(experts, placement, ep_rank_id)
    most = largest_batch(batch, global_bs, members)
    shape = Shape(placement.slots, hidden, QUANT_MODES[quant_mode])
    rows, row_scales = quantised(held, shape.quant)
    columns: list[Array] = [rows]
    if row_scales is not None:
        columns.append(row_scales[:, None])
    if expert_scales is not None:
        columns.append(placement.weights_of(weights_of(expert_scales, experts)))
    agreed = (("BS", 0 if global_bs else batch), ("global_bs", global_bs), ("K", experts.shape[1]))
    pending = start_dispatch(members, shape, order, columns, agreed)
    current().wait([pending])
    got, handle = received(members, shape, fields_of(columns), pending.data)
    room = buffer_rows(most, experts.shape[1], placement, members)
    expand_x = extended(got[0] if shape.quant == "int8" else values(got[0]), room)
    dynamic = None if row_scales is None else extended(got[1][:, 0], room)
    weight = None
    if expert_scales is not None:
        weight = extended(got[-1][np.arange(len(got[-1])), handle.source_key], room)
    counts = handle.layout.expert_counts
    nums = counts if expert_token_nums_type else np.cumsum(counts)
    by_source = np.cumsum(handle.layout.counts.T.reshape(-1)).astype(np.int32)
    none = np.zeros(1, dtype=np.int32)
    return expand_x, dynamic, turn_of_copies(experts), nums, by_source, none, weight


def npu_moe_distribute_combine(
    expand_x: Array,
    expert_ids: Array,
    expand_idx: Array,
    ep_send_counts: Array,
    expert_scales: Array,
    group_ep: Any,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    tp_send_counts: Array | None = None,
    x_active_mask: Array | None = None,
    activation_scale: Array | None = None,
    weight_scale: Array | None = None,
    group_list: Array | None = None,
    expand_scales: Array | None = None,
    shared_expert_x: Array | None = None,
    group_tp: str = "",
    tp_world_size: int = 0,
    tp_rank_id: int = 0,
    expert_shard_type: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    global_bs: int = 0,
    out_dtype: int = 0,
    comm_quant_mode: int = 0,
    group_list_type: int = 0,
) -> Array:
    """Bring the experts' results back and sum them by weight; the shared expert's weight is 1.

    Parameters
    ----------
    expand_x : ndarray of bfloat16, shape (A, H)
        The experts' results, row by row as the dispatch gave the tokens.
    expert_ids, x_active_mask : ndarray
        As in the dispatch.
    expand_idx, ep_send_counts : ndarray of int32
        ``expand_idx`` and ``ep_recv_counts`` of the dispatch.
    expert_scales : ndarray of float32, shape (BS, K)
        The gate's weights.
    shared_expert_x : ndarray of bfloat16, shape (BS, H), optional
        What a shared expert on this rank itself made of its tokens; added with weight 1.

    Returns
    -------
    ndarray of bfloat16, shape (BS, H)

    Raises
    ------
    OptionError, MismatchedCall
        If arguments do not fit the dispatch.
    """
    _refuse_tp(tp_world_size, expert_shard_type, shared_expert_num)
    if comm_quant_mode or activation_scale is not None or weight_scale is not None:
        raise OptionError("combine sends bfloat16: comm_quant_mode is 0, without further scales")
    members = _check_group(group_ep, ep_world_size, ep_rank_id)
    held = check_tokens(expand_x, "expand_x")
    experts = masked(check_index(expert_ids, len(expert_ids), "expert_ids"), x_active_mask)
    if not np.array_equal(expand_idx, turn_of_copies(experts)):
        raise MismatchedCall(
            f"expand_idx of rank {ep_rank_id} does not belong to these expert_ids: give what the "
            "dispatch of the same expert_ids and mask returned"
        )
    placement = _placement(moe_expert_num, ep_world_size, shared_expert_rank_num)
    order = _order(experts, placement, ep_rank_id)
    layout = layout_of(ep_send_counts, placement, members, len(held))
    shape = Shape(placement.slots, held.shape[1], "none")
    columns = [held[: layout.rows]]
    pending = start_combine(members, shape, layout, columns, len(experts))
    weights = placement.weights_of(weights_of(expert_scales, experts))
    current().wait([pending])
    (incoming,) = returned(fields_of(columns), pending.data)
    position = order.position()
    if shared_expert_x is not None:
        own = check_tokens(shared_expert_x, "shared_expert_x")
        last = len(incoming) + np.arange(len(own))
        incoming = np.concatenate([incoming, own])
        position = np.concatenate([position, last[:, None]], axis=1)
        weights = np.concatenate([weights, np.ones((len(own), 1), np.float32)], axis=1)
    out = np.empty((len(experts), held.shape[1]), dtype=np.uint16)
    sum_rows(incoming, position, np.ascontiguousarray(weights), out)
    return values(out)


def _refuse_tp(tp_world_size: int, expert_shard_type: int, shared_expert_num: int) -> None:
    if tp_world_size > 1 or expert_shard_type or shared_expert_num not in (0, 1):
        raise OptionError(
            f"tp_world_size {tp_world_size}, expert_shard_type {expert_shard_type}, "
            f"shared_expert_num {shared_expert_num}: allowed are 0 or 1, 0, and 0 or 1"
        )


def _check_group(group: Any, size: int, rank: int) -> Members:
    members = members_of(group)
    if (members.size, members.rank) != (size, rank):
        raise MismatchedCall(
            f"ep_world_size {size} and ep_rank_id {rank} were given by rank {members.rank} of a "
            f"group of {members.size}: give these"
        )
    return members


def _placement(experts: int, ranks: int, shared_ranks: int) -> Placement:
    if shared_ranks:
        return shared_placement(experts, ranks, shared_ranks)
    return plain_placement(experts, ranks)


def _order(experts: Ints, placement: Placement, rank: int) -> SendOrder:
    slots = placement.slots_of(experts, rank)
    if len(placement.shared):
        # A token that is masked out altogether goes to no shared expert either.
        slots[(experts == NO_EXPERT).all(axis=1), -1] = NO_EXPERT
    return send_order(slots, placement.slots, rank)
