"""What ranks did when: each one's waits and computing, transfers, collective operations.

A world records only where somebody asks for it (`World.record`). Ranks are recorded by the process
that hosts them, transfers by the holder of the clock; `Recording.join` puts the parts together.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.message import Join, Pending
from ubnet.network import Event
from ubnet.schedule import Schedule

COMPUTE, BLOCKED = "compute", "blocked"

MESSAGE, REQUEST, GRANT, DATA = "message", "request", "grant", "data"
PUT, GET, ATOMIC, REPLY, LOCK, UNLOCK = "put", "get", "atomic", "reply", "lock", "unlock"

TOWARDS_CALLER = (GET, REPLY, GRANT)
"""Transfers whose bytes travel from the event's destination to its source."""

CONTROL = (REQUEST, GRANT, LOCK, UNLOCK)
"""Words of a protocol, which carry nothing of the program's."""

_HERE = str(Path(__file__).parent)


class Span(NamedTuple):
    """A time in which a rank computes, or is blocked in a call of its program."""

    rank: int
    kind: str
    name: str
    start_ps: int
    end_ps: int


class Stuck(NamedTuple):
    """A call that a rank never came back from: the world ended in a deadlock."""

    rank: int
    name: str
    start_ps: int
    waits_for: str


class Move(NamedTuple):
    """A transfer from rank to rank."""

    what: str
    source: int
    destination: int
    nbytes: int
    start_ps: int
    end_ps: int


class Part(NamedTuple):
    """One rank's part in a collective operation, from its call to its end.

    Parts of one number belong to one operation.
    """

    rank: int
    name: str
    start_ps: int
    end_ps: int
    operation: int


class Exchange(NamedTuple):
    """Who sends whom something in a collective operation.

    Attributes
    ----------
    group : tuple of int
        World ranks of its members.
    rows : list of (int, int, int)
        Source and destination, counted in the group, and elements.
    """

    group: tuple[int, ...]
    rows: list[tuple[int, int, int]]


@dataclass(slots=True)
class Recording:
    """All that was recorded.

    Attributes
    ----------
    spans : list of Span
        Of a rank one after the other, in the order of time.
    moves : list of Move
        In the order of their ends.
    parts : list of Part
        In the order of their ends.
    pairs : dict of (int, int) to int
        Bytes of the program that one rank has sent another, collective operations included.
    exchanges : dict of int to Exchange
        What the members of each collective operation send each other, by its number.
    stuck : list of Stuck
        The calls that ranks are still in when the world has ended in a deadlock.
    """

    spans: list[Span] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    pairs: dict[tuple[int, int], int] = field(default_factory=dict)
    exchanges: dict[int, Exchange] = field(default_factory=dict)
    stuck: list[Stuck] = field(default_factory=list)

    def join(self, others: Iterable["Recording"]) -> "Recording":
        """Return this recording with those of other processes; spans by rank and time."""
        joined = Recording(list(self.spans), self.moves, self.parts, self.pairs, self.exchanges)
        joined.stuck = list(self.stuck)
        for other in others:
            joined.spans += other.spans
            joined.stuck += other.stuck
            joined.moves = joined.moves or other.moves
            joined.parts = joined.parts or other.parts
            joined.pairs = joined.pairs or other.pairs
            joined.exchanges = joined.exchanges or other.exchanges
        joined.spans.sort(key=lambda span: (span.rank, span.start_ps))
        return joined


