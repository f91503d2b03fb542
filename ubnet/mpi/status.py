"""A status: what is known of a message that was received or seen."""

from array import array
from collections.abc import Sequence
from typing import Self

from .constants import ANY_SOURCE, ANY_TAG, UNDEFINED
from .datatype import BYTE, Datatype
from .exception import SUCCESS
from .layout import Layout


class Status:
    """What is known of a message.

    Parameters
    ----------
    status : Status, optional
        One to copy.

    Examples
    --------
    >>> Status()
    Status(source=-1, tag=-1, error=0, count=0)
    """

    __slots__ = ("_nbytes", "_words")

    _nbytes: int
    _words: "array[int]"

    __hash__ = None  # type: ignore[assignment]  # as in mpi4py: it can change

    def __new__(cls, status: "Status | None" = None) -> Self:
        """Make a status; subclasses of a program may take other arguments in ``__init__``."""
        self = object.__new__(cls)
        # Source, tag, error class, cancelled: the memory that `tomemory` shows.
        self._words = array("i", (ANY_SOURCE, ANY_TAG, SUCCESS, 0))
        self._nbytes = 0
        if status is None:
            return self
        if not isinstance(status, Status):
            raise TypeError(f"expecting Status, got {type(status).__name__}")
        self.__setstate__(status.__getstate__())
        return self

    def __repr__(self) -> str:
        return (
            f"Status(source={self.source}, tag={self.tag}, error={self.error}, "
            f"count={self._nbytes})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return self.__getstate__() == other.__getstate__()

    def __getstate__(self) -> tuple[int, int, int, int, bool]:
        source, tag, error, cancelled = self._words
        return source, tag, error, self._nbytes, bool(cancelled)

    def __setstate__(self, state: tuple[int, int, int, int, bool]) -> None:
        source, tag, error, self._nbytes, cancelled = state
        self._words[:] = array("i", (source, tag, error, cancelled))

    def _set(self, source: int, tag: int, nbytes: int, cancelled: bool = False) -> None:
        """Say everything at once, as a call that was given a status does."""
        words = self._words
        words[0], words[1], words[2], words[3] = source, tag, SUCCESS, cancelled
        self._nbytes = nbytes

    def tomemory(self) -> memoryview:
        """Return the memory of source, tag and error as numbers that can be written."""
        return memoryview(self._words)

    def py2f(self) -> list[int]:
        """Return it as the numbers that Fortran would have."""
        high, low = divmod(self._nbytes, 1 << 31)
        return [*self._words, low, high]

    @classmethod
    def f2py(cls, arg: Sequence[int]) -> Self:
        """Return the status of Fortran's numbers."""
        made = cls()
        source, tag, error, cancelled, low, high = arg
        made.__setstate__((source, tag, error, low + (high << 31), bool(cancelled)))
        return made

    def Get_source(self) -> int:
        """Return the rank that the message came from."""
        return self._words[0]

    def Set_source(self, source: int) -> None:
        """Set the source."""
        self._words[0] = source

    def Get_tag(self) -> int:
        """Return the tag of the message."""
        return self._words[1]

    def Set_tag(self, tag: int) -> None:
        """Set the tag."""
        self._words[1] = tag

    def Get_error(self) -> int:
        """Return the error class of the receive."""
        return self._words[2]

    def Set_error(self, error: int) -> None:
        """Set the error class."""
        self._words[2] = error

    def Get_count(self, datatype: Datatype = BYTE) -> int:
        """Return how many elements the message holds; UNDEFINED if not a whole number."""
        return datatype._count_in(self._nbytes)

    def Get_elements(self, datatype: Datatype) -> int:
        """Return how many basic elements the message holds; UNDEFINED if not a whole number."""
        layout = datatype._layout
        if not layout.size:
            return 0 if not self._nbytes else UNDEFINED
        whole, rest = divmod(self._nbytes, layout.size)
        runs = [run for basic, n in layout.basics() for run in _simple(basic, n)]
        found = whole * sum(n for _, n in runs)
        for size, n in runs:
            taken = min(rest // size, n)
            found, rest = found + taken, rest - taken * size
            if taken < n:
                break
        return found if not rest else UNDEFINED

    def Set_elements(self, datatype: Datatype, count: int) -> None:
        """Set the number of elements."""
        self._nbytes = count * datatype.size

    def Is_cancelled(self) -> bool:
        """Return whether the operation was cancelled."""
        return bool(self._words[3])

    def Set_cancelled(self, flag: bool) -> None:
        """Set whether the operation was cancelled."""
        self._words[3] = bool(flag)

    @property
    def count(self) -> int:
        """Bytes of the message."""
        return self._nbytes

    @count.setter
    def count(self, nbytes: int) -> None:
        self._nbytes = nbytes

    cancelled = property(Is_cancelled, Set_cancelled, doc="Whether it was cancelled.")
    source = property(Get_source, Set_source, doc="The rank that the message came from.")
    tag = property(Get_tag, Set_tag, doc="Its tag.")
    error = property(Get_error, Set_error, doc="The error class of its receive.")


def _simple(basic: Layout, count: int) -> list[tuple[int, int]]:
    """Return basic elements as (bytes, how many); a pair is two of them."""
    if basic.kind != "pair":
        return [(basic.size, count)]
    return [(basic.size - 4, 1), (4, 1)] * count
