"""Questions about messages: the probes, whose names in small letters mean the same."""

from typing import Literal

from .communicator import CommHandle
from .constants import ANY_SOURCE, ANY_TAG
from .matched import Message, see
from .status import Status


class Probes(CommHandle):
    """The probes of a communicator."""

    __slots__ = ()

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

    probe = Probe
    iprobe = Iprobe
    mprobe = Mprobe
    improbe = Improbe
