"""Messages of objects: the methods in small letters that pass Python objects from rank to rank.

Objects are pickled even where the receiver shares the process: it never sees the sender's later
changes, and what cannot be pickled fails in one process as it fails in many.
"""

import warnings
from typing import Any, Literal

from ubnet.rank import current

from .communicator import CommHandle, Communicator, check_tag
from .constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from .matched import Message, see
from .operation import Operation, block
from .pickling import load, pickle
from .request import Request
from .status import Status


class ObjectMessages(CommHandle):
    """Messages that are Python objects."""

    __slots__ = ()

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object."""
        block([send(self._here, obj, dest, tag, "standard")], "all")

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object and go on at once."""
        block([send(self._here, obj, dest, tag, "buffered")], "all")

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object and wait until its receive has begun."""
        block([send(self._here, obj, dest, tag, "synchronous")], "all")

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send an object."""
        return Request._of(send(self._here, obj, dest, tag, "standard"))

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send an object from a copy."""
        return Request._of(send(self._here, obj, dest, tag, "buffered"))

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send an object; it is done when its receive has begun."""
        return Request._of(send(self._here, obj, dest, tag, "synchronous"))

    def recv(
        self,
        buf: Any = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Receive an object.

        Parameters
        ----------
        buf : buffer or int, optional
            Room for its bytes; without it there is room for any number.
        source, tag : int
            From whom and with which tag.
        status : Status, optional
            Told what is known of the message.
        """
        if buf is not None:
            warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=2)
        operation = receive(self._here, buf, source, tag)
        block([operation], "all")
        return operation.end(status)

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Start to receive an object."""
        return Request._of(receive(self._here, buf, source, tag))

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Send an object and receive another."""
        here = self._here
        one = receive(here, recvbuf, source, recvtag)
        one.pendings += send(here, sendobj, dest, sendtag, "standard").pendings
        block([one], "all")
        return one.end(status)

    def probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Literal[True]:
        """Wait until a message is there."""
        see(self._here, source, tag, status, wait=True)
        return True

    def iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> bool:
        """Return whether a message is there; if not, time passes."""
        return see(self._here, source, tag, status, wait=False)

    def mprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message:
        """Wait until a message is there, and take it."""
        return Message.Probe(self, source, tag, status)

    def improbe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        """Take a message if one is there; if not, return None, and time passes."""
        return Message.Iprobe(self, source, tag, status)


def send(here: Communicator, obj: Any, dest: int, tag: int, mode: str) -> Operation:
    """Start to send an object."""
    data = None if dest == PROC_NULL else pickle.dumps(obj)
    world = here.world(dest)
    check_tag(tag)
    if data is None:
        return Operation()
    return Operation([current().isend(world, tag, here.context, data, mode)])


def receive(here: Communicator, buf: Any, source: int, tag: int) -> Operation:
    """Start to receive an object; `buf` bounds its bytes, None does not."""
    world = here.world(source, any_source=True)
    check_tag(tag, any_tag=True)
    if world == PROC_NULL:
        return Operation(receives=True)
    if buf is None:
        pending = current().irecv(world, tag, here.context)
        return Operation.receiving(pending, here, lambda: load(pending.data))
    room = bytearray(buf) if isinstance(buf, int) else memoryview(buf).cast("B")
    bounded = current().irecv(world, tag, here.context, room)
    return Operation.receiving(bounded, here, lambda: load(memoryview(room)[: bounded.nbytes]))
