"""The carrier: transfers in one virtual clock, submitted, advanced and polled.

Mooncake's `TransferEngine`, NIXL's `Agent` and the memory pool stand on it; a serving simulator
may use it by itself. A transfer goes in chunks, of which one is in flight at a time, as a network
card works off its queue. So a transfer can be stopped: no further chunk is posted, the one in
flight drains, and only then does the status change. Whoever reads it knows that nothing writes
any more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ubnet.errors import OptionError
from ubnet.fabric import Fabric
from ubnet.flowsim import FlowSim
from ubnet.transport import WRITE, FlowColumns, Transport
from ubnet.units import format_time

from .job import Job
from .plan import Plan, plan_bytes
from .regions import Regions
from .segment import Segment
from .status import Status
from .timers import DEADLINE, START, Timers

CHUNK_BYTES = 4 << 20
"""Assumed: 0.17 ms of a 200 Gb/s card, which is what a stopped transfer takes to drain."""


@dataclass(eq=False)
class Carrier:
    """Carries transfers over a fabric, in one virtual clock.

    Parameters
    ----------
    fabric : Fabric
        Where they run.
    chunk_bytes : int
        The largest chunk of a transfer that moves real bytes or has a time-out.
    extra : mapping of str to float
        Resources beside those of the fabric, such as an object store, and their bytes/s.
    poll_ps : int
        How far the clock goes on when a status is asked for in vain; 0 = never, for a caller that
        advances the clock itself.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> carrier = Carrier(load_fabric("cloudmatrix64"))
    >>> slow = carrier.submit("node00.npu0.die0", "node03.npu0.die0", 10**9, timeout_ps=10**9)
    >>> quick = carrier.submit("node01.npu0.die0", "node02.npu0.die0", 10**6)
    >>> [job.number for job in carrier.advance()], carrier.now_ps == quick.end_ps
    ([1], True)
    >>> str(carrier.wait(slow)), slow.arrived
    ('timed out', 25165824)
    """

    fabric: Fabric
    chunk_bytes: int = CHUNK_BYTES
    poll_ps: int = 1_000_000
    extra: Mapping[str, float] = field(default_factory=dict)
    sim: FlowSim = field(init=False, repr=False)
    segments: dict[str, Segment] = field(init=False, repr=False, default_factory=dict)
    mailboxes: dict[str, dict[str, list[bytes]]] = field(
        init=False, repr=False, default_factory=dict
    )
    jobs: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.chunk_bytes < 1 or self.poll_ps < 0:
            raise OptionError(
                f"a chunk has 1 byte or more and a poll takes 0 ps or more, not "
                f"chunk_bytes={self.chunk_bytes}, poll_ps={self.poll_ps}"
            )
        self.sim = FlowSim([*self.fabric.capacity, *self.extra.values()])
        self._flying: dict[int, Job] = {}
        self._timers = Timers()
        self._ended: list[Job] = []
        self._calls: dict[int, Callable[[Job], None]] = {}
        self._pairs: dict[tuple[int, int], int] = {}

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return self.sim.now_ps

    @property
    def running(self) -> list[Job]:
        """The jobs that have not ended and are in flight, in the order of their numbers."""
        return sorted(self._flying.values(), key=lambda job: job.number)

    def resource(self, name: str) -> int:
        """Return the number of an extra resource."""
        return len(self.fabric.capacity) + list(self.extra).index(name)

    def join(self, name: str, endpoint: str | int) -> Segment:
        """Let a process take part under a name of its own; its memory is registered later.

        Raises
        ------
        OptionError
            If the name is taken.
        FabricError
            If there is no such endpoint.
        """
        if name in self.segments:
            raise OptionError(f"{name} takes part already: give each process a name of its own")
        segment = Segment(name, self.number_of(endpoint), Regions(name))
        self.segments[name] = segment
        return segment

    def number_of(self, endpoint: str | int) -> int:
        """Return the number of an endpoint given by name or number."""
        if isinstance(endpoint, str):
            return self.fabric.endpoint(endpoint).index
        self.fabric.check_endpoints(np.array([endpoint], dtype=np.int64))
        return int(endpoint)

    def submit(
        self,
        src: str | int,
        dst: str | int,
        load: Plan | int,
        *,
        transport: str | Transport = "roce",
        op: str = WRITE,
        start_ps: int | None = None,
        timeout_ps: int | None = None,
        then: Callable[[Job], None] | None = None,
    ) -> Job:
        """Submit a transfer; the clock does not move.

        Parameters
        ----------
        src, dst : str or int
            Endpoints; the bytes go from `src` to `dst`.
        load : Plan or int
            What is moved; a number of bytes for the time alone.
        transport : str or Transport
            How.
        op : {"write", "read"}
            Whether the source pushes or the destination pulls.
        start_ps : int, optional
            When it is posted; default now.
        timeout_ps : int, optional
            How long after that it is stopped; default never.
        then : callable, optional
            Called with the job at the instant of its end.

        Returns
        -------
        Job

        Raises
        ------
        OptionError
            For a time in the past or a time-out that is no time.
        NoRoute
            If the transport does not join the two.
        """
        now = self.now_ps
        begin = now if start_ps is None else start_ps
        if begin < now or (timeout_ps is not None and timeout_ps <= 0):
            raise OptionError(
                f"a transfer starts now ({now} ps) or later and its time-out is above 0, not "
                f"start_ps={start_ps}, timeout_ps={timeout_ps}"
            )
        way = self.fabric.transport(transport) if isinstance(transport, str) else transport
        ends = (self.number_of(src), self.number_of(dst))
        plan = load if isinstance(load, Plan) else self._plan_of(load, timeout_ps)
        job = Job(
            self.jobs, *ends, way.name, op, plan, self._columns(way, op, ends, plan),
            way.post_ps, now, timeout_ps,
        )  # fmt: skip
        self.jobs += 1
        if then is not None:
            self._calls[job.number] = then
        if begin > now:
            self._timers.add(begin, START, job)
        else:
            self._start(job)
        return job

    def advance(self, limit_ps: int | None = None) -> list[Job]:
        """Go on to the first instant at which jobs end, and return them by number.

        Parameters
        ----------
        limit_ps : int, optional
            Go no further than this. Jobs that ended while somebody waited for another one are
            returned first, at no time.
        """
        while not self._ended and self._step(limit_ps):
            pass
        ended, self._ended = sorted(self._ended, key=lambda job: job.number), []
        return ended

    def run_until(self, t_ps: int) -> list[Job]:
        """Go on to a time and return the jobs that ended on the way, by their ends."""
        while self._step(t_ps):
            pass
        ended, self._ended = self._ended, []
        return ended

    def run(self) -> list[Job]:
        """Go on until nothing is left and return the jobs that ended, by their ends."""
        while self._step(None):
            pass
        ended, self._ended = self._ended, []
        return ended

    def poll(self, job: Job) -> Status:
        """Return how a job stands; asked in vain, the clock goes on by `poll_ps`."""
        if job.status is Status.RUNNING and self.poll_ps:
            until = self.now_ps + self.poll_ps
            while self._step(until):
                pass
        return job.status

    def wait(self, job: Job) -> Status:
        """Go on until a job has ended and return how."""
        while job.status is Status.RUNNING:
            self._step(None)
        return job.status

    def cancel(self, job: Job, why: str = "cancelled by its owner") -> Status:
        """Stop a job and wait until nothing of it writes any more; return how it stands.

        A job that ends while it drains has arrived whole and is DONE.
        """
        job.close(Status.CANCELLED, why)
        if job.start_ps < 0:
            self._finish(job)
        return self.wait(job)

    def fail(self, endpoint: str | int, why: str) -> list[Job]:
        """Let an endpoint die: what is on its way from or to it fails and writes no more.

        Returns
        -------
        list of Job
            The jobs that fail; each ends when its chunk in flight would have.
        """
        number = self.number_of(endpoint)
        there = (*self.running, *self._timers.starting())
        hit = [job for job in there if number in (job.src, job.dst)]
        for job in hit:
            job.close(Status.FAILED, why)
            job.lost = True
        return hit

    def _plan_of(self, nbytes: int, timeout_ps: int | None) -> Plan:
        return plan_bytes(nbytes, chunk_bytes=None if timeout_ps is None else self.chunk_bytes)

    def _columns(self, way: Transport, op: str, ends: tuple[int, int], plan: Plan) -> FlowColumns:
        """Return the flows of all chunks; those of a pair's jobs are numbered for hashed paths."""
        number = self._pairs.get(ends, 0)
        self._pairs[ends] = number + 1
        return way.flows(
            self.fabric, op, ends[0], ends[1], plan.chunk_bytes, messages=plan.chunk_messages,
            flow=number,
        )  # fmt: skip

    def _start(self, job: Job) -> None:
        if job.status is not Status.RUNNING:
            return
        job.start_ps = self.now_ps
        if job.timeout_ps is not None:
            self._timers.add(self.now_ps + job.timeout_ps, DEADLINE, job)
        if job.closing is not None:
            self._finish(job)
        else:
            self._post(job)

    def _post(self, job: Job) -> None:
        flow = self.sim.post(**job.next_chunk(), watch=True)
        self._flying[flow] = job

    def _step(self, limit_ps: int | None) -> bool:
        """Work off one instant; return False where none is left up to the limit."""
        due = self._timers.next_ps()
        stops = [t for t in (limit_ps, due) if t is not None]
        ended = self.sim.advance(min(stops) if stops else None)
        for flow in ended.tolist():
            self._chunk_ended(self._flying.pop(flow))
        if len(ended):
            return True
        if due is None or self.now_ps < due:
            return False
        # Ends of an instant come before its time-outs: what has just arrived is not late.
        kind, job = self._timers.pop()
        if kind == START:
            self._start(job)
        elif job.status is Status.RUNNING:
            job.close(Status.TIMED_OUT, f"no end within {format_time(job.timeout_ps or 0)}")
        return True

    def _chunk_ended(self, job: Job) -> None:
        job.take_chunk()
        if job.closing is not None or job.posted == job.chunks:
            self._finish(job)
        else:
            self._post(job)

    def _finish(self, job: Job) -> None:
        job.end(self.now_ps)
        self._ended.append(job)
        then = self._calls.pop(job.number, None)
        if then is not None:
            then(job)
