"""Elements in memory: a run of one type, or a block for each rank; and how they go on the wire."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .datatype import Datatype

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

NOTHING = memoryview(bytearray())


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

    __slots__ = ("count", "datatype", "memory", "nbytes")

    def __init__(self, memory: memoryview, count: int, datatype: Datatype) -> None:
        self.count, self.datatype = count, datatype
        self.nbytes = 0
        if count:
            layout = datatype._layout
            self.nbytes = count * layout.size
            _check_room(memory, 0, count, datatype)
            if layout.index is None:
                memory = memory[: self.nbytes]
        self.memory = memory if count else NOTHING

    @property
    def dense(self) -> bool:
        """Whether the bytes stand in memory as they go on the wire."""
        return not self.count or self.datatype._layout.index is None

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
        assert layout.dtype is not None
        if not self.count:
            return np.empty(0, dtype=layout.dtype)
        room = self.memory[: self.count * layout.extent]
        return np.frombuffer(room, np.uint8).view(layout.dtype)

    def _places(self) -> Ints:
        return self.datatype._layout.places(self.count)


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
        for count, offset, datatype in zip(counts, offsets, datatypes, strict=True):
            if count:
                _check_room(memory, offset, count, datatype)
        self.dense = all(
            not n or t._layout.index is None for n, t in zip(counts, datatypes, strict=True)
        )
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
    last = layout.size if layout.index is None else int(layout.index.max(initial=-1)) + 1
    needed = offset + (count - 1) * layout.extent + last
    if count < 0 or offset < 0 or needed > memory.nbytes:
        raise ValueError(
            f"message: {count} entries of {layout.name} from byte {offset} on do not fit into the "
            f"{memory.nbytes} bytes of the buffer"
        )


def _octets(view: memoryview) -> Bytes:
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, dtype=np.uint8)
