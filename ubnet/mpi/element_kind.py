"""What a buffer's elements are, as far as ranks can disagree on it in a collective call."""

from functools import lru_cache

from .datatype import Datatype
from .layout import Layout


class ElementKind(str):
    """The numpy type of all elements, such as ``f8``; empty: of bytes, or of several kinds.

    It agrees with the same kind, and an empty one with any: programs do send numbers to members
    that receive bytes.

    Examples
    --------
    >>> ElementKind("f8") == ElementKind("i8"), ElementKind("f8") == ElementKind("")
    (False, True)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other or not self or not other or str.__eq__(self, str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    @classmethod
    def of(cls, datatype: Datatype, nbytes: int) -> "ElementKind":
        """Return the kind of elements of a datatype; of no bytes it is any."""
        return _kind(datatype._layout) if nbytes else ANY


ANY = ElementKind()


@lru_cache(maxsize=1024)
def _kind(layout: Layout) -> ElementKind:
    while layout.parts:
        first = layout.parts[0].layout
        if any(part.layout is not first for part in layout.parts):
            return ANY
        layout = first
    if layout.dtype is None or layout.size == 1:
        return ANY
    return ElementKind(layout.dtype.str[1:])
