"""Operators under way, and DeepEP's events that stand for their ends."""

from collections.abc import Callable
from typing import Any

from ubnet.message import Pending
from ubnet.rank import current


class Call:
    """An operator that a rank has started: when it ends, what came is put where it belongs.

    Parameters
    ----------
    pending : Pending
        The operation under way.
    finish : callable
        Called once with the bytes that came.
    """

    def __init__(self, pending: Pending, finish: Callable[[Any], None]) -> None:
        self._pending = pending
        self._finish: Callable[[Any], None] | None = finish

    def wait(self) -> None:
        """Wait until it has ended; again: do nothing."""
        if self._finish is None:
            return
        current().wait([self._pending])
        finish, self._finish = self._finish, None
        finish(self._pending.data)
        self._pending.data = None


class EventOverlap:
    """The end of an operator in virtual time; without one it has always happened.

    Parameters
    ----------
    event : Call, optional
        What is waited for.

    Examples
    --------
    >>> EventOverlap().current_stream_wait()
    """

    def __init__(self, event: Call | None = None) -> None:
        self.event = event

    def current_stream_wait(self) -> None:
        """Wait for it; the arrays that the call returned are filled from then on."""
        if self.event is not None:
            self.event.wait()

    def __enter__(self) -> "EventOverlap":
        """Begin what overlaps with the operator."""
        return self

    def __exit__(self, *error: object) -> None:
        """Wait for the operator."""
        if error == (None, None, None):
            self.current_stream_wait()
