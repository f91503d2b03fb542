"""Elements in memory: a run of one type, or a block for each rank; and how they go on the wire."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .datatype import Datatype
from .foreign_memory import memory_at
from .memory import ABSOLUTE, NOTHING

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


class Spec:
    """A run of elements of one type in memory.

    Parameters
    ----------
    memory : memoryview
        The bytes, from the first element on.
    count : int
        Number of elements.
    datatype : Datatype
        Their type.
    """

    __slots__ = ("_origin", "count", "datatype", "dense", "memory", "nbytes")

    def __init__(self, memory: memoryview, count: int, datatype: Datatype) -> None:
        self.count, self.datatype = count, datatype
        self.nbytes, self._origin = 0, 0
        self.dense = True
        """Whether the bytes stand in memory as they go on the wire."""
        if count:
            layout = datatype._layout
            self.nbytes = count * layout.size
            if memory is ABSOLUTE:
                memory, self._origin = _at_addresses([layout.reach(count)], self.nbytes)
            else:
                _check_room(memory, 0, count, datatype)
            self.dense = layout.dense
            if self.dense:
                memory = memory[: self.nbytes]
        self.memory = memory if count else NOTHING

    @classmethod
    def dense_run(cls, memory: memoryview, count: int, datatype: Datatype) -> "Spec":
        """Return the run of all elements of a memory that holds nothing else."""
        made = object.__new__(cls)
        made.memory, made.nbytes, made.dense = memory, memory.nbytes, True
        made.count, made.datatype, made._origin = count, datatype, 0
        return made

    def wire(self) -> memoryview:
        """Return what goes on the wire."""
        if self.dense:
            return self.memory
        return np.frombuffer(self.memory, np.uint8)[self._places()].data

    def land(self) -> tuple[memoryview, Callable[[int], None] | None]:
        """Return where the wire may write, and what puts so many bytes in their places then."""
        if self.dense:
            return self.memory, None
        landed = np.empty(self.nbytes, dtype=np.uint8)

        def unpack(nbytes: int) -> None:
            places = self._places()[:nbytes]
            np.frombuffer(self.memory, np.uint8)[places] = landed[:nbytes]

        return landed.data, unpack

    def octets(self) -> Bytes:
        """Return what goes on the wire as an array."""
        return _octets(self.wire())

    def elements(self) -> NDArray[Any]:
        """Return the elements as an array in place, which reductions need."""
        layout = self.datatype._layout
        if not self.count:
            return np.empty(0, dtype=layout.element)
        return np.frombuffer(self.memory[: self.count * layout.extent], layout.element)

    def _places(self) -> Ints:
        return self.datatype._layout.places(self.count) - self._origin


class Blocks:
    """A block of elements for each rank.

    Parameters
    ----------
    memory : memoryview
        The bytes that all blocks stand in.
    counts : sequence of int
        Elements of each block.
    offsets : sequence of int
        Where each block begins, in bytes.
    datatypes : sequence of Datatype
        Their types.
    """

    def __init__(
        self,
        memory: memoryview,
        counts: Sequence[int],
        offsets: Sequence[int],
        datatypes: Sequence[Datatype],
    ) -> None:
        self._memory = memory
        self._counts, self._offsets, self._datatypes = counts, offsets, datatypes
        sizes = [t._layout.size if n else 0 for n, t in zip(counts, datatypes, strict=True)]
        self.nbytes = np.array(counts, dtype=np.int64) * np.array(sizes, dtype=np.int64)
        rows = list(zip(counts, offsets, datatypes, strict=True))
        if memory is ABSOLUTE:
            self._memory, self._offsets = _from_addresses(rows, int(self.nbytes.sum()))
            offsets = self._offsets
        else:
            for count, offset, datatype in rows:
                if count:
                    _check_room(memory, offset, count, datatype)
        self.dense = all(not n or t._layout.dense for n, _, t in rows)
        if self.dense:
            self.starts = np.where(self.nbytes > 0, np.array(offsets, dtype=np.int64), 0)
        else:
            self.starts = np.cumsum(self.nbytes) - self.nbytes

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def end(self) -> int:
        """Bytes up to the end of the last block on the wire."""
        return int((self.starts + self.nbytes).max(initial=0))

    @property
    def datatype(self) -> Datatype:
        """The type of the first block's elements."""
        return self._datatypes[0]

    def wire(self) -> Bytes:
        """Return what goes on the wire, block r from ``starts[r]`` on."""
        octets = _octets(self._memory)
        return octets[: self.end] if self.dense else octets[self._places()]

    def land(self) -> tuple[Bytes, Callable[[], None] | None]:
        """Return where the wire may write, and what puts the bytes in their places then."""
        if self.dense:
            return _octets(self._memory)[: self.end], None
        landed = np.empty(self.end, dtype=np.uint8)
        places = self._places()
        landed[:] = _octets(self._memory)[places]

        def unpack() -> None:
            _octets(self._memory)[places] = landed

        return landed, unpack

    def block(self, rank: int) -> Spec:
        """Return the block of one rank."""
        memory = self._memory[self._offsets[rank] :]
        return Spec(memory, self._counts[rank], self._datatypes[rank])

    def as_one(self) -> Spec:
        """Return equal blocks that stand one behind the other as one run."""
        count = self._counts[0] * len(self) if len(self) else 0
        return Spec(self._memory, count, self._datatypes[0])

    def _places(self) -> Ints:
        rows = zip(self._counts, self._offsets, self._datatypes, strict=True)
        places = [offset + t._layout.places(n) for n, offset, t in rows if n]
        return np.concatenate([np.zeros(0, dtype=np.int64), *places])


def _check_room(memory: memoryview, offset: int, count: int, datatype: Datatype) -> None:
    layout = datatype._layout
    if count < 0:
        raise ValueError(f"message: negative count {count}")
    low, high = layout.reach(count)
    if layout.size and (offset + low < 0 or offset + high > memory.nbytes):
        raise ValueError(
            f"message: {count} entries of {layout.name or 'a derived type'} from byte {offset} on "
            f"do not fit into the {memory.nbytes} bytes of the buffer"
        )


def _at_addresses(reaches: Sequence[tuple[int, int]], nbytes: int) -> tuple[memoryview, int]:
    """Return the memory that elements reach over, counted from BOTTOM, and its address."""
    if not nbytes:
        return NOTHING, 0
    low, high = min(low for low, _ in reaches), max(high for _, high in reaches)
    if low <= 0:
        raise ValueError(f"message: address {low} from BOTTOM on is none of this process")
    return memory_at(low, high - low, None), low


def _from_addresses(
    rows: Sequence[tuple[int, int, Datatype]], nbytes: int
) -> tuple[memoryview, list[int]]:
    """Return the memory that blocks from BOTTOM on reach over, and where in it they begin."""
    reaches = []
    for count, offset, datatype in rows:
        if count:
            low, high = datatype._layout.reach(count)
            reaches.append((offset + low, offset + high))
    memory, low = _at_addresses(reaches, nbytes)
    return memory, [offset - low if count else 0 for count, offset, _ in rows]


def _octets(view: memoryview) -> Bytes:
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, dtype=np.uint8)
