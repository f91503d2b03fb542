"""The holder of the virtual clock: takes the ranks' posts, moves time, says who goes on.

An instant goes in rounds. All ranks have blocked; their posts are taken in the order (rank,
running number); events of the instant follow in the order (source, destination, number); then the
ranks whose wait is over go on together, in the next round. Only when nobody can go on does the
clock move, to the next event that concerns a rank.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from ubnet.accesses import ANSWERED, LEFT, LOCKED, UNLOCKED, WRITTEN, Accesses
from ubnet.errors import UbnetError
from ubnet.eventlog import EventLog
from ubnet.fabric import Fabric, Ints
from ubnet.gathering import Gatherings
from ubnet.mailbox import Letter, Mailbox
from ubnet.memory import capacity_with_memory
from ubnet.message import (
    BLOCK,
    CANCEL,
    JOIN,
    LEAVE,
    LOCK,
    POLL,
    PROBE,
    REACH,
    RECEIVE,
    SEND,
    SLEEP,
    UNLOCK,
    Block,
    Cancel,
    Completion,
    Delivery,
    Leave,
    Poll,
    Post,
    Probe,
    Sleep,
)
from ubnet.network import Network
from ubnet.passages import Passages
from ubnet.plans import Plans
from ubnet.pollers import TEST, Pollers
from ubnet.protocol import EAGER_BYTES, MANY_POSTS, Protocol
from ubnet.recording import Recorder

UNLOGGED = frozenset({"sent", "found", "none", LEFT, WRITTEN, ANSWERED, LOCKED, UNLOCKED})
"""Ends of operations that say nothing new: what they end has been logged."""


@dataclass(frozen=True, slots=True)
class ClockOptions:
    """How a world sends its messages.

    Attributes
    ----------
    transport : str
        A transport's name, or ``auto`` for the least modelled time of each transfer.
    eager_bytes : int
        The largest message that is sent eagerly.
    rendezvous : {"read", "write"}
        Who moves the bytes of a larger one.
    """

    transport: str = "auto"
    eager_bytes: int = EAGER_BYTES
    rendezvous: str = "read"


@final
@dataclass(frozen=True, slots=True)
class WorldEnd:
    """Why a world ends.

    Attributes
    ----------
    reason : {"finished", "deadlock", "failed", "refused"}
        ``failed``: a rank left; ``refused``: `error` says which call cannot be.
    status : int
        The status that the rank left with.
    failure : str
        The traceback of the rank that raised.
    error : UbnetError or None
        What was refused.
    rank : int
        The rank that left.
    """

    reason: str
    status: int = 0
    failure: str = ""
    error: UbnetError | None = None
    rank: int = -1


class Clock:
    """One virtual clock for all ranks of a world.

    Parameters
    ----------
    fabric : Fabric
        What the ranks sit on.
    endpoints : ndarray of int64
        Endpoint of each rank.
    plans : Plans
        What makes schedules.
    options : ClockOptions
        How messages are sent.
    log : EventLog
        Where events are written.
    """

    def __init__(
        self, fabric: Fabric, endpoints: Ints, plans: Plans, options: ClockOptions, log: EventLog
    ) -> None:
        ranks = len(endpoints)
        passages = Passages(fabric, options.transport)
        self.network = Network(capacity_with_memory(fabric), passages)
        self.log = log
        self.mailbox = Mailbox(ranks)
        self._pollers = Pollers()
        self._protocol = Protocol(
            self.network,
            passages,
            self.mailbox,
            endpoints.tolist(),
            log,
            eager_bytes=options.eager_bytes,
            rendezvous=options.rendezvous,
            complete=self._complete,
            stir=self._stir,
        )
        self._gatherings = Gatherings(self.network, plans, self._complete)
        self._accesses = Accesses(self.network, endpoints.tolist(), log, self._complete, self._stir)
        self._takers: dict[int, Callable[[Any], None]] = {
            SEND: self._protocol.send,
            RECEIVE: self._protocol.receive,
            BLOCK: self._block,
            PROBE: self._probe,
            CANCEL: self._cancel,
            JOIN: self._gatherings.join,
            SLEEP: self._sleep,
            POLL: self._poll,
            LEAVE: self._leave,
            REACH: self._accesses.reach,
            LOCK: self._accesses.lock,
            UNLOCK: self._accesses.unlock,
        }
        self._waits: dict[int, set[int]] = {}  # what a blocked rank waits for, all of it,
        self._any: set[int] = set()  # unless it waits for any
        self._early: set[tuple[int, int]] = set()  # what has ended in this step for no block
        self._asked: dict[int, Probe] = {}
        self._live = ranks
        self._stirred: set[int] = set()
        self._end: WorldEnd | None = None
        self._delivery = Delivery(0, [], [])

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return self.network.now_ps

    def step(self, posts: Sequence[Post]) -> Delivery | WorldEnd:
        """Take the posts of a round and run until a rank can go on, or until the world ends."""
        network = self.network
        delivery = self._delivery = Delivery(network.now_ps, [], [])
        self._early.clear()
        if len(posts) > MANY_POSTS:
            self._protocol.foresee(posts)
        takers = self._takers
        for post in sorted(posts):  # each begins with its rank and number, which no other has
            takers[post[2]](post)
            if self._end is not None:
                return self._end
        gatherings, accesses = self._gatherings, self._accesses
        if gatherings.arrived:
            gatherings.settle()
        if network.due_now:
            self._take_events(network.now_ps)
        while not delivery.wake:
            if self._live == 0:
                return WorldEnd("finished")
            if self._move():
                return WorldEnd("deadlock")
        delivery.now_ps = network.now_ps
        delivery.wake.sort()
        if accesses.effects:
            delivery.effects, accesses.effects = accesses.effects, []
        if gatherings.replays:
            delivery.replays, gatherings.replays = gatherings.replays, []
        if gatherings.values:
            delivery.values, gatherings.values = gatherings.values, {}
        return delivery

    def record(self) -> Recorder:
        """Take down all transfers and collective operations from now on."""
        recorder = Recorder(lambda: self.now_ps)
        self.network.follower = self._gatherings.recorder = recorder
        return recorder

    def undelivered(self) -> list[Letter]:
        """Return the messages that nobody has received."""
        return self.mailbox.undelivered()

    def _block(self, block: Block) -> None:
        """Let a rank wait for its operations: for all of them, or for any."""
        rank, _, _, targets, how = block
        waits = set(targets)
        if self._early:
            ended = {number for number in waits if (rank, number) in self._early}
            waits -= ended
            if not waits or (ended and how != "all"):
                self._delivery.wake.append(rank)
                return
        self._waits[rank] = waits
        if how != "all":
            self._any.add(rank)

    def _sleep(self, sleep: Sleep) -> None:
        self._pollers.compute(sleep.rank, self.now_ps + sleep.duration_ps)

    def _poll(self, poll: Poll) -> None:
        self._pollers.poll(poll, self.now_ps)

    def _probe(self, probe: Probe) -> None:
        if self._protocol.probe(probe, stay=probe.wait) or probe.wait:
            return
        self._asked[probe.rank] = probe
        poll = Poll(probe.rank, probe.number, POLL, TEST, probe.fresh)
        self._pollers.poll(poll, self.now_ps)

    def _cancel(self, cancel: Cancel) -> None:
        if self.mailbox.cancel(cancel.rank, cancel.target):
            self._complete((cancel.rank, cancel.target, -1, -1, 0, None, -1, "cancelled"))

    def _leave(self, leave: Leave) -> None:
        self.log.add(self.now_ps, "leave", leave.rank, -1, -1, leave.status)
        self._live -= 1
        if leave.failure or leave.status:
            self._end = WorldEnd("failed", leave.status, leave.failure, None, leave.rank)

    def _move(self) -> bool:
        """Move to the next instant at which something happens; True if nothing ever will."""
        wakes = self._pollers.next_ps() if self._pollers.asleep else None
        if wakes is None:
            return not self._take_events(None)
        if self._pollers.hopeless(self.now_ps, pending=self.network.pending):
            return True
        self._take_events(wakes)
        for rank in self._pollers.due(self.now_ps):
            self._rise(rank)
        return False

    def _take_events(self, limit_ps: int | None) -> bool:
        """Take all events of the next instant that has any, `limit_ps` at the latest.

        Returns whether there was one.
        """
        network = self.network
        events = network.advance(limit_ps)
        happened = bool(events)
        while events:
            for _, _, _, _, handle, subject in events:
                handle(subject)
            events = network.advance(network.now_ps) if network.due_now else []
        if self._stirred:
            stirred, self._stirred = sorted(self._stirred), set()
            for rank in stirred:
                self._pollers.disturb(rank)
                self._rise(rank)
        return happened

    def _stir(self, rank: int) -> None:
        """Something happened to a rank: if it polls it wakes at the end of this instant."""
        if self._pollers.asleep and self._pollers.polls(rank):
            self._stirred.add(rank)

    def _complete(self, done: Completion) -> None:
        rank, number, source, tag, nbytes, _, _, outcome = done
        self._delivery.completions.append(done)
        if outcome != "none":
            self._pollers.idle_since = None
        if outcome not in UNLOGGED:
            self.log.add(self.network.now_ps, outcome, source, rank, tag, nbytes)
        waits = self._waits.get(rank)
        if waits is None:
            self._early.add((rank, number))
            self._stir(rank)
        elif number in waits:
            waits.remove(number)
            if not waits or rank in self._any:
                del self._waits[rank]
                self._any.discard(rank)
                self._delivery.wake.append(rank)

    def _rise(self, rank: int) -> None:
        """Wake a sleeper; one that asked for a message gets its answer first."""
        asked = self._asked.pop(rank, None)
        if asked is None:
            self._delivery.wake.append(rank)
        elif not self._protocol.probe(asked, stay=False):
            self._complete((rank, asked.number, -1, -1, 0, None, -1, "none"))
