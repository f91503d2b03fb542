"""The bytes of a transfer: copied from memory to memory, then compared by checksum."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError

from .blocks import BlockList, Bytes, as_bytes, first_overlap, first_read_of_written
from .checksum import checksum, count_unequal
from .copying import copy_blocks

Memory = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one move carries, and where from and to.

    Attributes
    ----------
    blocks : BlockList
        The blocks as listed: what is checked.
    runs : BlockList
        The same bytes as they are sent: what is copied.
    source, target : ndarray
        The memory of each side, contiguous.
    """

    blocks: BlockList
    runs: BlockList
    source: Memory
    target: Memory
    read: Bytes = field(init=False)
    written: Bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "read", as_bytes(self.source))
        object.__setattr__(self, "written", as_bytes(self.target))
        if not self.written.flags.writeable:
            raise OptionError("the target memory is read-only: pass an array that may be written")
        self.blocks.check(len(self.read), len(self.written))


@dataclass(frozen=True, slots=True)
class Delivery:
    """What arrived.

    Attributes
    ----------
    sent, received : tuple of int
        CRC-32 of the blocks of each move in the order of its list, on both sides.
    wrong : int
        Bytes that differ, over all moves.
    """

    sent: tuple[int, ...]
    received: tuple[int, ...]
    wrong: int

    @property
    def checksum_ok(self) -> bool:
        """Whether all checksums agree."""
        return self.sent == self.received


def deliver(parcels: Sequence[Parcel], before: Delivery | None = None) -> Delivery:
    """Copy the bytes of all parcels and take the checksums of both sides.

    Parameters
    ----------
    parcels : sequence of Parcel
        What is carried.
    before : Delivery, optional
        What the same moves have carried already: the result stands for both together.

    Raises
    ------
    OptionError
        If one parcel writes what another one reads or writes: they all move at once.
    """
    _refuse_shared(parcels)
    for parcel in parcels:
        copy_blocks(parcel.runs.rows, parcel.read, parcel.written)
    none = (0,) * len(parcels)
    last = Delivery(none, none, 0) if before is None else before
    wrong, sent, received = last.wrong, [], []
    for parcel, old, new in zip(parcels, last.sent, last.received, strict=True):
        blocks = parcel.blocks.joined()
        unequal = count_unequal(blocks, parcel.read, parcel.written)
        sent.append(checksum(blocks.sources(parcel.read), old))
        # Equal bytes have equal checksums, and comparing them is faster than a second checksum.
        same = unequal == 0 and old == new
        received.append(sent[-1] if same else checksum(blocks.targets(parcel.written), new))
        wrong += unequal
    return Delivery(tuple(sent), tuple(received), wrong)


def _refuse_shared(parcels: Sequence[Parcel]) -> None:
    """Refuse parcels that meet in memory, by the addresses of all that they read and write."""
    if not parcels:
        return
    write = np.concatenate([p.runs.rows[:, 1] + p.written.ctypes.data for p in parcels])
    read = np.concatenate([p.runs.rows[:, 0] + p.read.ctypes.data for p in parcels])
    size = np.concatenate([p.runs.rows[:, 2] for p in parcels])
    owner = np.repeat(np.arange(len(parcels)), [len(p.runs) for p in parcels])
    clash = first_overlap(write, size)
    if clash is not None:
        i, j = owner[list(clash)]
        raise OptionError(
            f"moves {i} and {j} write the same bytes of one memory: give each a place of its own"
        )
    crossing = first_read_of_written(read, write, size)
    if crossing is not None:
        i, j = owner[list(crossing)]
        raise OptionError(
            f"move {i} reads bytes that move {j} writes: run them one after the "
            "other, or between two memories"
        )
