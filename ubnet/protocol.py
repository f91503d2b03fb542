"""How a message travels: eager into the receiver's mailbox, or by rendezvous.

Up to the eager bound the sender writes its bytes into the receiver's mailbox and is done when the
last byte has left. Above it a 64-byte request travels first; once a receive has met it the
receiver reads the bytes (or grants, and the sender writes them). A synchronous send always meets
its receive before it is done.
"""

from collections.abc import Callable, Sequence
from typing import cast

from ubnet.eventlog import EventLog
from ubnet.mailbox import Letter, Mailbox
from ubnet.message import SEND, Completion, Post, Probe, Receive, Send
from ubnet.network import Network
from ubnet.passages import Passages
from ubnet.transport import WRITE

EAGER_BYTES = 64 * 1024
"""Assumed: the bound of eager sends, an option of a world."""

CONTROL_BYTES = 64
"""Assumed: the size of a rendezvous request and of a grant."""

MANY_POSTS = 16
"""From so many posts of an instant on it is worth to look for messages that start together."""

Met = tuple[Letter, Receive]
"""A message and the receive that takes it."""

Complete = Callable[[Completion], None]


class Protocol:
    """Moves the messages of a world through its network and mailbox.

    Parameters
    ----------
    network : Network
        Where bytes travel.
    passages : Passages
        What transfers take of the fabric.
    mailbox : Mailbox
        Where messages and receives meet.
    endpoints : sequence of int
        Endpoint of each rank.
    log : EventLog
        Where sends are written.
    eager_bytes : int
        The largest message that is sent eagerly.
    rendezvous : {"read", "write"}
        Who moves the bytes of a larger one.
    complete : callable
        ``complete(completion)`` ends an operation.
    stir : callable
        ``stir(rank)`` is told that a message has reached a rank.
    """

    def __init__(
        self,
        network: Network,
        passages: Passages,
        mailbox: Mailbox,
        endpoints: Sequence[int],
        log: EventLog,
        *,
        eager_bytes: int,
        rendezvous: str,
        complete: Complete,
        stir: Callable[[int], None],
    ) -> None:
        self._network = network
        self._passages = passages
        self._mailbox = mailbox
        self._endpoints = endpoints
        self._log = log
        self._eager_bytes = eager_bytes
        self._rendezvous = rendezvous
        self._complete = complete
        self._stir = stir

    def foresee(self, posts: Sequence[Post]) -> None:
        """Prepare the passages of many messages that start together."""
        ends = self._endpoints
        sends = [cast(Send, post) for post in posts if post[2] == SEND]
        self._passages.prepare(
            (ends[source], ends[dest], size, op)
            for source, _, _, dest, _, _, nbytes, mode, _ in sends
            for size, op in self._transfers(nbytes, mode)
        )

    def _transfers(self, nbytes: int, mode: str) -> list[tuple[int, str]]:
        """Return the bytes and the direction of all that goes from sender to receiver."""
        if nbytes <= self._eager_bytes and mode != "synchronous":
            return [(nbytes, WRITE)]
        return [(CONTROL_BYTES, WRITE), (nbytes, self._rendezvous)]

    def send(self, send: Send) -> None:
        """Start a message."""
        source, number, _, dest, tag, _, nbytes, mode, _ = send
        self._log.add(self._network.now_ps, "send", source, dest, tag, nbytes)
        eager = nbytes <= self._eager_bytes and mode != "synchronous"
        letter = self._mailbox.write_letter(send, eager)
        leaves = None
        if mode == "buffered":
            self._sent(letter)
        elif eager:
            leaves = source, dest, number, 1, self._sent, letter
        arrives = source, dest, number, 2, self._arrived, letter
        what = "message"
        if not eager:
            nbytes, what = CONTROL_BYTES, "request"
        ends = self._endpoints
        self._network.write(ends[source], ends[dest], nbytes, leaves, arrives, what)

    def receive(self, receive: Receive) -> None:
        """Post a receive; a message that waits for it goes on at once."""
        letter = self._mailbox.receive(receive)
        if letter is not None:
            self._matched((letter, receive))

    def probe(self, probe: Probe, *, stay: bool) -> bool:
        """Answer a probe if a message waits; say whether one did."""
        letter = self._mailbox.probe(probe, stay=stay)
        if letter is not None:
            self._seen(probe, letter)
        return letter is not None

    def _arrived(self, letter: Letter) -> None:
        self._stir(letter.dest)
        for visible in self._mailbox.arrive(letter):
            receive, probes = self._mailbox.deliver(visible)
            for probe in probes:
                self._seen(probe, visible)
            if receive is not None:
                self._matched((visible, receive))

    def _matched(self, met: Met) -> None:
        letter, _ = met
        if letter.eager:
            self._received(met)
            return
        source, dest, number, nbytes = letter.source, letter.dest, letter.number, letter.nbytes
        here, there = self._endpoints[source], self._endpoints[dest]
        if self._rendezvous == "read":
            event = source, dest, number, 3, self._moved, met
            self._network.read(here, there, nbytes, event, "data")
        else:
            granted = source, dest, number, 2, self._granted, met
            self._network.write(there, here, CONTROL_BYTES, None, granted, "grant")

    def _granted(self, met: Met) -> None:
        letter, _ = met
        source, dest, number = letter.source, letter.dest, letter.number
        leaves = None if letter.buffered else (source, dest, number, 1, self._sent, letter)
        arrives = source, dest, number, 2, self._received, met
        here, there = self._endpoints[source], self._endpoints[dest]
        self._network.write(here, there, letter.nbytes, leaves, arrives, "data")

    def _moved(self, met: Met) -> None:
        letter, _ = met
        self._received(met)
        if not letter.buffered:
            self._sent(letter)

    def _sent(self, letter: Letter) -> None:
        source = letter.source
        done = source, letter.number, source, letter.tag, letter.nbytes, None, -1, "sent"
        self._complete(done)

    def _received(self, met: Met) -> None:
        letter, (rank, number, _, _, _, _, room, _) = met
        source, nbytes = letter.source, letter.nbytes
        outcome = "received" if room < 0 or nbytes <= room else "truncated"
        key = source, letter.number
        self._complete((rank, number, source, letter.tag, nbytes, key, letter.wire, outcome))

    def _seen(self, probe: Probe, letter: Letter) -> None:
        source, tag, nbytes = letter.source, letter.tag, letter.nbytes
        self._complete((probe.rank, probe.number, source, tag, nbytes, letter.key, -1, "found"))
