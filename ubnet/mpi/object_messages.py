"""Messages of objects: the methods in small letters that pass Python objects from rank to rank.

Objects are pickled even where the receiver shares the process: it never sees the sender's later
changes, and what cannot be pickled fails in one process as it fails in many.
"""

import warnings
from typing import Any

from ubnet.rank import Rank

from .communicator import CommHandle, Communicator, check_tag
from .constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from .operation import Operation, Start, run, together
from .pickling import load, pickle
from .request import Request
from .status import Status


class ObjectMessages(CommHandle):
    """Messages that are Python objects."""

    __slots__ = ()

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object."""
        run(sending(self._here, obj, dest, tag, "standard"))

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object and go on at once."""
        run(sending(self._here, obj, dest, tag, "buffered"))

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object and wait until its receive has begun."""
        run(sending(self._here, obj, dest, tag, "synchronous"))

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send an object."""
        return Request._begun(sending(self._here, obj, dest, tag, "standard"))

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send an object from a copy."""
        return Request._begun(sending(self._here, obj, dest, tag, "buffered"))

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send an object; it is done when its receive has begun."""
        return Request._begun(sending(self._here, obj, dest, tag, "synchronous"))

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
        return run(receiving(self._here, buf, source, tag), status)

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Start to receive an object."""
        return Request._begun(receiving(self._here, buf, source, tag))

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
        both = together(
            sending(here, sendobj, dest, sendtag, "standard"),
            receiving(here, recvbuf, source, recvtag),
        )
        return run(both, status)


def sending(here: Communicator, obj: Any, dest: int, tag: int, mode: str) -> Start:
    """Return what starts to send an object; it is pickled and arguments are checked now."""
    data = b"" if dest == PROC_NULL else pickle.dumps(obj)
    world = here.world(dest)
    check_tag(tag)
    if world == PROC_NULL:
        return lambda rank: Operation()
    return lambda rank: Operation((rank.isend(world, tag, here.context, data, mode),))


def receiving(here: Communicator, buf: Any, source: int, tag: int) -> Start:
    """Return what starts to receive an object; `buf` bounds its bytes, None does not."""
    world = here.world(source, ANY_SOURCE)
    check_tag(tag, ANY_TAG)
    if world == PROC_NULL:
        return lambda rank: Operation(receives=True)
    if buf is None:
        return lambda rank: _receive_any(rank, here, world, tag)
    room = memoryview(bytearray(buf) if isinstance(buf, int) else buf).cast("B")

    def start(rank: Rank) -> Operation:
        pending = rank.irecv(world, tag, here.context, room)
        return Operation.receiving(pending, here, lambda: load(room[: pending.nbytes]))

    return start


def _receive_any(rank: Rank, here: Communicator, world: int, tag: int) -> Operation:
    pending = rank.irecv(world, tag, here.context)
    return Operation.receiving(pending, here, lambda: load(pending.data))
