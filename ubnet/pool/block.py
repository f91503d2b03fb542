"""A block of the pool: its bytes, where they are, and who waits for them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


class Tier(StrEnum):
    """Where a block is, or on its way to.

    WRITING: a client writes it into DRAM. DRAM: it can be read. EVICTING: it goes out to SSD.
    SSD: it is there alone. LOADING: it comes back. LOST: the node that had it died.
    """

    WRITING = "writing"
    DRAM = "dram"
    EVICTING = "evicting"
    SSD = "ssd"
    LOADING = "loading"
    LOST = "lost"


IN_DRAM = (Tier.WRITING, Tier.DRAM, Tier.EVICTING, Tier.LOADING)
"""Where a block takes room in the DRAM of its home."""


@dataclass(eq=False, slots=True)
class Block:
    """A block, kept once however many keys it has.

    Attributes
    ----------
    content : bytes
        The hash of what it holds.
    nbytes : int
        How much.
    home : int
        The endpoint whose DRAM it belongs to.
    data : ndarray of uint8 or None
        The bytes where they are now; None for a block of size alone.
    checksum : int
        CRC-32 of the bytes.
    tier : Tier
        Where it is.
    names : int
        Keys that lead to it.
    waiting : list of callable
        Called, and forgotten, when the tier changes from one that is on its way.
    """

    content: bytes
    nbytes: int
    home: int
    data: Bytes | None
    checksum: int
    tier: Tier = Tier.WRITING
    names: int = 0
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def settle(self, tier: Tier) -> None:
        """Enter a tier and wake who waited for it."""
        self.tier = tier
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()
