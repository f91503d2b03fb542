"""The core of both faces: starting a dispatch or a combine, and reading what came."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.collectives.dispatch import Handle
from ubnet.collectives.layout import ReceiveLayout, SendOrder, receive_layout
from ubnet.collectives.moe_plan import CombinePlan, DispatchPlan
from ubnet.collectives.quantise import Bits, bits
from ubnet.collectives.token_records import Field, fields_of, origins, pack, record_bytes, unpack
from ubnet.errors import OptionError
from ubnet.fabric import Ints
from ubnet.message import Collective, Pending
from ubnet.moe.members import Members
from ubnet.rank import current

Agree = tuple[tuple[str, Hashable], ...]


@dataclass(frozen=True)
class Shape:
    """What a dispatch and its combine have in common on all members.

    Attributes
    ----------
    targets : int
        Expert slots, or ranks where a token goes once to each.
    hidden : int
        Channels of a token.
    quant : {"none", "int8", "fp8"}
        What is timed for a copy of the dispatch.
    transport : str
        A transport's name, or ``auto``.
    """

    targets: int
    hidden: int
    quant: str
    transport: str = "auto"

    def agreed(self) -> Agree:
        """Return what all members must give alike."""
        return (("experts", self.targets), ("hidden", self.hidden), ("quant", self.quant))


def start_dispatch(
    members: Members,
    shape: Shape,
    order: SendOrder,
    columns: Sequence[NDArray[Any]],
    agree: Agree = (),
) -> Pending:
    """Start a dispatch of tokens whose columns (rows, scales ...) ride together."""
    target = np.repeat(np.arange(shape.targets), order.expert_counts)
    source = np.full(len(order), members.rank)
    origin = np.stack([source, order.token, order.key, target], axis=1).astype(np.int32)
    records = pack(columns, order.token, origin)
    copies = order.expert_counts.reshape(members.size, -1).sum(axis=1)
    nbytes = record_bytes(fields_of(columns))
    maker = DispatchPlan(shape.hidden, shape.quant, nbytes, shape.transport)
    part = (copies, order.tokens)
    return _start(members, "moe dispatch", shape.agreed() + agree, maker, part, records)


def received(
    members: Members, shape: Shape, fields: Sequence[Field], records: NDArray[np.uint8]
) -> tuple[list[NDArray[Any]], Handle]:
    """Put what a dispatch brought into the expert-contiguous layout; return columns and handle."""
    origin = origins(records, fields)
    local = shape.targets // members.size
    own = origin[:, 3] - members.rank * local
    # By source they come; within a source by target and token.
    order = np.argsort(own, kind="stable")
    counts = np.zeros((members.size, local), dtype=np.int64)
    np.add.at(counts, (origin[:, 0], own), 1)
    place = origin[order]
    handle = Handle(members.rank, receive_layout(counts), place[:, 0], place[:, 1], place[:, 2])
    return unpack(records, fields, order), handle


def start_combine(
    members: Members,
    shape: Shape,
    layout: ReceiveLayout,
    columns: Sequence[NDArray[Any]],
    tokens: int,
) -> Pending:
    """Start the way back of rows that lie in the expert-contiguous layout."""
    held = layout.counts.sum(axis=1)
    none = [np.zeros(0, dtype=np.int64)]
    order = np.concatenate(none + [layout.rows_from(source) for source in range(members.size)])
    origin = np.zeros((len(order), 4), dtype=np.int32)
    records = pack(columns, order, origin)
    nbytes = record_bytes(fields_of(columns))
    maker = CombinePlan(shape.hidden, shape.quant, nbytes, shape.transport)
    return _start(members, "moe combine", shape.agreed(), maker, (held, tokens), records)


def returned(fields: Sequence[Field], records: NDArray[np.uint8]) -> list[NDArray[Any]]:
    """Return the columns of what a combine brought, in the order in which copies had been sent."""
    return unpack(records, fields, np.arange(len(records) // record_bytes(fields)))


def _start(
    members: Members, op: str, agree: Agree, maker: Any, part: Any, records: NDArray[np.uint8]
) -> Pending:
    return current().start(
        Collective(
            members.context,
            members.group,
            op,
            agree,
            maker,
            part,
            itemsize=1,
            input=records,
            keep=True,
        )
    )


def check_tokens(x: NDArray[Any], what: str = "x") -> Bits:
    """Return bfloat16 tokens as their bits.

    Raises
    ------
    OptionError
        If they are no matrix of bfloat16.
    """
    if getattr(x, "ndim", 0) != 2 or x.dtype.name != "bfloat16":
        given = f"{x.dtype.name} of shape {x.shape}" if isinstance(x, np.ndarray) else f"{x!r}"
        raise OptionError(
            f"{what} is {given}; give a matrix of bfloat16, such as x.astype(ml_dtypes.bfloat16)"
        )
    return bits(np.ascontiguousarray(x))


def check_index(topk_idx: NDArray[Any], tokens: int, what: str = "topk_idx") -> Ints:
    """Return the experts of each token as int64, or refuse another shape."""
    table = np.asarray(topk_idx)
    if table.ndim != 2 or len(table) != tokens or table.dtype.kind not in "iu":
        raise OptionError(
            f"{what} is {table.dtype.name} of shape {table.shape}; give whole numbers of shape "
            f"({tokens}, topk)"
        )
    return table.astype(np.int64)
