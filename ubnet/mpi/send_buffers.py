"""Room for buffered sends: they find their own here, so what a program gives is only kept."""

from typing import Any

from .communicator import CommHandle
from .kept import kept
from .memory import buffer
from .operation import Operation
from .request import Request


class BufferAutomaticType(int):
    """The type of BUFFER_AUTOMATIC."""

    def __repr__(self) -> str:
        return "BUFFER_AUTOMATIC"


BUFFER_AUTOMATIC = BufferAutomaticType(0)
"""In the place of room for buffered sends: find it."""


def Attach_buffer(buf: Any) -> None:
    """Give room for buffered sends."""
    _attach("process", buf)


def Detach_buffer() -> Any:
    """Return what `Attach_buffer` was given, when all is sent."""
    return _detach("process")


def Flush_buffer() -> None:
    """Wait until all buffered sends have left the buffer: they have, as each is a copy."""


def Iflush_buffer() -> Request:
    """Return a request that ends when all buffered sends have left the buffer."""
    return Request._of(Operation())


class SendBuffers(CommHandle):
    """Room for the buffered sends of a communicator."""

    __slots__ = ()

    def Attach_buffer(self, buf: Any) -> None:
        """Give room for buffered sends."""
        _attach(self._here.context, buf)

    def Detach_buffer(self) -> Any:
        """Return what `Attach_buffer` was given, when all is sent."""
        return _detach(self._here.context)

    def Flush_buffer(self) -> None:
        """Wait until all buffered sends have left the buffer."""
        _ = self._here

    def Iflush_buffer(self) -> Request:
        """Return a request that ends when all buffered sends have left the buffer."""
        _ = self._here
        return Iflush_buffer()


def _attach(whose: int | str, buf: Any) -> None:
    automatic = buf is None or isinstance(buf, BufferAutomaticType)
    kept("send buffers")[whose] = BUFFER_AUTOMATIC if automatic else buffer.frombuffer(buf)


def _detach(whose: int | str) -> Any:
    return kept("send buffers").pop(whose, None)
