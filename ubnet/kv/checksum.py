"""Whether bytes arrived: a checksum over the blocks of each side, and a count of what is wrong."""

from collections.abc import Iterable
from zlib import crc32

import numpy as np

from .blocks import BlockList, Bytes


def checksum(blocks: Iterable[Bytes], before: int = 0) -> int:
    """Return the CRC-32 of all blocks joined in the order of the list.

    ``before`` is that of what stands before them.

    >>> hex(checksum([np.frombuffer(b"1234", np.uint8), np.frombuffer(b"56789", np.uint8)]))
    '0xcbf43926'
    """
    for block in blocks:
        before = crc32(block.data, before)
    return before


def count_unequal(blocks: BlockList, source: Bytes, target: Bytes) -> int:
    """Return how many bytes of the target's blocks differ from those of the source."""
    pairs = zip(blocks.sources(source), blocks.targets(target), strict=True)
    return sum(int(np.count_nonzero(sent != got)) for sent, got in pairs)
