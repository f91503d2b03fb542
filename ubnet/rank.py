"""A rank: the calls that its program makes, in world rank numbers.

Each rank is a greenlet. A call posts what it wants and, if it has to wait, switches to the host,
which runs the other ranks and asks the clock. `ubnet.mpi` gives these calls mpi4py's names.
"""

import pickle
from collections.abc import Sequence
from time import thread_time
from typing import TYPE_CHECKING, Any, NoReturn

from greenlet import getcurrent, greenlet

from ubnet.errors import OptionError, UbnetError
from ubnet.message import (
    ANY,
    ANY_SIZE,
    BLOCK,
    CANCEL,
    JOIN,
    LEAVE,
    POLL,
    PROBE,
    RECEIVE,
    SEND,
    SLEEP,
    Buffer,
    Cancel,
    Collective,
    Envelope,
    Join,
    Leave,
    Message,
    Pending,
    Phantom,
    Poll,
    Probe,
    Sleep,
    landing,
)
from ubnet.units import PS_PER_S

if TYPE_CHECKING:
    from ubnet.host import Host

LONGEST_COMPUTE_S = 1_000_000
"""Longer than any run that picoseconds of 64 bits can hold several of."""

CALLS = {
    "standard": "send",
    "synchronous": "synchronous send",
    "ready": "ready send",
    "buffered": "buffered send",
}
"""What reports call a send of each mode."""


class RankGreenlet(greenlet):
    """The greenlet that a rank's program runs in."""

    of_rank: "Rank"


def current() -> "Rank":
    """Return the rank that is running.

    Raises
    ------
    UbnetError
        If no rank is: outside of a world, or in a thread that a program has started.
    """
    here: Any = getcurrent()
    try:
        rank: Rank = here.of_rank
    except AttributeError:  # a greenlet of the program's own
        return _rank_above(here)
    return rank


def _rank_above(here: Any) -> "Rank":
    while here is not None:
        here = here.parent
        if isinstance(here, RankGreenlet):
            return here.of_rank
    raise UbnetError(
        "no rank runs here: call this inside a program that `ubnet run` or ubnet.run started, "
        "and not from a thread of its own"
    )


