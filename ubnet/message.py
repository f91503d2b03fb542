"""What ranks hand over: payloads, envelopes, pending operations and the posts they become.

A *post* is the record of one call that goes to the clock holder; it holds numbers only, never a
payload, so that it is cheap to sort and to send to another process.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.access import Effect, Lock, Reach, Unlock
from ubnet.phantom import Phantom as Phantom

if TYPE_CHECKING:
    from ubnet.fabric import Fabric
    from ubnet.plans import Plan
    from ubnet.schedule import Schedule

ANY = -1
"""Any source, or any tag."""

ANY_SIZE = -1
"""The room of a receive that takes a message of any size."""

Buffer = Any  # bytes-like; Python 3.11 has no type for it
Maker = Callable[[list[Any], "Fabric", NDArray[np.int64]], "Schedule | Plan"]


def landing(into: Buffer | Phantom | None) -> "memoryview | Phantom | None":
    """Return what a receive writes into as bytes; None and a Phantom stay what they are."""
    return into if into is None or type(into) is Phantom else octets(into)


def octets(data: Buffer) -> memoryview:
    """Return a buffer as bytes.

    >>> octets(memoryview(bytearray(8)).cast("d")).format
    'B'
    """
    view = data if type(data) is memoryview else memoryview(data)
    if (view.format == "B" and view.ndim == 1) or not (view.nbytes and view.c_contiguous):
        return view
    return view.cast("B")


def position(rank: int, group: tuple[int, ...]) -> int:
    """Return a rank's position among the members; in a world it is its number.

    >>> position(2, (0, 1, 2)), position(2, (3, 2))
    (2, 1)
    """
    return rank if rank < len(group) and group[rank] == rank else group.index(rank)


class Envelope(NamedTuple):
    """What a probe sees of a message: source and tag as world numbers, and its bytes."""

    source: int
    tag: int
    nbytes: int


@dataclass(slots=True)
class Pending:
    """An operation under way, as its rank sees it.

    Attributes
    ----------
    number : int
        Its running number in the rank.
    call : str
        What was called, for reports: ``recv``, ``all_reduce`` ...
    peer, tag, context : int
        Partner (world rank, -1 = any), tag and communicator of the call.
    data : object
        Where a message is to be received; what was received, where no buffer was given.
    done, cancelled : bool
        Whether it has ended, and whether by `Rank.cancel`.
    source, nbytes : int
        Where a received message came from, and its bytes.
    error : Exception or None
        What went wrong; raised by whoever waits for it.
    """

    number: int
    call: str
    peer: int = ANY
    tag: int = ANY
    context: int = 0
    data: Any = None
    done: bool = False
    cancelled: bool = False
    source: int = ANY
    nbytes: int = 0
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a matched probe has taken from the queue: only `Rank.imrecv` receives it."""

    envelope: Envelope
    key: tuple[int, int]


@dataclass(slots=True)
class Collective:
    """One rank's call of a collective operation.

    Attributes
    ----------
    context : int
        The communicator; the n-th collective call of each member on it belong together.
    group : tuple of int
        World ranks of the members, in the communicator's order.
    op : str
        Name of the operation; all members must call the same.
    agree : tuple of (str, value)
        What all members must give alike (count, dtype, root ...); a mismatch is named.
    maker : callable
        ``maker(parts, fabric, endpoints)`` returns the schedule, or a `ubnet.plans.Plan` with
        flows of its own; picklable, the same everywhere.
    part : object
        What only this rank knows (counts of its own); None where the schedule needs no parts.
    itemsize : int
        Bytes of an element, which the schedule counts in.
    input, output : ndarray or None
        This rank's elements, one-dimensional; None where there are none or only their size counts.
    reduce : str, callable or None
        The reduction, as `ubnet.replay.replay` takes it.
    keep : bool
        Where only the schedule knows the size of the output: hand it out in `Pending.data`.
    """

    context: int
    group: tuple[int, ...]
    op: str
    agree: tuple[tuple[str, Hashable], ...]
    maker: Maker
    part: Any = None
    itemsize: int = 1
    input: NDArray[Any] | None = None
    output: NDArray[Any] | None = None
    reduce: Any = None
    keep: bool = False


