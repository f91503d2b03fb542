"""One-sided accesses and locks as the clock holder sees them: when each takes effect, who waits.

A put is a remote write: it takes effect when its last byte has arrived, and its origin knows one
latency of switches and cables later. A get is a remote read, whose bytes are those held when it
ends. An atomic with a result is a message to the target, takes effect there, and a message back.
A lock is a message that asks, in the order of arrival, and one that grants; where it concerns
everybody the window's first member is asked. Effects of one instant come in the order of events.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ubnet.access import ATOMIC, GET, Effect, Lock, Reach, Unlock
from ubnet.eventlog import EventLog
from ubnet.lock_queue import Claim, LockQueue
from ubnet.network import Event, Network
from ubnet.protocol import CONTROL_BYTES, Complete

LOCKED, UNLOCKED, LEFT, WRITTEN, ANSWERED = "locked", "unlocked", "left", "written", "answered"


@dataclass(slots=True)
class _Line:
    """The ordered accesses of one origin to one target of a window."""

    sent: int = 0
    done: int = 0
    early: dict[int, Reach] = field(default_factory=dict)


class Accesses:
    """Moves the accesses and locks of a world's windows through its network.

    Parameters
    ----------
    network : Network
        Where bytes travel.
    endpoints : sequence of int
        Endpoint of each rank.
    log : EventLog
        Where effects are written.
    complete : callable
        ``complete(completion)`` ends an operation.
    stir : callable
        ``stir(rank)`` is told that the memory of a rank has been touched.
    """

    def __init__(
        self,
        network: Network,
        endpoints: Sequence[int],
        log: EventLog,
        complete: Complete,
        stir: Callable[[int], None],
    ) -> None:
        self._network = network
        self._endpoints = endpoints
        self._log = log
        self._complete = complete
        self._stir = stir
        self._lines: dict[tuple[int, int, int], _Line] = {}
        self._locks: dict[int, LockQueue] = {}
        self.effects: list[Effect] = []

    def reach(self, post: Reach) -> None:
        """Start an access."""
        place = -1
        if post.ordered:
            line = self._lines.setdefault((post.window, post.rank, post.target), _Line())
            place, line.sent = line.sent, line.sent + 1
        arrived = _event(post, post.target, 2, lambda post: self._arrived(post, place))
        origin, target = self._endpoints[post.rank], self._endpoints[post.target]
        if post.way == GET:
            self._network.read(target, origin, post.returns, arrived, GET)
            return
        leaves = None
        if post.local >= 0:
            leaves = _event(post, post.target, 1, self._left)
        self._network.write(origin, target, post.brings, leaves, arrived, post.way)

    def lock(self, post: Lock) -> None:
        """Ask for a lock."""
        arrives = _event(post, post.home, 2, self._asked)
        self._message(post.rank, post.home, None, arrives, "lock")

    def unlock(self, post: Unlock) -> None:
        """Give a lock back; the origin goes on as soon as the word has left it."""
        leaves = _event(post, post.home, 1, self._unlocked)
        arrives = _event(post, post.home, 2, self._given_back)
        self._message(post.rank, post.home, leaves, arrives, "unlock")

    def _asked(self, post: Lock) -> None:
        claim = Claim(post.rank, post.number, post.target, post.exclusive, post.home)
        if self._locks.setdefault(post.window, LockQueue()).ask(claim):
            self._grant(claim)

    def _given_back(self, post: Unlock) -> None:
        for claim in self._locks[post.window].release(post.rank, post.target):
            self._grant(claim)

    def _arrived(self, post: Reach, place: int) -> None:
        if place < 0:
            self._take_effect(post)
            return
        line = self._lines[post.window, post.rank, post.target]
        line.early[place] = post
        while line.done in line.early:
            self._take_effect(line.early.pop(line.done))
            line.done += 1

    def _take_effect(self, post: Reach) -> None:
        effect = Effect(post.rank, post.number, post.window, post.target, post.answer, post.wire)
        self.effects.append(effect)
        nbytes = post.brings or post.returns
        self._log.add(self._network.now_ps, post.way, post.rank, post.target, -1, nbytes)
        self._stir(post.target)
        if post.way == GET:
            self._finish(post)
            return
        origin, target = self._endpoints[post.rank], self._endpoints[post.target]
        known = _event(post, post.target, 3, self._finish)
        if post.way == ATOMIC:
            self._network.write(target, origin, post.returns, None, known, "reply")
        else:
            self._network.signal(target, origin, known)

    def _finish(self, post: Reach) -> None:
        outcome = ANSWERED if post.answer else WRITTEN
        self._end(post.rank, post.number, post.target, post.returns, outcome)

    def _left(self, post: Reach) -> None:
        self._end(post.rank, post.local, post.target, post.returns, LEFT)

    def _unlocked(self, post: Unlock) -> None:
        self._end(post.rank, post.number, post.target, 0, UNLOCKED)

    def _granted(self, claim: Claim) -> None:
        self._end(claim.rank, claim.number, claim.target, 0, LOCKED)

    def _end(self, rank: int, number: int, target: int, nbytes: int, outcome: str) -> None:
        self._complete((rank, number, target, -1, nbytes, None, -1, outcome))

    def _grant(self, claim: Claim) -> None:
        self._log.add(self._network.now_ps, "lock", claim.rank, claim.target, -1, 0)
        event = claim.rank, claim.home, claim.number, 3, self._granted, claim
        self._message(claim.home, claim.rank, None, event, "grant")

    def _message(
        self, source: int, target: int, leaves: Event | None, arrives: Event, what: str
    ) -> None:
        there, here = self._endpoints[target], self._endpoints[source]
        self._network.write(here, there, CONTROL_BYTES, leaves, arrives, what)


def _event(
    post: Reach | Lock | Unlock, target: int, order: int, handle: Callable[[Any], None]
) -> Event:
    return post.rank, target, post.number, order, handle, post
