"""What NIXL's calls hand out: prepared lists, transfer handles, telemetry."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ubnet.errors import OptionError

from .descriptors import Ints
from .job import Job
from .plan import Plan


@dataclass(frozen=True, eq=False, slots=True)
class PreparedList:
    """Descriptors of one agent's registered memory, checked: `Agent.prep_xfer_dlist` makes it."""

    agent: str
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, indices: Sequence[int] | Ints, side: str) -> Ints:
        """Return some of the rows, in any order.

        Raises
        ------
        OptionError
            If there is no such row; `side` is what the message calls the list.
        """
        index = np.asarray(indices, dtype=np.int64)
        if len(index) and (index.min() < 0 or index.max() >= len(self)):
            raise OptionError(
                f"{side}_indices holds {int(index.min())} to {int(index.max())}, but the prepared "
                f"list has rows 0 to {len(self) - 1}"
            )
        return self.rows[index]


@dataclass(eq=False, slots=True)
class TransferHandle:
    """A transfer that can be posted, and posted again once it has ended."""

    operation: str
    remote: str
    plan: Plan
    notification: bytes
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What a transfer took, in microseconds of virtual time.

    Attributes
    ----------
    startTime : float
        When it was posted.
    postDuration : float
        What posting its messages costs the engine.
    xferDuration : float
        From the posting to the last byte.
    totalBytes, descCount : int
        Bytes, and descriptors as they were listed.
    messages, chunks : int
        What was posted of them after merging, and in how many pieces (ubnet's own).
    """

    startTime: float
    postDuration: float
    xferDuration: float
    totalBytes: int
    descCount: int
    messages: int
    chunks: int
