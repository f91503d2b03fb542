"""Persistent requests: handles of operations that can be started again and again."""

from collections.abc import Sequence

from .exception import ERR_REQUEST
from .exception import Exception as MPIException
from .request import Request
from .third_tier import absent


class Prequest(Request):
    """A handle of an operation that can be started again and again."""

    __slots__ = ()

    Pready, Pready_range = absent("Prequest.Pready"), absent("Prequest.Pready_range")
    Pready_list, Parrived = absent("Prequest.Pready_list"), absent("Prequest.Parrived")

    def Start(self) -> None:
        """Start the operation."""
        if self._ref is None:
            raise MPIException(ERR_REQUEST, "the request is REQUEST_NULL")
        self._ref.start()

    @classmethod
    def Startall(cls, requests: Sequence["Prequest"]) -> None:
        """Start all operations."""
        for request in requests:
            cls.Start(request)  # REQUEST_NULL has no Start of its own
