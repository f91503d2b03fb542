"""A put or a get on its way, and how it ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Outcome(StrEnum):
    """How a put or a get stands.

    STORED: written. KNOWN: the pool had the same content, nothing was written. FOUND: the bytes
    are there and their checksum is right. MISSING: nothing is kept under the key. LOST: the node
    that kept it died, on the way or before.
    """

    RUNNING = "running"
    STORED = "stored"
    KNOWN = "known"
    FOUND = "found"
    MISSING = "missing"
    LOST = "lost"


@dataclass(eq=False, slots=True)
class PoolRequest:
    """A put or a get.

    Attributes
    ----------
    namespace, key : str, bytes
        Of what.
    endpoint : int
        Who asks.
    start_ps, lookup_ps, end_ps : int
        When it was asked, when the owner had answered where the block is, and when it ended;
        -1 = not yet.
    outcome : Outcome
        How it stands.
    tier : str
        From where a get was served: ``dram`` or ``ssd``.
    nbytes : int
        Bytes of the block.
    data : ndarray of uint8 or None
        What a get found; None for blocks of size alone.
    then : callable or None
        Called with the request at the instant of its end.
    """

    namespace: str
    key: bytes
    endpoint: int
    start_ps: int
    lookup_ps: int = -1
    end_ps: int = -1
    outcome: Outcome = Outcome.RUNNING
    tier: str = ""
    nbytes: int = 0
    data: NDArray[np.uint8] | None = field(default=None, repr=False)
    then: "Callable[[PoolRequest], object] | None" = field(default=None, repr=False)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.outcome is not Outcome.RUNNING

    @property
    def time_ps(self) -> int:
        """Picoseconds from asking to the end; 0 while it runs."""
        return max(self.end_ps - self.start_ps, 0)

    @property
    def transfer_ps(self) -> int:
        """Picoseconds from the answer of the lookup to the end; 0 while it runs."""
        return max(self.end_ps - self.lookup_ps, 0) if self.lookup_ps >= 0 else 0

    def end(self, outcome: Outcome, now_ps: int) -> None:
        """Enter the end."""
        self.outcome, self.end_ps = outcome, now_ps
        if self.then is not None:
            self.then(self)
