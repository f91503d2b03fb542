"""The kernel that moves the bytes of a block list."""

from typing import Any

from numpy.typing import NDArray

from ubnet.jit import kernel


@kernel
def copy_blocks(rows: NDArray[Any], source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy each block (source offset, destination offset, length) of `rows`.

    Parameters
    ----------
    rows : ndarray of int64, shape (blocks, 3)
        Checked before: inside both memories, no byte written twice.
    source, target : ndarray of uint8
        Memories that do not overlap.
    """
    for i in range(len(rows)):
        begin, to, length = rows[i, 0], rows[i, 1], rows[i, 2]
        # Views of one block each: the compiler then sees two plain runs of bytes and copies them
        # at the rate of the memory, which offsets into the whole memories keep it from doing.
        read, written = source[begin : begin + length], target[to : to + length]
        for k in range(length):
            written[k] = read[k]
