"""DeepEP's low-latency calls: the padded layout, split into sending and receiving by a hook."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.collectives.combine import weighted_sum
from ubnet.collectives.dispatch import Handle, quantised
from ubnet.collectives.fp8 import fp8_values, scale_groups
from ubnet.collectives.layout import SendOrder, StaticBuffer, send_order
from ubnet.collectives.padded import packed_rows, slot_of_rows
from ubnet.collectives.quantise import bits, bytes_per_copy, values
from ubnet.collectives.token_plan import check_experts
from ubnet.collectives.token_records import fields_of
from ubnet.errors import CapacityExceeded, MismatchedCall, OptionError
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

Array = NDArray[Any]


@dataclass(eq=False)
class LowLatencyHandle:
    """What a low-latency combine needs of its dispatch.

    Attributes
    ----------
    shape : Shape
        Experts, hidden, quantisation.
    order : SendOrder
        What this rank sent.
    slots : int
        Rows for each local expert: ranks x max tokens.
    arrival : Handle or None
        Where rows lie and come from; None until they have been received.
    call : Call
        The dispatch.
    """

    shape: Shape
    order: SendOrder
    slots: int
    arrival: Handle | None = None
    call: Call = field(init=False)


@dataclass(frozen=True, eq=False)
class Dispatched:
    """What `dispatch` returns: arrays that are filled when the call has ended."""

    rows: Array
    scales: NDArray[np.float32] | None
    count: NDArray[np.int32]
    handle: LowLatencyHandle


def size_hint(max_tokens: int, hidden: int, ranks: int, experts: int) -> int:
    """Return the bytes of the static buffers of dispatch and combine on a rank.

    Each is ``ranks x max tokens x local experts x message`` [P, section 4.2], with the larger
    message of a dispatch, bfloat16.
    """
    local = experts // ranks
    message = bytes_per_copy(hidden, "none")
    return 2 * StaticBuffer(ranks, max_tokens, local, local, message).nbytes


def dispatch(
    members: Members,
    x: Array,
    topk_idx: Array,
    max_tokens: int,
    experts: int,
    quant: str,
    transport: str,
) -> Dispatched:
    """Start a dispatch into padded arrays; see `Buffer.low_latency_dispatch`."""
    held = check_tokens(x)
    table = check_index(topk_idx, len(held))
    check_experts(experts, members.size)
    if len(held) > max_tokens:
        raise CapacityExceeded(
            f"rank {members.rank} has {len(held)} tokens, each expert has max tokens x ranks = "
            f"{max_tokens} x {members.size} slots: need {len(held)}, have {max_tokens}; give "
            f"num_max_dispatch_tokens_per_rank={len(held)} or more on all ranks"
        )
    hidden, local = held.shape[1], experts // members.size
    shape = Shape(experts, hidden, quant, transport)
    order = send_order(table, experts, members.rank)
    rows, scales = quantised(held, quant)
    columns = [rows] if scales is None else [rows, scales]
    pending = start_dispatch(members, shape, order, columns, (("max tokens", max_tokens),))
    handle = LowLatencyHandle(shape, order, members.size * max_tokens)
    out = np.zeros((local, handle.slots, hidden), dtype=rows.dtype)
    spread = None
    if scales is not None:
        spread = np.zeros((local, handle.slots, scale_groups(hidden)), dtype=np.float32)
    count = np.zeros(local, dtype=np.int32)

    def finish(records: NDArray[np.uint8]) -> None:
        got, handle.arrival = received(members, shape, fields_of(columns), records)
        place = slot_of_rows(handle.arrival.layout)
        out[place] = got[0]
        if spread is not None:
            spread[place] = got[1]
        count[:] = handle.arrival.layout.expert_counts

    handle.call = Call(pending, finish)
    return Dispatched(fp8_values(out) if quant == "fp8" else values(out), spread, count, handle)


def combine(
    members: Members,
    x: Array,
    topk_idx: Array,
    topk_weights: Array,
    handle: LowLatencyHandle,
    out: Array | None,
) -> tuple[Array, Call]:
    """Start the way back of padded arrays; see `Buffer.low_latency_combine`."""
    handle.call.wait()
    order, arrival, hidden = handle.order, handle.arrival, handle.shape.hidden
    assert arrival is not None
    layout = arrival.layout
    wanted = (len(layout.expert_counts), handle.slots, hidden)
    if x.shape != wanted or x.dtype.name != "bfloat16":
        raise MismatchedCall(
            f"rank {members.rank} combines {x.dtype.name} of shape {x.shape}; give bfloat16 of "
            f"shape {wanted}, as its dispatch returned"
        )
    table = check_index(topk_idx, order.tokens)
    if not np.array_equal(send_order(table, handle.shape.targets).token, order.token):
        raise MismatchedCall(f"topk_idx of rank {members.rank} is not that of its dispatch")
    weights = np.asarray(topk_weights, dtype=np.float32)
    result = check_out(out, (order.tokens, hidden))
    columns = [packed_rows(bits(x), layout)]
    pending = start_combine(members, handle.shape, layout, columns, order.tokens)

    def finish(records: NDArray[np.uint8]) -> None:
        (incoming,) = returned(fields_of(columns), records)
        result[:] = values(weighted_sum(incoming, order, weights))

    return result, Call(pending, finish)


def check_out(out: Array | None, shape: tuple[int, int]) -> Array:
    """Return the array for a result: a new one, or that of the caller if it fits."""
    if out is None:
        return values(np.zeros(shape, dtype=np.uint16))
    if out.shape != shape or out.dtype.name != "bfloat16":
        raise OptionError(f"out is {out.dtype.name} of shape {out.shape}; give bfloat16 of {shape}")
    return out