class Recorder:
    """Takes down what happens.

    Parameters
    ----------
    now_ps : callable
        Tells the virtual time.
    """

    def __init__(self, now_ps: Callable[[], int]) -> None:
        self.recording = Recording()
        self._now_ps = now_ps
        self._last: dict[int, int] = {}
        self._calls: dict[tuple[int, int], int] = {}
        self._operations: dict[tuple[int, int], int] = {}
        self._joined: dict[tuple[int, int], tuple[int, int]] = {}
        self._sizes: dict[int, tuple[Schedule, list[tuple[int, int, int]]]] = {}

    def suspended(
        self, rank: int, waits_in: str, pendings: Sequence[Pending], since_ps: int
    ) -> None:
        """Note that a rank has been suspended from an instant until now."""
        now = self._now_ps()
        if now == since_ps:
            return
        kind = COMPUTE if waits_in == COMPUTE else BLOCKED
        name = COMPUTE if kind == COMPUTE else _called(sys._getframe(1), waits_in, pendings)
        spans = self.recording.spans
        last = self._last.get(rank)
        if last is not None and spans[last][1:3] == (kind, name) and spans[last].end_ps == since_ps:
            spans[last] = spans[last]._replace(end_ps=now)
            return
        self._last[rank] = len(spans)
        spans.append(Span(rank, kind, name, since_ps, now))

    def stuck(
        self,
        rank: int,
        frame: FrameType | None,
        waits_in: str,
        pendings: Sequence[Pending],
        line: str,
    ) -> None:
        """Note that a rank, suspended in this frame, never goes on; `line` says what it lacks."""
        # A rank's time goes on in spans alone: this wait has begun where the last one ended.
        last = self._last.get(rank)
        since = 0 if last is None else self.recording.spans[last].end_ps
        name = _called(frame, waits_in, pendings)
        self.recording.stuck.append(Stuck(rank, name, since, line))

    def follow(self, event: Event, what: str, nbytes: int) -> Event:
        """Return the event of a transfer's end, which takes the transfer down as well."""
        start = self._now_ps()
        source, destination, number, order, handle, subject = event
        key = source, destination, number, order
        if what in TOWARDS_CALLER:
            source, destination = destination, source

        def ended(subject: Any) -> None:
            move = Move(what, source, destination, nbytes, start, self._now_ps())
            self.recording.moves.append(move)
            if what not in CONTROL:
                self._count(source, destination, nbytes)
            handle(subject)

        return (*key, ended, subject)

    def joined(self, join: Join) -> None:
        """Note that a rank has come to a collective operation."""
        call = self._calls.get((join.context, join.rank), 0)
        self._calls[join.context, join.rank] = call + 1
        # The n-th calls of all members on a communicator are one operation.
        operation = self._operations.setdefault((join.context, call), len(self._operations))
        self._joined[join.rank, join.number] = operation, self._now_ps()

    def gathered(self, join: Join, schedule: Schedule) -> None:
        """Count the bytes of a collective operation, whose members know its schedule now."""
        kept = self._sizes.get(id(schedule))
        if kept is None or kept[0] is not schedule:
            kept = self._sizes[id(schedule)] = schedule, _elements(schedule)
        operation, _ = self._joined[join.rank, join.number]
        self.recording.exchanges[operation] = Exchange(join.group, kept[1])
        for source, destination, count in kept[1]:
            self._count(join.group[source], join.group[destination], count * join.itemsize)

    def finished(self, join: Join) -> None:
        """Note that a rank's part in a collective operation has ended."""
        operation, start = self._joined.pop((join.rank, join.number))
        self.recording.parts.append(Part(join.rank, join.op, start, self._now_ps(), operation))

    def _count(self, source: int, destination: int, nbytes: int) -> None:
        pairs = self.recording.pairs
        pairs[source, destination] = pairs.get((source, destination), 0) + nbytes


def _elements(schedule: Schedule) -> list[tuple[int, int, int]]:
    """Return the elements that each rank of a schedule sends each other one."""
    moved = schedule.transfers
    pair = schedule.src[moved] * schedule.ranks + schedule.dst[moved]
    pairs, inverse = np.unique(pair, return_inverse=True)
    counts: NDArray[np.int64] = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(counts, inverse, schedule.count[moved])
    rows = zip(*(c.tolist() for c in (*np.divmod(pairs, schedule.ranks), counts)), strict=True)
    return [(source, destination, count) for source, destination, count in rows if count]


def _called(frame: FrameType | None, waits_in: str, pendings: Sequence[Pending]) -> str:
    """Return the name of the call that the program has made, the outermost one of ubnet's."""
    name = waits_in or (pendings[0].call if pendings else "wait")
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        # The three forms of a collective operation are made, and keep their names with them.
        made = frame.f_locals.get("name") if "<locals>" in frame.f_code.co_qualname else None
        name = made if isinstance(made, str) else frame.f_code.co_name
        frame = frame.f_back
    return name
