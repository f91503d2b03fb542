"""What Ascend's functions say of rows: how many a buffer holds, whose they are, in which order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.collectives.layout import ReceiveLayout, receive_layout
from ubnet.collectives.placement import Placement
from ubnet.collectives.routing import NO_EXPERT
from ubnet.errors import CapacityExceeded, MismatchedCall, OptionError
from ubnet.fabric import Ints
from ubnet.moe.members import Members

Array = NDArray[Any]


def masked(experts: Ints, mask: Array | None) -> Ints:
    """Return experts with -1 where a mask of tokens, or of their keys, says False."""
    if mask is None:
        return experts
    active = np.asarray(mask, dtype=bool)
    active = active[:, None] if active.ndim == 1 else active
    if len(active) != len(experts):
        raise OptionError(
            f"x_active_mask has shape {np.shape(mask)}; give ({len(experts)},) or {experts.shape}"
        )
    return np.where(active, experts, NO_EXPERT)


def largest_batch(batch: int, global_bs: int, members: Members) -> int:
    """Return the tokens of a rank that the static buffers are made for."""
    if global_bs and batch * members.size > global_bs:
        raise CapacityExceeded(
            f"rank {members.rank} has {batch} tokens, global_bs {global_bs} has room for "
            f"{global_bs // members.size} = global_bs / ranks {members.size}: need {batch}; give "
            f"global_bs={batch * members.size} or more"
        )
    return global_bs // members.size if global_bs else batch


def buffer_rows(batch: int, topk: int, placement: Placement, members: Members) -> int:
    """Return A, the rows of the static buffer of this rank."""
    local = placement.slots // members.size
    if members.rank < len(placement.shared):
        return batch * -(-members.size // len(placement.shared))
    return batch * members.size * min(local, topk)


def extended(rows: Array, room: int) -> Array:
    """Return rows in an array of `room`, the rest zero and without memory of its own."""
    out = np.zeros((room, *rows.shape[1:]), dtype=rows.dtype)
    out[: len(rows)] = rows
    return out


def turn_of_copies(experts: Ints) -> NDArray[np.int32]:
    """Return which of the copies for its expert each (token, key) is, 0 where there is none."""
    chosen = experts.reshape(-1)
    active = np.flatnonzero(chosen != NO_EXPERT)
    order = active[np.argsort(chosen[active], kind="stable")]
    expert = chosen[order]
    turn = np.zeros(len(chosen), dtype=np.int32)
    turn[order] = np.arange(len(order)) - np.searchsorted(expert, expert)
    return turn


def layout_of(counts: Array, placement: Placement, members: Members, rows: int) -> ReceiveLayout:
    """Return the layout that a dispatch's ``ep_recv_counts`` stand for."""
    local = placement.slots // members.size
    ends = np.asarray(counts, dtype=np.int64)
    if ends.shape != (local * members.size,) or (len(ends) and ends[-1] > rows):
        raise MismatchedCall(
            f"ep_send_counts of shape {ends.shape} and expand_x of {rows} rows on rank "
            f"{members.rank}: give the ep_recv_counts of the dispatch and all of its rows"
        )
    each = np.diff(ends, prepend=0).reshape(local, members.size)
    return receive_layout(np.ascontiguousarray(each.T))


def weights_of(expert_scales: Array, experts: Ints) -> NDArray[np.float32]:
    """Return the gate's weights as float32, or refuse another shape."""
    weights = np.asarray(expert_scales, dtype=np.float32)
    if weights.shape != experts.shape:
        raise OptionError(
            f"expert_scales has shape {weights.shape}; give one weight for each of "
            f"expert_ids {experts.shape}"
        )
    return weights
