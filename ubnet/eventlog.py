"""The log of what happened when: one line an event, and the digest of them all."""

import hashlib
from typing import IO

from ubnet.errors import OutputError

TAKEN_AT_ONCE = 1000
"""Lines that are hashed together: one by one costs more."""


class EventLog:
    """Collects event lines ``time_ps kind source destination tag bytes`` into a SHA-256.

    Parameters
    ----------
    file : text file, optional
        Where the lines are written as well.

    Examples
    --------
    >>> log = EventLog()
    >>> log.add(1000, "send", 0, 1, 7, 64)
    >>> log.digest()[:8]
    'e901a197'
    """

    def __init__(self, file: IO[str] | None = None) -> None:
        self._hash = hashlib.sha256()
        self._lines: list[str] = []
        self._file = file

    def add(
        self, time_ps: int, kind: str, source: int, destination: int, tag: int, nbytes: int
    ) -> None:
        """Add one event; ranks are world ranks, -1 where there is none.

        Raises
        ------
        OutputError
            If the line cannot be written.
        """
        line = f"{time_ps} {kind} {source} {destination} {tag} {nbytes}\n"
        self._lines.append(line)
        if len(self._lines) >= TAKEN_AT_ONCE:
            self._take_in()
        if self._file is not None:
            try:
                self._file.write(line)
            except OSError as error:
                raise OutputError(f"the events cannot be written: {error.strerror}") from error

    def digest(self) -> str:
        """Return the SHA-256 of all lines so far, in hexadecimal."""
        self._take_in()
        return self._hash.hexdigest()

    def _take_in(self) -> None:
        self._hash.update("".join(self._lines).encode())
        self._lines.clear()
