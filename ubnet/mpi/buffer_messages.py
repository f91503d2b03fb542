"""Messages of buffers: the methods in capital letters that pass elements from rank to rank."""

from typing import Any

from ubnet.message import Pending
from ubnet.rank import Rank, current

from .buffers import read_spec
from .communicator import CommHandle, Communicator, check_tag
from .constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from .operation import Operation, Start, end, run, together
from .prequest import Prequest
from .request import Request
from .spec import Spec
from .status import Status


class BufferMessages(CommHandle):
    """Messages whose elements stand in buffers; `ubnet.mpi.buffers` says how one is given."""

    __slots__ = ()

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message."""
        send(self._here, buf, dest, tag, "standard")

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message and go on at once."""
        send(self._here, buf, dest, tag, "buffered")

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message and wait until its receive has begun."""
        send(self._here, buf, dest, tag, "synchronous")

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message whose receive is there already."""
        send(self._here, buf, dest, tag, "ready")

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a message."""
        return Request._begun(sending(self._here, buf, dest, tag, "standard"))

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a message from a copy."""
        return Request._begun(sending(self._here, buf, dest, tag, "buffered"))

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a message; it is done when its receive has begun."""
        return Request._begun(sending(self._here, buf, dest, tag, "synchronous"))

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a message whose receive is there already."""
        return Request._begun(sending(self._here, buf, dest, tag, "ready"))

    def Recv(
        self,
        buf: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Receive a message."""
        here = self._here
        world, spec = _incoming(here, buf, source, tag)
        rank = current()
        end(rank, _receive(rank, here, world, tag, spec), status)

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Start to receive a message."""
        return Request._begun(receiving(self._here, buf, source, tag))

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send a message and receive another."""
        run(self._both(sendbuf, dest, sendtag, recvbuf, source, recvtag), status)

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Start to send a message and to receive another."""
        return Request._begun(self._both(sendbuf, dest, sendtag, recvbuf, source, recvtag))

    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send a message and receive another into the same buffer."""
        run(self._replace(buf, dest, sendtag, source, recvtag), status)

    def Isendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Start to send a message and to receive another into the same buffer."""
        return Request._begun(self._replace(buf, dest, sendtag, source, recvtag))

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a send that can be started again and again."""
        return persistent(sending(self._here, buf, dest, tag, "standard"))

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a buffered send that can be started again and again."""
        return persistent(sending(self._here, buf, dest, tag, "buffered"))

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a synchronous send that can be started again and again."""
        return persistent(sending(self._here, buf, dest, tag, "synchronous"))

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a ready send that can be started again and again."""
        return persistent(sending(self._here, buf, dest, tag, "ready"))

    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """Make a receive that can be started again and again."""
        return persistent(receiving(self._here, buf, source, tag), receives=True)

    def _both(
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> Start:
        here = self._here
        return together(
            sending(here, sendbuf, dest, sendtag, "standard"),
            receiving(here, recvbuf, source, recvtag),
        )

    def _replace(self, buf: Any, dest: int, sendtag: int, source: int, recvtag: int) -> Start:
        nobody = PROC_NULL if dest == source == PROC_NULL else 0
        sent = bytes(read_spec(buf, writable=True, rank=nobody).wire())
        return self._both(sent, dest, sendtag, buf, source, recvtag)


def send(here: Communicator, buf: Any, dest: int, tag: int, mode: str) -> None:
    """Send the elements of a buffer, and wait until that has ended."""
    world, spec = _outgoing(here, buf, dest, tag)
    rank = current()
    rank.finish(_send(rank, here, world, tag, spec, mode))


def sending(here: Communicator, buf: Any, dest: int, tag: int, mode: str) -> Start:
    """Return what starts to send the elements of a buffer; arguments are checked now."""
    world, spec = _outgoing(here, buf, dest, tag)
    return lambda rank: Operation(_send(rank, here, world, tag, spec, mode))


def receiving(here: Communicator, buf: Any, source: int, tag: int) -> Start:
    """Return what starts to receive into a buffer; arguments are checked now."""
    world, spec = _incoming(here, buf, source, tag)
    return lambda rank: _receive(rank, here, world, tag, spec)


def _outgoing(here: Communicator, buf: Any, dest: int, tag: int) -> tuple[int, Spec]:
    """Check what is to be sent: return the world rank that it goes to, and the elements."""
    spec = read_spec(buf, False, dest)
    world = here.world(dest)
    check_tag(tag)
    return world, spec


def _send(
    rank: Rank, here: Communicator, world: int, tag: int, spec: Spec, mode: str
) -> tuple[Pending, ...]:
    if world == PROC_NULL:
        return ()
    wire = spec.memory if spec.dense else spec.wire()
    return (rank.isend(world, tag, here.context, wire, mode),)


def _incoming(here: Communicator, buf: Any, source: int, tag: int) -> tuple[int, Spec]:
    """Check what is to be received: return the world rank that it comes from, and its place."""
    spec = read_spec(buf, True, source)
    world = here.world(source, ANY_SOURCE)
    check_tag(tag, ANY_TAG)
    return world, spec


def _receive(rank: Rank, here: Communicator, world: int, tag: int, spec: Spec) -> Operation:
    if world == PROC_NULL:
        return Operation(receives=True)
    if spec.dense:
        pending = rank.irecv(world, tag, here.context, spec.memory)
        return Operation((pending,), True, pending, here)
    into, unpack = spec.land()
    pending = rank.irecv(world, tag, here.context, into)
    finish = None if unpack is None else lambda: unpack(pending.nbytes)
    return Operation.receiving(pending, here, finish)


def persistent(start: Start, *, receives: bool = False) -> Prequest:
    """Return a request of an operation that can be started again and again."""
    return Prequest._of(Operation(receives=receives, again=start, active=False))
