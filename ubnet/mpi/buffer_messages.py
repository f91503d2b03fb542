"""Messages of buffers: the methods in capital letters that pass elements from rank to rank."""

from collections.abc import Callable
from typing import Any, Literal

from ubnet.rank import current

from .buffers import read_spec
from .communicator import CommHandle, Communicator, check_tag
from .constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from .matched import Message, see
from .operation import Operation, block
from .request import Prequest, Request
from .status import Status


class BufferMessages(CommHandle):
    """Messages whose elements stand in buffers; `ubnet.mpi.buffers` says how one is given."""

    __slots__ = ()

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message."""
        _run(send(self._here, buf, dest, tag, "standard"))

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message and go on at once."""
        _run(send(self._here, buf, dest, tag, "buffered"))

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message and wait until its receive has begun."""
        _run(send(self._here, buf, dest, tag, "synchronous"))

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a message whose receive is there already."""
        _run(send(self._here, buf, dest, tag, "ready"))

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a message."""
        return Request._of(send(self._here, buf, dest, tag, "standard"))

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a message from a copy."""
        return Request._of(send(self._here, buf, dest, tag, "buffered"))

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a message; it is done when its receive has begun."""
        return Request._of(send(self._here, buf, dest, tag, "synchronous"))

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a message whose receive is there already."""
        return Request._of(send(self._here, buf, dest, tag, "ready"))

    def Recv(
        self,
        buf: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Receive a message."""
        _run(receive(self._here, buf, source, tag), status)

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Start to receive a message."""
        return Request._of(receive(self._here, buf, source, tag))

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
        _run(self._both(sendbuf, dest, sendtag, recvbuf, source, recvtag), status)

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
        return Request._of(self._both(sendbuf, dest, sendtag, recvbuf, source, recvtag))

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
        _run(self._replace(buf, dest, sendtag, source, recvtag), status)

    def Isendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Start to send a message and to receive another into the same buffer."""
        return Request._of(self._replace(buf, dest, sendtag, source, recvtag))

    def Probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Literal[True]:
        """Wait until a message is there."""
        see(self._here, source, tag, status, wait=True)
        return True

    def Iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> bool:
        """Return whether a message is there; if not, time passes."""
        return see(self._here, source, tag, status, wait=False)

    def Mprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message:
        """Wait until a message is there, and take it."""
        return Message.Probe(self, source, tag, status)

    def Improbe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        """Take a message if one is there; if not, return None, and time passes."""
        return Message.Iprobe(self, source, tag, status)

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a send that can be started again and again."""
        return self._persistent_send(buf, dest, tag, "standard")

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a buffered send that can be started again and again."""
        return self._persistent_send(buf, dest, tag, "buffered")

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a synchronous send that can be started again and again."""
        return self._persistent_send(buf, dest, tag, "synchronous")

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a ready send that can be started again and again."""
        return self._persistent_send(buf, dest, tag, "ready")

    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """Make a receive that can be started again and again."""
        here = self._here
        read_spec(buf, writable=True, rank=source)
        here.world(source, any_source=True), check_tag(tag, any_tag=True)
        return persistent(lambda: receive(here, buf, source, tag), receives=True)

    def _persistent_send(self, buf: Any, dest: int, tag: int, mode: str) -> Prequest:
        here = self._here
        read_spec(buf, writable=False, rank=dest)
        here.world(dest), check_tag(tag)
        return persistent(lambda: send(here, buf, dest, tag, mode))

    def _both(
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> Operation:
        here = self._here
        one = receive(here, recvbuf, source, recvtag)
        other = send(here, sendbuf, dest, sendtag, "standard")
        one.pendings += other.pendings
        return one

    def _replace(self, buf: Any, dest: int, sendtag: int, source: int, recvtag: int) -> Operation:
        sent = bytes(read_spec(buf, writable=True).wire())
        return self._both(sent, dest, sendtag, buf, source, recvtag)


def send(here: Communicator, buf: Any, dest: int, tag: int, mode: str) -> Operation:
    """Start to send what a buffer holds."""
    spec = read_spec(buf, writable=False, rank=dest)
    world = here.world(dest)
    check_tag(tag)
    if world == PROC_NULL:
        return Operation()
    return Operation([current().isend(world, tag, here.context, spec.wire(), mode)])


def receive(here: Communicator, buf: Any, source: int, tag: int) -> Operation:
    """Start to receive into a buffer."""
    spec = read_spec(buf, writable=True, rank=source)
    world = here.world(source, any_source=True)
    check_tag(tag, any_tag=True)
    if world == PROC_NULL:
        return Operation(receives=True)
    into, unpack = spec.land()
    pending = current().irecv(world, tag, here.context, into)
    finish = None if unpack is None else lambda: unpack(pending.nbytes)
    return Operation.receiving(pending, here, finish)


def persistent(begin: Callable[[], Operation], *, receives: bool = False) -> Prequest:
    """Return a request of an operation that `begin` starts."""
    return Prequest._of(Operation(receives=receives, again=begin, active=False))


def _run(operation: Operation, status: Status | None = None) -> None:
    block([operation], "all")
    operation.end(status)
