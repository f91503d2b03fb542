"""Matched messages: what a probe has taken from the queue, for one receive alone."""

from typing import Any

from ubnet.message import Envelope
from ubnet.message import Message as Taken
from ubnet.rank import current

from .buffers import read_spec
from .communicator import CommHandle, Communicator, check_tag
from .constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from .exception import ERR_REQUEST
from .exception import Exception as MPIException
from .handle import Handle
from .operation import Operation, block
from .pickling import load
from .request import Request
from .status import Status

Match = tuple[Communicator | None, Taken | None]
"""A message and the communicator it was found on; nothing of both if it is from PROC_NULL."""

FROM_NOBODY: Match = (None, None)


class Message(Handle):
    """A message that a probe has taken from the queue."""

    __slots__ = ()

    @classmethod
    def Probe(
        cls,
        comm: CommHandle,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> "Message":
        """Wait until a message is there, and take it."""
        taken = take(comm._here, source, tag, status, wait=True)
        assert taken is not None
        return cls._of(taken)

    @classmethod
    def Iprobe(
        cls,
        comm: CommHandle,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> "Message | None":
        """Take a message if one is there; if not, return None, and time passes."""
        taken = take(comm._here, source, tag, status, wait=False)
        return None if taken is None else cls._of(taken)

    probe = Probe
    iprobe = Iprobe

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        """Receive the message into a buffer."""
        operation = self._receive(buf)
        block([operation], "all")
        operation.end(status)

    def Irecv(self, buf: Any) -> Request:
        """Start to receive the message into a buffer."""
        return Request._of(self._receive(buf))

    def recv(self, status: Status | None = None) -> Any:
        """Receive the message as an object."""
        operation = self._receive_object()
        block([operation], "all")
        return operation.end(status)

    def irecv(self) -> Request:
        """Start to receive the message as an object."""
        return Request._of(self._receive_object())

    def _receive(self, buf: Any) -> Operation:
        nobody = self._ref is FROM_NOBODY
        spec = read_spec(buf, writable=True, rank=PROC_NULL if nobody else ANY_SOURCE)
        here, taken = self._take()
        if here is None or taken is None:
            return Operation(receives=True)
        into, unpack = spec.land()
        pending = current().imrecv(taken, into)
        finish = None if unpack is None else lambda: unpack(pending.nbytes)
        return Operation.receiving(pending, here, finish)

    def _receive_object(self) -> Operation:
        here, taken = self._take()
        if here is None or taken is None:
            return Operation(receives=True)
        pending = current().imrecv(taken)
        return Operation.receiving(pending, here, lambda: load(pending.data))

    def _take(self) -> Match:
        if self._ref is None:
            raise MPIException(ERR_REQUEST, "the message is MESSAGE_NULL")
        ref: Match = self._ref
        self._let_go()
        return ref


Message._kind = Message


def see(here: Communicator, source: int, tag: int, status: Status | None, *, wait: bool) -> bool:
    """Look for a message and tell its status; say whether there is one."""
    world = here.world(source, ANY_SOURCE)
    check_tag(tag, ANY_TAG)
    if world == PROC_NULL:
        _tell_nobody(status)
        return True
    look = current().probe if wait else current().iprobe
    envelope = look(world, tag, here.context)
    if envelope is not None:
        _tell(here, envelope, status)
    return envelope is not None


def take(
    here: Communicator, source: int, tag: int, status: Status | None, *, wait: bool
) -> Match | None:
    """Take a message from the queue and tell its status; None if there is none."""
    world = here.world(source, ANY_SOURCE)
    check_tag(tag, ANY_TAG)
    if world == PROC_NULL:
        _tell_nobody(status)
        return FROM_NOBODY
    look = current().mprobe if wait else current().improbe
    taken: Taken | None = look(world, tag, here.context)
    if taken is None:
        return None
    _tell(here, taken.envelope, status)
    return here, taken


def _tell(here: Communicator, envelope: Envelope, status: Status | None) -> None:
    if status is not None:
        status._set(here.source(envelope.source), envelope.tag, envelope.nbytes)


def _tell_nobody(status: Status | None) -> None:
    if status is not None:
        status._set(PROC_NULL, ANY_TAG, 0)


MESSAGE_NULL = Message._of(None, "MESSAGE_NULL")
MESSAGE_NO_PROC = Message._of(FROM_NOBODY, "MESSAGE_NO_PROC")
