"""What waits for a time of its own: jobs that start later, and jobs that must end by then."""

from heapq import heappop, heappush

from .job import Job
from .status import Status

START, DEADLINE = 0, 1


class Timers:
    """Times at which something is to be done with a job, the next one first.

    Of one instant, starts come before deadlines, and then jobs by their numbers.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Job]] = []

    def add(self, at_ps: int, kind: int, job: Job) -> None:
        """Wait for a time."""
        heappush(self._heap, (at_ps, kind, job.number, job))

    def next_ps(self) -> int | None:
        """Return when the next is due, None without any, and forget those of jobs that ended."""
        while self._heap and self._heap[0][3].status is not Status.RUNNING:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> tuple[int, Job]:
        """Take the next one; return what it is, and of which job."""
        _, kind, _, job = heappop(self._heap)
        return kind, job

    def starting(self) -> list[Job]:
        """Return the jobs that have not started yet, in no order."""
        return [job for _, kind, _, job in self._heap if kind == START]
