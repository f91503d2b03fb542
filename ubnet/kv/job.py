"""One transfer on its way: how it stands, and what it took."""

from dataclasses import dataclass, field
from typing import Any

from ubnet.transport import FlowColumns
from ubnet.units import PS_PER_S, format_time

from .plan import Plan
from .status import Status


@dataclass(eq=False, slots=True)
class Job:
    """A transfer that was submitted to a `Carrier`.

    Attributes
    ----------
    number : int
        Counts the jobs of a carrier.
    src, dst : int
        Endpoints; the bytes go from `src` to `dst`.
    transport, op : str
        How it goes.
    nbytes, descriptors, messages, chunks : int
        What it moves: bytes, runs as listed, messages after merging, chunks that are posted.
    submitted_ps, start_ps, end_ps : int
        When it was submitted, first posted, and ended with all of its bytes quiet; -1 = not yet.
    arrived : int
        Bytes that have been written so far.
    status : Status
        How it stands. It leaves RUNNING only when nothing of it writes any more.
    reason : str
        Why it did not arrive, in a sentence; empty where it did.
    """

    number: int
    src: int
    dst: int
    transport: str
    op: str
    plan: Plan | None
    columns: FlowColumns | None
    post_ps: int
    submitted_ps: int
    timeout_ps: int | None = None
    nbytes: int = field(init=False)
    descriptors: int = field(init=False)
    messages: int = field(init=False)
    chunks: int = field(init=False)
    start_ps: int = -1
    end_ps: int = -1
    arrived: int = 0
    posted: int = 0
    status: Status = Status.RUNNING
    closing: Status | None = None
    lost: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        plan = self.plan
        assert plan is not None  # a job is made with a plan and drops it when it ends
        self.nbytes, self.descriptors = plan.nbytes, plan.descriptors
        self.messages, self.chunks = plan.messages, plan.chunks

    def __repr__(self) -> str:
        return (
            f"<Job {self.number} {self.op} {self.src}->{self.dst} over {self.transport}: "
            f"{self.arrived} of {self.nbytes} bytes, {self.status}>"
        )

    @property
    def time_ps(self) -> int:
        """Picoseconds from submission to the end; 0 while it runs."""
        return max(self.end_ps - self.submitted_ps, 0)

    @property
    def rate(self) -> float:
        """Bytes/s from submission to the end; 0 while it runs."""
        return self.arrived / self.time_ps * PS_PER_S if self.time_ps else 0.0

    def next_chunk(self) -> dict[str, Any]:
        """Return what `FlowSim.post` takes of the next chunk, which counts as posted then.

        Only the first one pays the start-up: the rest is queued.
        """
        c, k = self.columns, self.posted
        assert c is not None
        self.posted += 1
        hops = slice(c.route_ptr[k], c.route_ptr[k + 1])
        return {
            "nbytes": c.nbytes[k : k + 1],
            "route_ptr": [0, c.route_ptr[k + 1] - c.route_ptr[k]],
            "route_link": c.route_link[hops],
            "route_share": c.route_share[hops],
            "rate_cap": c.rate_cap[k : k + 1],
            "startup_ps": 0 if k else c.startup_ps[:1],
        }

    def take_chunk(self) -> None:
        """Let the chunk in flight arrive; the last one makes the job whole, unless it is lost."""
        if self.lost:
            return
        assert self.plan is not None
        self.plan.write(self.posted - 1)
        self.arrived += int(self.plan.chunk_bytes[self.posted - 1])
        if self.posted == self.chunks:
            self.closing = None

    def close(self, status: Status, why: str) -> None:
        """Let no further chunk be posted; the job ends when the one in flight has."""
        if self.status is Status.RUNNING and self.closing is None:
            self.closing, self.reason = status, why

    def end(self, now_ps: int) -> None:
        """Enter the end, and let go of the memory."""
        self.end_ps = now_ps
        self.status = self.closing or Status.DONE
        if self.status is not Status.DONE:
            self.reason = (
                f"{self.reason}: {self.arrived} of {self.nbytes} bytes have arrived, the rest was "
                f"stopped; quiet since {format_time(now_ps)}"
            )
        elif self.arrived == self.nbytes:
            self.reason = ""
        self.plan = self.columns = None