class Rank:
    """One rank of a world.

    Parameters
    ----------
    number : int
        Its number in the world.
    host : Host
        What runs it.

    Attributes
    ----------
    kept : dict
        What a face keeps for this rank alone, by names of its own.
    open : dict of int to Pending
        Its operations under way, by their numbers.
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

    def __repr__(self) -> str:
        return f"<Rank {self.number} of {self.host.size}>"

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

    def begin_program(self) -> None:
        """Note where the rank's own computing begins, for measured computing."""
        self._cpu = thread_time()

    def end_program(self) -> None:
        """Add what the rank has computed since its last call."""
        if self.host.compute_scale:
            self._charge()

    def compute(self, seconds: float) -> None:
        """Let the rank compute for some virtual time."""
        if not 0 <= seconds <= LONGEST_COMPUTE_S:
            raise OptionError(
                f"computing takes 0 seconds or more, {LONGEST_COMPUTE_S:,} at the most, "
                f"not {seconds}"
            )
        self._sleep(round(seconds * PS_PER_S), self._begin())

    def isend(
        self, dest: int, tag: int, context: int, data: Buffer | Phantom, mode: str = "standard"
    ) -> Pending:
        """Start a send of bytes to a world rank.

        Parameters
        ----------
        dest, tag, context : int
            World rank, tag (0 or more) and communicator.
        data : bytes-like or Phantom
            What to send; it must not change before the operation is done.
        mode : {"standard", "synchronous", "ready", "buffered"}
            MPI's send modes.
        """
        host = self.host
        if host.compute_scale:
            self._charge()
        self._running = number = self._running + 1
        call = CALLS.get(mode)
        if call is None:
            raise OptionError(f"mode is {mode!r}; allowed: {', '.join(CALLS)}")
        nbytes, wire = host.keep_payload(self.number, number, dest, data, mode)
        pending = self.open[number] = Pending(number, call, dest, tag, context)
        host.posts.append((self.number, number, SEND, dest, tag, context, nbytes, mode, wire))
        return pending

    def irecv(
        self, source: int, tag: int, context: int, into: Buffer | Phantom | None = None
    ) -> Pending:
        """Start a receive; `into` None takes a message of any size and keeps it in ``data``."""
        host = self.host
        if host.compute_scale:
            self._charge()
        self._running = number = self._running + 1
        into = landing(into)
        pending = self.open[number] = Pending(number, "recv", source, tag, context, into)
        room = ANY_SIZE if into is None else into.nbytes
        host.posts.append((self.number, number, RECEIVE, source, tag, context, room, None))
        return pending

    def imrecv(self, message: Message, into: Buffer | Phantom | None = None) -> Pending:
        """Start the receive of a message that a matched probe took."""
        envelope, into = message.envelope, landing(into)
        pending = Pending(self._begin(), "mrecv", envelope.source, envelope.tag, 0, into)
        room = ANY_SIZE if into is None else into.nbytes
        receive = self.number, pending.number, RECEIVE, ANY, ANY, 0, room, message.key
        self.host.post(receive, pending)
        return pending

    def probe(self, source: int = ANY, tag: int = ANY, context: int = 0) -> Envelope:
        """Wait until a message fits, and return its envelope."""
        found = self._probe("probe", source, tag, context, take=False, wait=True)
        assert found is not None
        return found.envelope

    def iprobe(self, source: int = ANY, tag: int = ANY, context: int = 0) -> Envelope | None:
        """Return the envelope of a message that fits, or None after a poll step."""
        found = self._probe("iprobe", source, tag, context, take=False, wait=False)
        return None if found is None else found.envelope

    def mprobe(self, source: int = ANY, tag: int = ANY, context: int = 0) -> Message:
        """Wait until a message fits, and take it out of the queue."""
        found = self._probe("mprobe", source, tag, context, take=True, wait=True)
        assert found is not None
        return found

    def improbe(self, source: int = ANY, tag: int = ANY, context: int = 0) -> Message | None:
        """Take a message that fits out of the queue, or return None after a poll step."""
        return self._probe("improbe", source, tag, context, take=True, wait=False)

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

    def cancel(self, pending: Pending) -> None:
        """Withdraw a receive that nothing has met yet; other operations go on."""
        self.host.post(Cancel(self.number, self._begin(), CANCEL, pending.number), None)

    def start(self, collective: Collective) -> Pending:
        """Start a collective call; it is done when this rank's own part is."""
        pending = Pending(self._begin(), collective.op, ANY, ANY, collective.context)
        real = self.host.keep_call(self.number, pending.number, collective)
        self.host.post(
            Join(
                self.number,
                pending.number,
                JOIN,
                collective.context,
                collective.group,
                collective.op,
                collective.agree,
                collective.maker,
                collective.part,
                collective.itemsize,
                real,
            ),
            pending,
        )
        return pending

    def exchange(
        self, context: int, group: tuple[int, ...], value: Any, call: str = "exchange"
    ) -> list[Any]:
        """Give every member's value to every member, at no virtual time.

        Each rank gets copies of its own: the values are pickled.
        """
        pending = Pending(self._begin(), call, ANY, ANY, context)
        part = pickle.dumps(value)
        self.host.count_call(self.number, context)
        head = self.number, pending.number, JOIN
        self.host.post(Join(*head, context, group, call, (), None, part, 0, False), pending)
        self._running += 1
        self._block([pending], "all")
        return [pickle.loads(part) for part in pending.data]

    def begin(self, call: str, peer: int, context: int) -> Pending:
        """Begin a call that another module posts: return the operation with its number."""
        return Pending(self._begin(), call, peer, ANY, context)

    def pause(self, *, again: bool = False) -> None:
        """Let time pass until something happens to this rank, a poll step at the most.

        `again` says that what ended since the last time was no success.
        """
        self._begin()
        self._fresh = self._fresh and not again
        self._poll("pause", [])

    def abort(self, status: int, reason: str) -> NoReturn:
        """End the world with a status, and with the reason as the report if that is 0."""
        failure = "" if status else reason
        self.host.post(Leave(self.number, self._begin(), LEAVE, status, failure), None)
        self._switch("abort", ())
        raise UbnetError(f"rank {self.number} went on after it had ended the world: {reason}")

    def _probe(
        self, call: str, source: int, tag: int, context: int, *, take: bool, wait: bool
    ) -> Message | None:
        pending = Pending(self._begin(), call, source, tag, context)
        head = self.number, pending.number, PROBE
        self.host.post(Probe(*head, source, tag, context, take, wait, self._fresh), pending)
        self._running += 1
        self._block([pending], "all")
        self._fresh = wait or pending.data is not None
        if pending.data is None:
            return None
        return Message(Envelope(pending.source, pending.tag, pending.nbytes), pending.data)

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
