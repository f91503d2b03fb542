"""What NIXL's calls hand out: prepared lists, transfer handles, telemetry."""

from dataclasses import dataclass

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
