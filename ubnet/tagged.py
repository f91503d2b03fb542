"""Output of many ranks in one stream: each line begins with its rank."""

import io
from typing import TextIO

from ubnet.errors import UbnetError
from ubnet.rank import current


class TaggedStream(io.TextIOBase):
    """A text stream that puts ``[rank] `` in front of every line.

    A line is written when it is complete, so that the ranks' lines do not mix.

    Parameters
    ----------
    stream : text file
        Where the lines go.

    Examples
    --------
    >>> import sys
    >>> print("no rank", file=TaggedStream(sys.stdout))
    no rank
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun: dict[int, str] = {}

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return self._stream.encoding

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def isatty(self) -> bool:
        """Return whether the stream below is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file number of the stream below."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write what is complete, keep the rest."""
        try:
            rank = current().number
        except UbnetError:
            return self._stream.write(text)
        *lines, rest = (self._begun.pop(rank, "") + text).split("\n")
        for line in lines:
            self._stream.write(f"[{rank}] {line}\n")
        if rest:
            self._begun[rank] = rest
        return len(text)

    def flush(self) -> None:
        """Flush the stream below."""
        self._stream.flush()

    def finish(self) -> None:
        """Write the lines that nobody has completed."""
        for rank in sorted(self._begun):
            self._stream.write(f"[{rank}] {self._begun[rank]}\n")
        self._begun.clear()
        self._stream.flush()