SEND, RECEIVE, BLOCK, PROBE, CANCEL, JOIN, SLEEP, POLL, LEAVE, REACH, LOCK, UNLOCK = range(12)
"""The kinds of posts. Each post begins with rank, running number and kind; those of which there
are many are plain tuples, which are made, sorted and sent in a fraction of the time of others."""

Send = tuple[int, int, int, int, int, int, int, str, int]
"""A send: rank, number, kind, destination, tag, context, bytes, mode, and the number of its payload
on the way to another process."""

Receive = tuple[int, int, int, int, int, int, int, tuple[int, int] | None]
"""A receive: rank, number, kind, source, tag, context, the bytes that there is room for, and the
name of the message that a matched probe has taken for it."""

Block = tuple[int, int, int, tuple[int, ...], str]
"""A rank that cannot go on before its operations end: rank, number, kind, the operations, and how:
all, any or some."""


class Probe(NamedTuple):
    """A probe; `take` takes the message from the queue, `wait` waits for one.

    Without `wait` it is a poll: `fresh` starts the poll step anew.
    """

    rank: int
    number: int
    kind: int
    source: int
    tag: int
    context: int
    take: bool
    wait: bool
    fresh: bool


class Cancel(NamedTuple):
    """The cancellation of an operation by its number."""

    rank: int
    number: int
    kind: int
    target: int


class Join(NamedTuple):
    """A rank's arrival in a collective (`maker` set) or in an exchange of values (`maker` None)."""

    rank: int
    number: int
    kind: int
    context: int
    group: tuple[int, ...]
    op: str
    agree: tuple[tuple[str, Hashable], ...]
    maker: Maker | None
    part: Any
    itemsize: int
    real: bool


class Sleep(NamedTuple):
    """A rank that computes for `duration_ps`."""

    rank: int
    number: int
    kind: int
    duration_ps: int


class Poll(NamedTuple):
    """A rank that asked in vain and sleeps until its next event, a poll step at the most.

    `asks` is ``test`` or ``wtime``; `fresh` starts the poll step anew.
    """

    rank: int
    number: int
    kind: int
    asks: str
    fresh: bool


class Leave(NamedTuple):
    """A rank that has ended; `status` other than 0 or a `failure` ends the world."""

    rank: int
    number: int
    kind: int
    status: int
    failure: str


Post = Send | Receive | Probe | Cancel | Join | Reach | Lock | Unlock | Block | Sleep | Poll | Leave


Completion = tuple[int, int, int, int, int, tuple[int, int] | None, int, str]
"""The end of an operation, told to its rank: rank, number, source, tag, bytes, the name of the
payload, its wire number, and the outcome. A plain tuple: there is one for every call, and many go
to other processes."""


class Replay(NamedTuple):
    """The order to move a collective's bytes: all its operations, or those of the indices.

    `group` are the members; `parts` their own parts once all have arrived, before that None.
    """

    gathering: tuple[int, int]
    group: tuple[int, ...]
    ops: NDArray[np.int64] | None
    parts: list[Any] | None


@dataclass(slots=True)
class Delivery:
    """What the clock holder tells one process at an instant.

    Attributes
    ----------
    now_ps : int
        The instant.
    completions : list of Completion
        Operations that have ended, in the order of events.
    wake : list of int
        The ranks that resume.
    effects : sequence of Effect
        One-sided accesses that take effect, in the order of events, before anything else here.
    replays : sequence of Replay
        Collectives whose bytes move now, before any rank resumes.
    values : mapping or None
        For each (rank, number) of an exchange the values of all members.
    """

    now_ps: int
    completions: list[Completion]
    wake: list[int]
    effects: Sequence[Effect] = ()
    replays: Sequence[Replay] = ()
    values: Mapping[tuple[int, int], Sequence[Any]] | None = None
