"""How a transfer stands, as a name that is also the number which Mooncake's callers compare."""

from enum import IntEnum


class Status(IntEnum):
    """How a transfer stands.

    The numbers 1, 0, -1 and -2 are Mooncake's; `CANCELLED` is ubnet's own.

    Examples
    --------
    >>> Status.TIMED_OUT == -2, str(Status.TIMED_OUT), Status.TIMED_OUT.nixl
    (True, 'timed out', 'ERR')
    """

    RUNNING = 0
    DONE = 1
    FAILED = -1
    TIMED_OUT = -2
    CANCELLED = -3

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")

    @property
    def nixl(self) -> str:
        """The word that NIXL uses: ``DONE``, ``PROC`` or ``ERR``."""
        return {Status.RUNNING: "PROC", Status.DONE: "DONE"}.get(self, "ERR")
