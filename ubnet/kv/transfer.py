"""Block lists on their way between endpoints: the bytes are moved and the time is simulated.

Every block is a message of its own, and neighbours are merged first, so a list of n runs costs n
times the posting cost of its transport as occupancy of the engine. All blocks between two
endpoints are nevertheless ONE flow (``messages=n`` of `Transport.flows`): they leave one after
the other through the same engine and ports, so their sum ends when the last of them would, and
ten thousand blocks cost the flow engine as much as one. Transports that hold no engine (VPC) pay
no posting.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ubnet.errors import OptionError
from ubnet.fabric import Fabric, Ints
from ubnet.flowsim import FlowSim
from ubnet.transport import FlowColumns, Transport

from .blocks import BlockList
from .delivery import Delivery, Memory, Parcel, deliver
from .load import Load, load_of


@dataclass(frozen=True, eq=False, slots=True)
class Move:
    """A block list from the memory of one endpoint to that of another.

    Attributes
    ----------
    src, dst : str or int
        Endpoints, by name or number.
    blocks : BlockList
        What goes where.
    source, target : ndarray, optional
        The memory of each side, contiguous; None on both sides: only the time is wanted.
    """

    src: str | int
    dst: str | int
    blocks: BlockList
    source: Memory | None = None
    target: Memory | None = None


@dataclass(frozen=True, eq=False, slots=True)
class TransferResult:
    """What a transfer took and whether it arrived.

    Attributes
    ----------
    transport, plane, op : str
        How it went.
    nbytes, blocks, messages : int
        Bytes, blocks as listed, and messages after merging.
    end_ps : ndarray of int64, shape (moves,)
        When the last byte of each move arrived.
    delivery : Delivery or None
        Checksums and wrong bytes; None where only the time was wanted.
    load : Load
        The busiest resource and the least time possible.
    """

    transport: str
    plane: str
    op: str
    nbytes: int
    blocks: int
    messages: int
    end_ps: Ints
    delivery: Delivery | None
    load: Load

    @property
    def time_ps(self) -> int:
        """Picoseconds from the common start to the end of the last move."""
        return int(self.end_ps.max(initial=0))

    @property
    def rate(self) -> float:
        """Payload in bytes/s over the whole time."""
        return self.nbytes / (self.time_ps * 1e-12) if self.time_ps else 0.0

    @property
    def wrong(self) -> int | None:
        """Bytes that differ on the other side; None where no bytes were moved."""
        return None if self.delivery is None else self.delivery.wrong


def transfer(
    fabric: Fabric,
    moves: Sequence[Move],
    *,
    transport: str | Transport = "roce",
    op: str = "write",
    merge: bool = True,
) -> TransferResult:
    """Run moves that all start at once on an idle fabric: the bytes arrive, the time is told.

    Parameters
    ----------
    fabric : Fabric
        Where it runs.
    moves : sequence of Move
        What goes where; no byte may be written by two of them, or read by one and written by
        another.
    transport : str or Transport
        A transport of the fabric.
    op : {"write", "read"}
        Whether the source pushes or the destination pulls.
    merge : bool
        Whether neighbouring blocks go as one message.

    Returns
    -------
    TransferResult

    Raises
    ------
    NoRoute
        If the transport is unknown, or its plane does not join two of the endpoints.
    CapacityExceeded
        If a block reaches beyond the memory of its side.
    OptionError
        If moves overlap, or one has memory on one side alone.

    Examples
    --------
    >>> import numpy as np
    >>> from ubnet.fabrics import load_fabric
    >>> there, here = np.arange(10, dtype=np.int16), np.zeros(3, dtype=np.int16)
    >>> move = Move("node00.cpu1", "node03.npu0.die0", BlockList([(8, 2, 4)]), there, here)
    >>> transfer(load_fabric("cloudmatrix64"), [move], transport="sdma", op="read").wrong
    0
    >>> here
    array([0, 4, 5], dtype=int16)
    """
    way = fabric.transport(transport) if isinstance(transport, str) else transport
    runs = _runs(moves, merge)
    columns = _columns(fabric, moves, runs, way, op)
    parcels = _parcels(moves, runs)
    sim = FlowSim(fabric.capacity)
    sim.post(**columns.post_arguments())
    sim.run()
    end_ps = sim.finish_ps
    return TransferResult(
        transport=way.name,
        plane=way.plane,
        op=op,
        nbytes=sum(move.blocks.nbytes for move in moves),
        blocks=sum(len(move.blocks) for move in moves),
        messages=sum(len(run) for run in runs),
        end_ps=end_ps,
        delivery=deliver(parcels) if parcels else None,
        load=load_of(fabric, columns, int(end_ps.max(initial=0))),
    )


def post_moves(
    sim: FlowSim,
    fabric: Fabric,
    moves: Sequence[Move],
    *,
    transport: str | Transport = "roce",
    op: str = "write",
    start_ps: int | None = None,
    merge: bool = True,
) -> Ints:
    """Post the flows of moves beside whatever else the engine carries; no bytes are moved.

    Returns
    -------
    ndarray of int64, shape (moves,)
        The id of each move's flow.
    """
    way = fabric.transport(transport) if isinstance(transport, str) else transport
    columns = _columns(fabric, moves, _runs(moves, merge), way, op)
    first = sim.post(**columns.post_arguments(), start_ps=start_ps)
    return first + np.arange(len(moves))


def _runs(moves: Sequence[Move], merge: bool) -> list[BlockList]:
    return [move.blocks.merged() if merge else move.blocks for move in moves]


def _parcels(moves: Sequence[Move], runs: Sequence[BlockList]) -> list[Parcel]:
    """Return what is to be copied: the moves that bring memory."""
    parcels = []
    for i, (move, run) in enumerate(zip(moves, runs, strict=True)):
        if move.source is not None and move.target is not None:
            parcels.append(Parcel(move.blocks, run, move.source, move.target))
        elif move.source is not None or move.target is not None:
            side = "source" if move.source is not None else "target"
            raise OptionError(
                f"move {i} has memory on the {side} side alone: give both, or none to get the time"
            )
    return parcels


def _columns(
    fabric: Fabric, moves: Sequence[Move], runs: Sequence[BlockList], way: Transport, op: str
) -> FlowColumns:
    """Turn each move into one flow of as many messages as it has runs; of none, into one."""
    src, dst = (
        np.array([_number(fabric, end) for end in ends], dtype=np.int64)
        for ends in ([move.src for move in moves], [move.dst for move in moves])
    )
    return way.flows(
        fabric,
        op,
        src,
        dst,
        np.array([run.nbytes for run in runs], dtype=np.int64),
        messages=np.array([max(len(run), 1) for run in runs], dtype=np.int64),
        flow=_running_number(src, dst),
    )


def _number(fabric: Fabric, end: str | int) -> int:
    if isinstance(end, str):
        return fabric.endpoint(end).index
    if not 0 <= end < len(fabric.endpoints):
        raise OptionError(
            f"endpoint {end} is not in fabric {fabric.name}: allowed are 0 to "
            f"{len(fabric.endpoints) - 1}, or names such as {fabric.endpoints[0].name}"
        )
    return int(end)


def _running_number(src: Ints, dst: Ints) -> Ints:
    """Number the moves of each pair 0, 1, 2 ..., so that hashed paths tell them apart."""
    order = np.lexsort((dst, src))
    new = np.ones(len(src), dtype=bool)
    new[1:] = (np.diff(src[order]) != 0) | (np.diff(dst[order]) != 0)
    place = np.arange(len(src))
    number = np.empty(len(src), dtype=np.int64)
    number[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return number
