"""Block lists: what is copied from where to where, as one array of descriptors.

A descriptor is a row (source offset, destination offset, length), in bytes within the memory of
each side. Lists are numpy arrays throughout, so that hundreds of thousands of small blocks cost
milliseconds.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import CapacityExceeded, OptionError

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class BlockList:
    """A checked list of blocks.

    Parameters
    ----------
    rows : array_like of int, shape (blocks, 3)
        Source offset, destination offset and length of each block; blocks of length 0 are
        allowed and move nothing.

    Raises
    ------
    OptionError
        If the shape is another, a value is negative or no whole number, or two blocks would
        write the same byte.

    Examples
    --------
    >>> blocks = BlockList([(0, 64, 16), (16, 80, 16), (100, 0, 8)])
    >>> len(blocks), blocks.nbytes
    (3, 40)
    >>> blocks.merged()
    BlockList([[100, 0, 8], [0, 64, 32]])
    """

    def __init__(self, rows: ArrayLike) -> None:
        self.rows = _as_rows(rows)
        self.rows.flags.writeable = False
        _check_overlap(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        shown = self.rows[:4].tolist()
        more = f", ... {len(self)} blocks" if len(self) > 4 else ""
        return f"BlockList({str(shown)[:-1]}{more}])"

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks together."""
        return int(self.rows[:, 2].sum())

    @property
    def source_end(self) -> int:
        """The first byte behind all that is read: the smallest source memory that will do."""
        return int((self.rows[:, 0] + self.rows[:, 2]).max(initial=0))

    @property
    def target_end(self) -> int:
        """The first byte behind all that is written: the smallest target memory that will do."""
        return int((self.rows[:, 1] + self.rows[:, 2]).max(initial=0))

    def merged(self) -> "BlockList":
        """Return the same bytes in as few blocks as possible, in order of destination.

        Blocks that are neighbours on both sides become one; empty ones vanish.
        """
        return BlockList(self.rows[np.argsort(self.rows[:, 1], kind="stable")]).joined()

    def joined(self) -> "BlockList":
        """Return the same bytes in the same order, neighbours in the list as one block.

        >>> BlockList([(0, 64, 16), (16, 80, 16), (100, 0, 8)]).joined()
        BlockList([[0, 64, 32], [100, 0, 8]])
        """
        rows = self.rows[self.rows[:, 2] > 0]
        if not len(rows):
            return BlockList(rows)
        joined = (rows[1:, :2] == rows[:-1, :2] + rows[:-1, 2:]).all(axis=1)
        first = np.flatnonzero(np.concatenate([[True], ~joined]))
        runs = rows[first]
        runs[:, 2] = np.add.reduceat(rows[:, 2], first)
        return BlockList(runs)

    def check(self, source_bytes: int, target_bytes: int) -> None:
        """Refuse blocks that reach beyond the memory of either side.

        Raises
        ------
        CapacityExceeded
            Naming the side, the block, what it needs and what there is.
        """
        for column, side, have in ((0, "source", source_bytes), (1, "target", target_bytes)):
            end = self.rows[:, column] + self.rows[:, 2]
            beyond = np.flatnonzero(end > have)
            if len(beyond):
                i = int(beyond[0])
                raise CapacityExceeded(
                    f"block {i} {_row(self.rows[i])} ends at byte {end[i]} of the {side}, which "
                    f"has {have} bytes: make it at least {end.max()} bytes long"
                )

    def sources(self, memory: Bytes) -> Iterator[Bytes]:
        """Yield what each block reads, as views of the source memory."""
        return (memory[start : start + size] for start, _, size in self.rows.tolist())

    def targets(self, memory: Bytes) -> Iterator[Bytes]:
        """Yield what each block writes, as views of the target memory."""
        return (memory[start : start + size] for _, start, size in self.rows.tolist())


def as_bytes(memory: NDArray[np.generic]) -> Bytes:
    """Return the memory of an array as bytes, without a copy.

    Raises
    ------
    OptionError
        If the array is not contiguous.

    Examples
    --------
    >>> as_bytes(np.ones((2, 3), dtype=np.float32)).shape
    (24,)
    """
    if not memory.flags.c_contiguous:
        raise OptionError(
            f"block lists need contiguous memory, not an array of shape {memory.shape} with "
            f"strides {memory.strides}: pass numpy.ascontiguousarray(memory)"
        )
    return memory.reshape(-1).view(np.uint8)


def first_overlap(start: Ints, length: Ints) -> tuple[int, int] | None:
    """Return the numbers of two ranges of bytes that overlap, the lower first, or None.

    >>> first_overlap(np.array([8, 0, 11]), np.array([4, 4, 4]))
    (0, 2)
    """
    filled = np.flatnonzero(length > 0)
    order = filled[np.argsort(start[filled], kind="stable")]
    begin, end = start[order], start[order] + length[order]
    clash = np.flatnonzero(begin[1:] < end[:-1])
    if not len(clash):
        return None
    i, j = sorted(order[clash[0] : clash[0] + 2].tolist())
    return i, j


def first_read_of_written(read: Ints, written: Ints, length: Ints) -> tuple[int, int] | None:
    """Return the numbers of a range that is read and a range that is written which meet, or None.

    Written ranges must not overlap each other.

    >>> first_read_of_written(np.array([0, 100]), np.array([50, 8]), np.array([9, 9]))
    (0, 1)
    """
    if not len(length) or read.max() + length.max() <= written.min():
        return None
    if written.max() + length.max() <= read.min():
        return None
    order = np.argsort(written, kind="stable")
    begin, end = written[order], (written + length)[order]
    # Written ranges do not overlap, so their ends ascend with their begins.
    after = np.searchsorted(end, read, "right")
    met = np.flatnonzero((after < np.searchsorted(begin, read + length, "left")) & (length > 0))
    return (int(met[0]), int(order[after[met[0]]])) if len(met) else None


def _as_rows(rows: ArrayLike) -> Ints:
    given = np.asarray(rows)
    if given.size == 0:
        given = given.reshape(0, 3).astype(np.int64)
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "iu":
        raise OptionError(
            f"a block list is an array of whole numbers of shape (blocks, 3): source offset, "
            f"destination offset, length; given: {given.dtype} of shape {given.shape}"
        )
    top = np.uint64(np.iinfo(np.int64).max)
    wrong = given < 0 if given.dtype.kind == "i" else given > top
    columns = np.array(given, dtype=np.int64, order="C")
    wrong_row = wrong.any(axis=1) | (columns[:, :2] + columns[:, 2:] < 0).any(axis=1)
    if wrong_row.any():
        i = int(np.flatnonzero(wrong_row)[0])
        raise OptionError(
            f"block {i} is {_row(given[i])}; offsets and lengths are 0 or more and end below 2**63"
        )
    return columns


def _check_overlap(rows: Ints) -> None:
    """Refuse two blocks that write the same byte: which of them won would be left to chance."""
    clash = first_overlap(rows[:, 1], rows[:, 2])
    if clash is not None:
        i, j = clash
        raise OptionError(
            f"blocks {i} {_row(rows[i])} and {j} {_row(rows[j])} write the same bytes of the "
            f"target: give each a destination of its own"
        )


def _row(row: NDArray[np.generic]) -> str:
    source, target, length = row.tolist()
    return f"(source {source}, destination {target}, length {length})"
