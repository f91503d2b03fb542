"""A status: what is known of a message that was received or seen."""

from .constants import ANY_SOURCE, ANY_TAG, UNDEFINED
from .datatype import BYTE, Datatype
from .exception import SUCCESS


class Status:
    """What is known of a message.

    Parameters
    ----------
    status : Status, optional
        One to copy.

    Attributes
    ----------
    source, tag, error : int
        Where it came from, its tag and the error class of its receive.
    cancelled : bool
        Whether the operation was cancelled.

    Examples
    --------
    >>> Status()
    Status(source=-1, tag=-1, error=0, count=0)
    """

    __slots__ = ("_cancelled", "_nbytes", "error", "source", "tag")
    __hash__ = None  # type: ignore[assignment]  # as in mpi4py: it can change

    def __init__(self, status: "Status | None" = None) -> None:
        self.source, self.tag, self.error = ANY_SOURCE, ANY_TAG, SUCCESS
        self._nbytes, self._cancelled = 0, False
        if status is not None:
            self.__setstate__(status.__getstate__())

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
        return self.source, self.tag, self.error, self._nbytes, self._cancelled

    def __setstate__(self, state: tuple[int, int, int, int, bool]) -> None:
        self.source, self.tag, self.error, self._nbytes, self._cancelled = state

    def _set(self, source: int, tag: int, nbytes: int, cancelled: bool = False) -> None:
        """Say everything at once, as a call that was given a status does."""
        self.source, self.tag, self.error = source, tag, SUCCESS
        self._nbytes, self._cancelled = nbytes, cancelled

    def Get_source(self) -> int:
        """Return the rank that the message came from."""
        return self.source

    def Set_source(self, source: int) -> None:
        """Set the source."""
        self.source = source

    def Get_tag(self) -> int:
        """Return the tag of the message."""
        return self.tag

    def Set_tag(self, tag: int) -> None:
        """Set the tag."""
        self.tag = tag

    def Get_error(self) -> int:
        """Return the error class of the receive."""
        return self.error

    def Set_error(self, error: int) -> None:
        """Set the error class."""
        self.error = error

    def Get_count(self, datatype: Datatype = BYTE) -> int:
        """Return how many elements the message holds; UNDEFINED if not a whole number."""
        return datatype._count_in(self._nbytes)

    def Get_elements(self, datatype: Datatype) -> int:
        """Return how many basic elements the message holds."""
        layout = datatype._layout
        if layout.kind == "pair" and layout.dtype is not None:
            whole, rest = divmod(self._nbytes, layout.size)
            first = layout.size - 4
            if rest not in (0, first):
                return UNDEFINED
            return 2 * whole + (rest == first)
        return datatype._count_in(self._nbytes)

    def Set_elements(self, datatype: Datatype, count: int) -> None:
        """Set the number of elements."""
        self._nbytes = count * datatype.size

    def Is_cancelled(self) -> bool:
        """Return whether the operation was cancelled."""
        return self._cancelled

    def Set_cancelled(self, flag: bool) -> None:
        """Set whether the operation was cancelled."""
        self._cancelled = bool(flag)

    @property
    def count(self) -> int:
        """Bytes of the message."""
        return self._nbytes

    @count.setter
    def count(self, nbytes: int) -> None:
        self._nbytes = nbytes

    cancelled = property(Is_cancelled, Set_cancelled, doc="Whether it was cancelled.")
