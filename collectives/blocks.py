"""How an array is cut: into one block a rank, and a block into chunks."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Pieces(NamedTuple):
    """The chunks of all blocks that are not empty, block by block.

    Attributes
    ----------
    block, chunk : ndarray of int64, shape (pieces,)
        Which block, and which chunk of it.
    start, size : ndarray of int64, shape (pieces,)
        Where the piece stands in the array, in elements.
    """

    block: Ints
    chunk: Ints
    start: Ints
    size: Ints


def split(count: int, parts: int) -> tuple[Ints, Ints]:
    """Cut `count` elements into `parts` blocks as `numpy.array_split` does.

    Returns
    -------
    start, size : ndarray of int64, shape (parts,)
        The first blocks are one longer where it does not divide.

    Examples
    --------
    >>> start, size = split(7, 3)
    >>> start.tolist(), size.tolist()
    ([0, 3, 5], [3, 2, 2])
    """
    number = np.arange(parts)
    short, longer = divmod(count, parts)
    return number * short + np.minimum(number, longer), short + (number < longer)


def pieces(start: Ints, size: Ints, chunks: int) -> Pieces:
    """Cut every block into `chunks` chunks and leave out the empty ones.

    >>> pieces(*split(5, 2), chunks=2).size.tolist()
    [2, 1, 1, 1]
    """
    block, chunk = np.divmod(np.arange(len(start) * chunks), chunks)
    short, longer = np.divmod(size[block], chunks)
    first = start[block] + chunk * short + np.minimum(chunk, longer)
    length = short + (chunk < longer)
    there = length > 0
    return Pieces(block[there], chunk[there], first[there], length[there])


def turned(ranks: int, root: int) -> tuple[Ints, Ints, Ints]:
    """Return the runs of blocks that keep together when they are counted from the root.

    Returns
    -------
    from_root, from_zero, blocks : ndarray of int64, shape (runs,)
        First block of each run counted from the root, the same counted from rank 0, and its length.

    Examples
    --------
    >>> [column.tolist() for column in turned(5, 2)]
    [[0, 3], [2, 0], [3, 2]]
    """
    runs = 2 if root else 1
    from_root = np.array([0, ranks - root])[:runs]
    from_zero = np.array([root, 0])[:runs]
    return from_root, from_zero, np.array([ranks - root, root])[:runs]
