"""A rank: the calls that its program makes, in world rank numbers.

Each rank is a greenlet. A call posts what it wants and, if it has to wait, does as
`ubnet.rank_waits` says. `ubnet.mpi` gives these calls mpi4py's names.
"""

import pickle
from typing import Any, NoReturn

from greenlet import getcurrent, greenlet

from ubnet.errors import OptionError, UbnetError
from ubnet.message import (
    ANY,
    ANY_SIZE,
    CANCEL,
    JOIN,
    LEAVE,
    PROBE,
    RECEIVE,
    SEND,
    Buffer,
    Cancel,
    Collective,
    Envelope,
    Join,
    Leave,
    Message,
    Pending,
    Phantom,
    Probe,
    landing,
)
from ubnet.rank_waits import WaitingRank

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


class Rank(WaitingRank):
    """One rank of a world.

    Parameters
    ----------
    number : int
        Its number in the world.
    host : Host
        What runs it.
    """

    def __repr__(self) -> str:
        return f"<Rank {self.number} of {self.host.size}>"

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
        nbytes, wire = host.payloads.keep(self.number, number, dest, data, mode)
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
