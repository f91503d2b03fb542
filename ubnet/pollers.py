"""Ranks that sleep on the virtual clock: those that compute, and those that ask in vain.

A poll sleeps for a step that starts at 0.1 us and doubles up to 100 us, and starts anew after a
success. When nothing else is pending the step doubles on without that bound, so that a world in
which everybody only asks is found out after 60 s of virtual time, in some thirty steps.
"""

import heapq

from ubnet.message import Poll

FIRST_STEP_PS = 100_000
LONGEST_STEP_PS = 100_000_000
PATIENCE_PS = 60 * 10**12

COMPUTE, TEST, WTIME = "compute", "test", "wtime"


class Pollers:
    """The sleeping ranks and when each wakes by itself.

    Attributes
    ----------
    asleep : dict
        For each sleeping rank when it wakes and why it sleeps.
    idle_since : int or None
        When ranks began to wait in vain, None while they do not.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self.asleep: dict[int, tuple[int, str]] = {}
        self._step: dict[int, int] = {}
        self.idle_since: int | None = None

    def compute(self, rank: int, until_ps: int) -> None:
        """Let a rank sleep until an instant, whatever happens."""
        self._sleep(rank, until_ps, COMPUTE)

    def poll(self, poll: Poll, now_ps: int) -> None:
        """Let a rank sleep for its next poll step."""
        bound = LONGEST_STEP_PS if self.idle_since is None else PATIENCE_PS
        last = 0 if poll.fresh else self._step.get(poll.rank, 0)
        step = min(max(2 * last, FIRST_STEP_PS), bound)
        self._step[poll.rank] = step
        self._sleep(poll.rank, now_ps + step, poll.asks)

    def polls(self, rank: int) -> bool:
        """Say whether a rank sleeps between two questions."""
        return self.asleep.get(rank, (0, COMPUTE))[1] != COMPUTE

    def disturb(self, rank: int) -> None:
        """Wake a rank that polls, because something happened to it."""
        del self.asleep[rank]

    def next_ps(self) -> int | None:
        """Return the instant at which the next sleeper wakes by itself."""
        while self._heap:
            time_ps, rank = self._heap[0]
            if self.asleep.get(rank, (-1, ""))[0] == time_ps:
                return time_ps
            heapq.heappop(self._heap)
        return None

    def due(self, now_ps: int) -> list[int]:
        """Wake the sleepers of this instant and return them in order."""
        ranks = []
        while self.next_ps() == now_ps:
            rank = heapq.heappop(self._heap)[1]
            del self.asleep[rank]
            ranks.append(rank)
        return sorted(ranks)

    def hopeless(self, now_ps: int, *, pending: bool) -> bool:
        """Say whether nobody can ever go on.

        `pending` says whether the fabric has anything under way. Ranks that only ask for the
        time are not waiting for anybody, so they keep the world alive.
        """
        kinds = {kind for _, kind in self.asleep.values()}
        if pending or COMPUTE in kinds:
            self.idle_since = None
            return False
        if self.idle_since is None:
            self.idle_since = now_ps
        if not kinds:
            return True
        return WTIME not in kinds and now_ps - self.idle_since >= PATIENCE_PS

    def _sleep(self, rank: int, until_ps: int, kind: str) -> None:
        self.asleep[rank] = (until_ps, kind)
        heapq.heappush(self._heap, (until_ps, rank))
