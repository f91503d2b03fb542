"""How time passes for a rank: it computes, it blocks until operations end, or it polls.

A call that has to wait switches to the host, which runs the other ranks and asks the clock.
"""

from collections.abc import Sequence
from time import thread_time
from typing import TYPE_CHECKING, Any

from ubnet.errors import OptionError
from ubnet.message import BLOCK, POLL, SLEEP, Pending, Poll, Sleep
from ubnet.units import PS_PER_S

if TYPE_CHECKING:
    from ubnet.host import Host


LONGEST_COMPUTE_S = 1_000_000
"""Longer than any run that picoseconds of 64 bits can hold several of."""


class WaitingRank:
    """A rank without the calls that it waits for, which `ubnet.rank.Rank` adds.

    Attributes
    ----------
    kept : dict
        What a face keeps for this rank alone, by names of its own.
    open : dict of int to Pending
        Its operations under way, by their numbers.
    waits_for : sequence of Pending
        The operations that it is blocked for, or was last.
    waits_in : str
        What reports call that wait; empty: as its one operation.
    """

    def __init__(self, number: int, host: "Host") -> None:
        self.number = number
        self.host = host
        self.kept: dict[str, Any] = {}
        self.open: dict[int, Pending] = {}
        self.waits_for: Sequence[Pending] = ()
        self.waits_in = ""
        self._running = 0
        self._fresh = True
        self._asked_time_at = -1
        self._cpu = 0.0

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return self.host.now_ps

    def wtime(self) -> float:
        """Return the virtual time in seconds; asked again and again, it lets time pass."""
        again = self._asked_time_at == self._running
        if self.host.compute_scale:
            self._charge()
        if again:
            self._poll("wtime", [])
        self._asked_time_at = self._running
        return self.now_ps / PS_PER_S

    def compute(self, seconds: float) -> None:
        """Let the rank compute for some virtual time."""
        if not 0 <= seconds <= LONGEST_COMPUTE_S:
            raise OptionError(
                f"computing takes 0 seconds or more, {LONGEST_COMPUTE_S:,} at the most, "
                f"not {seconds}"
            )
        self._sleep(round(seconds * PS_PER_S), self._begin())

    def begin_program(self) -> None:
        """Note where the rank's own computing begins, for measured computing."""
        self._cpu = thread_time()

    def end_program(self) -> None:
        """Add what the rank has computed since its last call."""
        if self.host.compute_scale:
            self._charge()

    def wait(self, pendings: Sequence[Pending], how: str = "all") -> list[int]:
        """Wait until all, any or some of the operations have ended.

        Returns
        -------
        list of int
            Indices of those that have; for ``any`` the first one alone.
        """
        if self.host.compute_scale:
            self._charge()
        if how == "all":
            self.finish(pendings)
            return list(range(len(pendings)))
        self._running += 1
        if pendings and not any(p.done for p in pendings):
            self._block(pendings, how)
        self._fresh = True
        return _ended(pendings, how)

    def finish(self, pendings: Sequence[Pending]) -> None:
        """Wait until all operations have ended; the program has not run since they began."""
        self._running += 1
        open_ones = pendings
        for pending in pendings:
            if pending.done:
                open_ones = [p for p in pendings if not p.done]
                break
        if open_ones:
            self._block(open_ones, "all")
        self._fresh = True
        for pending in pendings:
            if pending.error is not None:
                error, pending.error = pending.error, None
                raise error

    def test(self, pendings: Sequence[Pending], how: str = "all") -> list[int] | None:
        """Return the ended operations as `wait` does, or None after a poll step."""
        self._begin()
        if not _satisfied(pendings, how):
            self._poll("test", [p for p in pendings if not p.done])
            if not _satisfied(pendings, how):
                return None
        self._fresh = True
        return _ended(pendings, how)

    def pause(self, *, again: bool = False) -> None:
        """Let time pass until something happens to this rank, a poll step at the most.

        `again` says that what ended since the last time was no success.
        """
        self._begin()
        self._fresh = self._fresh and not again
        self._poll("pause", [])

    def _begin(self) -> int:
        """Come back from the program; return the running number of this call."""
        if self.host.compute_scale:
            self._charge()
        self._running += 1
        return self._running

    def _next(self) -> int:
        self._running += 1
        return self._running

    def _charge(self) -> None:
        """Add the time that the program has computed since its last call."""
        used = thread_time() - self._cpu
        self._sleep(round(used * self.host.compute_scale * PS_PER_S), self._next())

    def _sleep(self, duration_ps: int, number: int) -> None:
        self.host.post(Sleep(self.number, number, SLEEP, duration_ps), None)
        self._switch("compute", ())

    def _poll(self, kind: str, pendings: Sequence[Pending]) -> None:
        self.host.post(Poll(self.number, self._next(), POLL, kind, self._fresh), None)
        self._fresh = False
        self._switch(kind, pendings)

    def _block(self, pendings: Sequence[Pending], how: str) -> None:
        """Block until operations end, none of which has."""
        if len(pendings) == 1:
            targets: tuple[int, ...] = (pendings[0].number,)
            waits_in = ""
        else:
            targets = tuple([p.number for p in pendings])
            waits_in = f"wait {how}"
        self.host.posts.append((self.number, self._running, BLOCK, targets, how))
        self._switch(waits_in, pendings)

    def _switch(self, waits_in: str, pendings: Sequence[Pending]) -> None:
        host = self.host
        self.waits_in, self.waits_for = waits_in, pendings
        since_ps = host.now_ps
        host.suspend()
        if host.recorder is not None:
            host.recorder.suspended(self.number, waits_in, pendings, since_ps)
        if host.compute_scale:
            self._cpu = thread_time()


def _satisfied(pendings: Sequence[Pending], how: str) -> bool:
    ended = sum(p.done for p in pendings)
    return ended == len(pendings) if how == "all" else ended > 0 or not pendings


def _ended(pendings: Sequence[Pending], how: str) -> list[int]:
    ended = list(range(len(pendings)))
    if how != "all":
        ended = [i for i in ended if pendings[i].done]
        if how == "any":
            del ended[1:]
    for i in ended:
        error = pendings[i].error
        if error is not None:
            pendings[i].error = None
            raise error
    return ended
