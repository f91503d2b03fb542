"""The memory of the ranks that a process holds: one flat array with everybody's buffers in it."""

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ubnet.errors import ScheduleError
from ubnet.operation import BUFFERS, INPUT, OUTPUT, SCRATCH

Ints = NDArray[np.int64]
Array = NDArray[Any]
Octets = NDArray[np.uint8]

LINE_BYTES = 64
"""Every buffer begins on a cache line of its own."""


class Arena:
    """Input, output and scratch of many ranks in one array, zeros at first.

    Kernels address it by element offsets into `flat`, so that one compiled signature serves all
    ranks and buffers. After the last buffer may stand a staging area for data that comes from
    elsewhere (`reserve_staging`).

    Parameters
    ----------
    sizes : array_like of int, shape (ranks, 3)
        Elements of every rank's input, output and scratch; ``Schedule.sizes`` fits.
    dtype : dtype_like
        The type of every element.
    ranks : sequence of int, optional
        The ranks that hold memory here; all of them when left out.
    instead : Arena, optional
        One that nobody needs any more: where its memory is large enough this one takes it, with
        what is in it (`clear`). Touching fresh memory costs more than what is done with it.

    Attributes
    ----------
    flat : ndarray, shape (elements,)
        All of the memory.
    start : ndarray of int64, shape (ranks, 3)
        Offset in `flat` of every buffer, -1 for ranks that hold none here.

    Examples
    --------
    >>> arena = Arena([[2, 4, 0]] * 2, "float32")
    >>> arena.input(1)[:] = 5
    >>> arena
    <Arena: 2 ranks of 2, float32, 256 bytes>
    """

    def __init__(
        self,
        sizes: ArrayLike,
        dtype: DTypeLike,
        ranks: Sequence[int] | None = None,
        *,
        instead: "Arena | None" = None,
    ) -> None:
        self.sizes: Ints = np.array(sizes, dtype=np.int64).reshape(-1, 3)
        self.dtype = np.dtype(dtype)
        everybody = np.arange(len(self.sizes))
        self.held: Ints = everybody if ranks is None else np.array(ranks, dtype=np.int64)
        if len(np.intersect1d(self.held, everybody)) < len(self.held):
            raise ScheduleError(
                f"ranks {list(ranks or ())} cannot be held; give different numbers from 0 to "
                f"{len(everybody) - 1}"
            )
        if self.dtype.hasobject:
            raise ScheduleError(f"elements of type {self.dtype} have no bytes of their own to move")
        line = LINE_BYTES // gcd(LINE_BYTES, self.dtype.itemsize)
        # Everybody's inputs, then the outputs, then the scratch, so that one is cleared at once.
        lines = -(-self.sizes[self.held].T // line)
        ends = np.cumsum(lines).reshape(lines.shape) * line
        self.start: Ints = np.full(self.sizes.shape, -1)
        self.start[self.held] = (ends - lines * line).T
        self._ends: Ints = ends.max(axis=1, initial=0)
        self._staging = int(self._ends[-1])
        taken = None if instead is None else instead._memory
        self._memory: Octets = _room(self._staging * self.dtype.itemsize, taken)
        self.flat: Array = _aligned(self._memory, self._staging, self.dtype)

    def __repr__(self) -> str:
        ranks = f"{len(self.held)} ranks of {len(self.sizes)}"
        return f"<Arena: {ranks}, {self.dtype}, {self.flat.nbytes} bytes>"

    def input(self, rank: int) -> Array:
        """Return a view of a rank's input buffer."""
        return self.buffer(rank, INPUT)

    def output(self, rank: int) -> Array:
        """Return a view of a rank's output buffer."""
        return self.buffer(rank, OUTPUT)

    def scratch(self, rank: int) -> Array:
        """Return a view of a rank's scratch buffer."""
        return self.buffer(rank, SCRATCH)

    def buffer(self, rank: int, buf: int) -> Array:
        """Return a view of one buffer of a rank.

        Raises
        ------
        ScheduleError
            If the rank holds no memory here.
        """
        if not 0 <= rank < len(self.start) or self.start[rank, buf] < 0:
            raise ScheduleError(
                f"rank {rank} has no {BUFFERS[buf]} here; {len(self.held)} of {len(self.sizes)} "
                f"ranks are held, the first is {self.held[:1].tolist()}"
            )
        first = self.start[rank, buf]
        return self.flat[first : first + self.sizes[rank, buf]]

    def outputs(self) -> tuple[Ints, Ints]:
        """Return where the output of each held rank begins in `flat`, and how long it is."""
        return self.start[self.held, OUTPUT], self.sizes[self.held, OUTPUT]

    def clear(self, *bufs: int) -> None:
        """Fill some of the buffers of every rank with zeros; fresh memory is full of them."""
        for buf in bufs:
            self.flat[self._ends[buf - 1] if buf else 0 : self._ends[buf]] = 0

    def offsets(self, rank: Ints, buf: ArrayLike, off: Ints) -> Ints:
        """Return offsets in `flat` of elements of many buffers, -1 where a rank is not held."""
        first = self.start.reshape(-1)[rank * 3 + np.asarray(buf)]
        found: Ints = np.where(first < 0, -1, first + off)
        return found

    def reserve_staging(self, elements: int) -> int:
        """Make room for `elements` behind the buffers; return the offset of the first in `flat`.

        Growing moves the memory: `flat` is a new array then and views taken before are stale, so
        reserve the most that is needed before taking views. What was staged is kept.
        """
        if self._staging + elements > len(self.flat):
            length = self._staging + elements
            self._memory = _room(length * self.dtype.itemsize)
            grown = _aligned(self._memory, length, self.dtype)
            grown[: len(self.flat)] = self.flat
            self.flat = grown
        return self._staging


def _room(nbytes: int, memory: Octets | None = None) -> Octets:
    """Return room for so many bytes from any cache line on: `memory` or zeros."""
    needed = nbytes + LINE_BYTES
    if memory is not None and len(memory) >= needed:
        return memory
    return np.zeros(needed, dtype=np.uint8)


def _aligned(memory: Octets, elements: int, dtype: np.dtype[Any]) -> Array:
    """Return elements in a memory from its first cache line on."""
    first = -memory.ctypes.data % LINE_BYTES
    return memory[first : first + elements * dtype.itemsize].view(dtype)
