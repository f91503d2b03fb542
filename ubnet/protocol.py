"""How a message travels: eager into the receiver's mailbox, or by rendezvous.

Up to the eager bound the sender writes its bytes into the receiver's mailbox and is done when the
last byte has left. Above it a 64-byte request travels first; once a receive has met it the
receiver reads the bytes (or grants, and the sender writes them). A synchronous send always meets
its receive before it is done.
"""

from collections.abc import Callable, Sequence

from ubnet.mailbox import Letter, Mailbox
from ubnet.message import Completion, Post, Probe, Receive, Send
from ubnet.network import Event, Network
from ubnet.passages import Passages
from ubnet.transport import WRITE

EAGER_BYTES = 64 * 1024
"""Assumed: the bound of eager sends, an option of a world."""

CONTROL_BYTES = 64
"""Assumed: the size of a rendezvous request and of a grant."""

MANY_POSTS = 16
"""From so many posts of an instant on it is worth to look for messages that start together."""

Complete = Callable[[int, Completion], None]


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
    eager_bytes : int
        The largest message that is sent eagerly.
    rendezvous : {"read", "write"}
        Who moves the bytes of a larger one.
    complete : callable
        ``complete(rank, completion)`` ends an operation.
    stir : callable
        ``stir(rank)`` is told that a message has reached a rank.
    """

    def __init__(
        self,
        network: Network,
        passages: Passages,
        mailbox: Mailbox,
        endpoints: Sequence[int],
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
        self._eager_bytes = eager_bytes
        self._rendezvous = rendezvous
        self._complete = complete
        self._stir = stir

    def foresee(self, posts: Sequence[Post]) -> None:
        """Prepare the passages of many messages that start together."""
        if len(posts) > MANY_POSTS:
            ends = self._endpoints
            sends = [post for post in posts if type(post) is Send]
            self._passages.prepare(
                (ends[send.rank], ends[send.dest], nbytes, op)
                for send in sends
                for nbytes, op in self._transfers(send)
            )

    def _transfers(self, send: Send) -> list[tuple[int, str]]:
        """Return the bytes and the direction of all that goes from sender to receiver."""
        if self._is_eager(send):
            return [(send.nbytes, WRITE)]
        return [(CONTROL_BYTES, WRITE), (send.nbytes, self._rendezvous)]

    def _is_eager(self, send: Send) -> bool:
        return send.nbytes <= self._eager_bytes and send.mode != "synchronous"

    def send(self, send: Send) -> None:
        """Start a message."""
        eager = self._is_eager(send)
        letter = self._mailbox.write_letter(send, eager)
        if send.mode == "buffered":
            self._sent(letter)
        arrives = Event(send.rank, send.dest, send.number, 2, lambda: self._arrived(letter))
        if eager:
            self._write(letter, send.nbytes, arrives, "message", sent=send.mode != "buffered")
        else:
            self._write(letter, CONTROL_BYTES, arrives, "request", sent=False)

    def receive(self, receive: Receive) -> None:
        """Post a receive; a message that waits for it goes on at once."""
        letter = self._mailbox.receive(receive)
        if letter is not None:
            self._matched(letter, receive)

    def probe(self, probe: Probe, *, stay: bool) -> bool:
        """Answer a probe if a message waits; say whether one did."""
        letter = self._mailbox.probe(probe, stay=stay)
        if letter is not None:
            self._seen(probe, letter)
        return letter is not None

    def _arrived(self, letter: Letter) -> None:
        self._stir(letter.send.dest)
        for visible in self._mailbox.arrive(letter):
            receive, probes = self._mailbox.deliver(visible)
            for probe in probes:
                self._seen(probe, visible)
            if receive is not None:
                self._matched(visible, receive)

    def _matched(self, letter: Letter, receive: Receive) -> None:
        send = letter.send
        if letter.eager:
            self._received(letter, receive)
        elif self._rendezvous == "read":
            src, dst = self._endpoints[send.rank], self._endpoints[send.dest]
            event = self._event(letter, 3, lambda: self._moved(letter, receive))
            self._network.read(src, dst, send.nbytes, event, "data")
        else:
            src, dst = self._endpoints[send.dest], self._endpoints[send.rank]
            granted = self._event(letter, 2, lambda: self._granted(letter, receive))
            self._network.write(src, dst, CONTROL_BYTES, None, granted, "grant")

    def _granted(self, letter: Letter, receive: Receive) -> None:
        send = letter.send
        arrives = self._event(letter, 2, lambda: self._received(letter, receive))
        self._write(letter, send.nbytes, arrives, "data", sent=send.mode != "buffered")

    def _moved(self, letter: Letter, receive: Receive) -> None:
        self._received(letter, receive)
        if letter.send.mode != "buffered":
            self._sent(letter)

    def _write(self, letter: Letter, nbytes: int, arrives: Event, what: str, *, sent: bool) -> None:
        """Write from the sender to the receiver; `sent`: the send has ended when it has left."""
        src, number, dst = letter.send[:3]
        leaves = Event(src, dst, number, 1, lambda: self._sent(letter)) if sent else None
        ends = self._endpoints
        self._network.write(ends[src], ends[dst], nbytes, leaves, arrives, what)

    def _event(self, letter: Letter, order: int, handle: Callable[[], None]) -> Event:
        send = letter.send
        return Event(send.rank, send.dest, send.number, order, handle)

    def _sent(self, letter: Letter) -> None:
        send = letter.send
        done = Completion(send.number, send.rank, send.tag, send.nbytes, None, -1, "sent")
        self._complete(send.rank, done)

    def _received(self, letter: Letter, receive: Receive) -> None:
        send = letter.send
        fits = receive.room < 0 or send.nbytes <= receive.room
        outcome = "received" if fits else "truncated"
        done = Completion(
            receive.number, send.rank, send.tag, send.nbytes, letter.key, send.wire, outcome
        )
        self._complete(receive.rank, done)

    def _seen(self, probe: Probe, letter: Letter) -> None:
        send = letter.send
        done = Completion(probe.number, send.rank, send.tag, send.nbytes, letter.key, -1, "found")
        self._complete(probe.rank, done)
