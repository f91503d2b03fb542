"""Requests of the program's own, which are not served."""

from typing import Self

from .request import Request
from .third_tier import absent


class Grequest(Request):
    """A request whose end the program tells."""

    __slots__ = ()

    def __new__(cls, request: Request | None = None) -> Self:
        """Make a handle that stands for nothing."""
        if request is not None and not isinstance(request, Grequest):
            raise TypeError(f"expecting Grequest, got {type(request).__name__}")
        return super().__new__(cls, request)

    Start, Complete = absent("Grequest.Start"), absent("Grequest.Complete")
    complete = Complete
