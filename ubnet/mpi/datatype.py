"""Datatypes: the elements of messages, their layout in memory, and the names they have in numpy."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .constants import UNDEFINED
from .exception import ERR_TYPE
from .exception import Exception as MPIException
from .handle import Handle

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What a datatype says of memory.

    Attributes
    ----------
    name : str
        Its name in MPI.
    size : int
        Bytes of an element on the wire.
    extent, lb : int
        Bytes from an element to the next in memory, and where the first byte stands.
    kind : str
        What can be computed with it: integer, floating, complex, logical, byte, pair or none.
    dtype : numpy.dtype or None
        An element as numpy sees it.
    index : ndarray of int64, shape (size,), or None
        Where in memory each byte of the wire stands; None: as on the wire.
    """

    name: str
    size: int
    extent: int
    lb: int
    kind: str
    dtype: np.dtype[Any] | None
    index: NDArray[np.int64] | None = None

    def places(self, count: int) -> NDArray[np.int64]:
        """Return where in memory each byte of `count` elements stands."""
        element = np.arange(self.size) if self.index is None else self.index
        return (np.arange(count)[:, None] * self.extent + element).reshape(-1)


class Datatype(Handle):
    """The type of the elements of a message.

    Examples
    --------
    >>> DOUBLE.Get_size(), DOUBLE.Get_extent(), DOUBLE_INT.Get_size()
    (8, (0, 8), 12)
    """

    __slots__ = ()

    @property
    def _layout(self) -> Layout:
        if self._ref is None:
            raise MPIException(ERR_TYPE, "the datatype is DATATYPE_NULL")
        layout: Layout = self._ref
        return layout

    def Get_size(self) -> int:
        """Return the bytes of an element on the wire."""
        return self._layout.size

    def Get_extent(self) -> tuple[int, int]:
        """Return the lower bound and the extent."""
        return self._layout.lb, self._layout.extent

    def Get_name(self) -> str:
        """Return its name."""
        return self._layout.name

    def Commit(self) -> "Datatype":
        """Make it ready to be used, which it always is."""
        _ = self._layout
        return self

    def tocode(self) -> str:
        """Return the code by which numpy names it."""
        return self.typestr

    @classmethod
    def fromcode(cls, code: str) -> "Datatype":
        """Return the datatype that a code of numpy or of the struct module names.

        >>> Datatype.fromcode("f8") == Datatype.fromcode("d") == DOUBLE
        True
        """
        return from_code(code)

    size = property(Get_size, doc="Bytes of an element on the wire.")
    name = property(Get_name, doc="Its name.")

    @property
    def extent(self) -> int:
        """Bytes from an element to the next."""
        return self._layout.extent

    @property
    def lb(self) -> int:
        """Lower bound."""
        return self._layout.lb

    @property
    def ub(self) -> int:
        """Upper bound."""
        return self._layout.lb + self._layout.extent

    @property
    def is_predefined(self) -> bool:
        """Whether it is one of MPI's own, or null."""
        return self._ref is None or bool(self._name)

    @property
    def typestr(self) -> str:
        """Type string of numpy, such as ``f8``."""
        dtype = self._layout.dtype
        return f"V{self._layout.extent}" if dtype is None else dtype.str[1:]

    @property
    def typechar(self) -> str:
        """Type character of numpy, such as ``d``."""
        dtype = self._layout.dtype
        return "V" if dtype is None else dtype.char

    def _count_in(self, nbytes: int) -> int:
        """Return how many elements so many bytes of the wire are; UNDEFINED if not a whole number.

        >>> DOUBLE._count_in(24), DOUBLE._count_in(25) == UNDEFINED
        (3, True)
        """
        size = self._layout.size
        if size == 0:
            return 0 if nbytes == 0 else UNDEFINED
        return nbytes // size if nbytes % size == 0 else UNDEFINED


Datatype._kind = Datatype


def _plain(name: str, code: str, kind: str) -> Datatype:
    dtype = np.dtype(getattr(ml_dtypes, code, code))
    layout = Layout(f"MPI_{name}", dtype.itemsize, dtype.itemsize, 0, kind, dtype)
    return Datatype._of(layout, name)


def _pair(name: str, value: str) -> Datatype:
    """Return a type of a value and an int, which MINLOC and MAXLOC take; it may have a hole."""
    dtype = np.dtype([("value", value), ("index", "i4")], align=True)
    first = np.dtype(value).itemsize
    index = np.concatenate([np.arange(first), first + np.arange(4)])
    dense = len(index) == dtype.itemsize
    layout = Layout(
        f"MPI_{name}", len(index), dtype.itemsize, 0, "pair", dtype, None if dense else index
    )
    return Datatype._of(layout, name)


_PLAIN = {
    "integer": {
        **{"SIGNED_CHAR": "b", "SHORT": "h", "INT": "i", "LONG": "l", "LONG_LONG": "q"},
        **{"UNSIGNED_CHAR": "B", "UNSIGNED_SHORT": "H", "UNSIGNED": "I", "UNSIGNED_LONG": "L"},
        **{"UNSIGNED_LONG_LONG": "Q", "INT8_T": "i1", "INT16_T": "i2", "INT32_T": "i4"},
        **{"INT64_T": "i8", "UINT8_T": "u1", "UINT16_T": "u2", "UINT32_T": "u4"},
        **{"UINT64_T": "u8", "AINT": "i8", "OFFSET": "i8", "COUNT": "i8", "INTEGER": "i4"},
        **{"INTEGER1": "i1", "INTEGER2": "i2", "INTEGER4": "i4", "INTEGER8": "i8"},
    },
    "floating": {
        **{"FLOAT": "f", "DOUBLE": "d", "LONG_DOUBLE": "g", "FLOAT16_T": "f2", "FLOAT32_T": "f4"},
        **{"FLOAT64_T": "f8", "BFLOAT16_T": "bfloat16", "REAL": "f4", "DOUBLE_PRECISION": "f8"},
        **{"REAL2": "f2", "REAL4": "f4", "REAL8": "f8", "REAL16": "g"},
    },
    "complex": {
        **{"C_FLOAT_COMPLEX": "F", "C_DOUBLE_COMPLEX": "D", "C_LONG_DOUBLE_COMPLEX": "G"},
        **{"CXX_FLOAT_COMPLEX": "F", "CXX_DOUBLE_COMPLEX": "D", "CXX_LONG_DOUBLE_COMPLEX": "G"},
        **{"COMPLEX": "F", "DOUBLE_COMPLEX": "D", "COMPLEX8": "F", "COMPLEX16": "D"},
        **{"COMPLEX32": "G"},
    },
    "logical": {
        **{"C_BOOL": "?", "CXX_BOOL": "?", "LOGICAL": "i4", "LOGICAL1": "i1", "LOGICAL2": "i2"},
        **{"LOGICAL4": "i4", "LOGICAL8": "i8"},
    },
    "byte": {"BYTE": "u1"},
    "none": {"PACKED": "u1", "CHAR": "S1", "WCHAR": "U1", "CHARACTER": "S1"},
}

_PAIRS = {
    **{"SHORT_INT": "h", "INT_INT": "i", "LONG_INT": "l", "FLOAT_INT": "f"},
    **{"DOUBLE_INT": "d", "LONG_DOUBLE_INT": "g"},
}

DATATYPES: dict[str, Datatype] = {
    "DATATYPE_NULL": Datatype._of(None, "DATATYPE_NULL"),
    **{n: _plain(n, code, kind) for kind, all_ in _PLAIN.items() for n, code in all_.items()},
    **{n: _pair(n, value) for n, value in _PAIRS.items()},
}
"""Every predefined datatype by its name."""

DATATYPES |= {
    alias: DATATYPES[name]
    for alias, name in {
        **{"UNSIGNED_INT": "UNSIGNED", "SIGNED_SHORT": "SHORT", "SIGNED_INT": "INT"},
        **{"SIGNED_LONG": "LONG", "SIGNED_LONG_LONG": "LONG_LONG", "BOOL": "C_BOOL"},
        **{"SINT8_T": "INT8_T", "SINT16_T": "INT16_T", "SINT32_T": "INT32_T"},
        **{"SINT64_T": "INT64_T", "F_BOOL": "LOGICAL", "F_INT": "INTEGER", "F_FLOAT": "REAL"},
        **{"F_DOUBLE": "DOUBLE_PRECISION", "F_COMPLEX": "COMPLEX", "TWOINT": "INT_INT"},
        **{"F_FLOAT_COMPLEX": "COMPLEX", "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX"},
        **{"C_COMPLEX": "C_FLOAT_COMPLEX"},
    }.items()
}

BYTE = DATATYPES["BYTE"]
DOUBLE = DATATYPES["DOUBLE"]
DOUBLE_INT = DATATYPES["DOUBLE_INT"]

_CODES: dict[str, str] = {
    **{"?": "C_BOOL", "b1": "C_BOOL", "b": "SIGNED_CHAR", "h": "SHORT", "i": "INT", "l": "LONG"},
    **{"q": "LONG_LONG", "B": "UNSIGNED_CHAR", "H": "UNSIGNED_SHORT", "I": "UNSIGNED"},
    **{"L": "UNSIGNED_LONG", "Q": "UNSIGNED_LONG_LONG", "e": "FLOAT16_T", "f": "FLOAT"},
    **{"d": "DOUBLE", "g": "LONG_DOUBLE", "Zf": "C_FLOAT_COMPLEX", "F": "C_FLOAT_COMPLEX"},
    **{"Zd": "C_DOUBLE_COMPLEX", "D": "C_DOUBLE_COMPLEX", "Zg": "C_LONG_DOUBLE_COMPLEX"},
    **{"G": "C_LONG_DOUBLE_COMPLEX", "i1": "SIGNED_CHAR", "i2": "SHORT", "i4": "INT", "i8": "LONG"},
    **{"u1": "UNSIGNED_CHAR", "u2": "UNSIGNED_SHORT", "u4": "UNSIGNED", "u8": "UNSIGNED_LONG"},
    **{"f2": "FLOAT16_T", "f4": "FLOAT", "f8": "DOUBLE", "f16": "LONG_DOUBLE"},
    **{"c8": "C_FLOAT_COMPLEX", "c16": "C_DOUBLE_COMPLEX", "c32": "C_LONG_DOUBLE_COMPLEX"},
    **{"n": "LONG", "N": "UNSIGNED_LONG", "p": "AINT", "P": "UNSIGNED_LONG", "c": "CHAR"},
    **{"a": "CHAR", "S": "CHAR", "S1": "CHAR", "s": "CHAR", "1s": "CHAR", "U": "WCHAR"},
    **{"U1": "WCHAR", "u": "UINT16_T", "1u": "UINT16_T", "w": "WCHAR", "1w": "WCHAR"},
    **{"M": "INT64_T", "M8": "INT64_T", "m": "INT64_T", "m8": "INT64_T"},
    **{"bfloat16": "BFLOAT16_T"},
}

_typedict: dict[str, Datatype] = {code: DATATYPES[name] for code, name in _CODES.items()}


def from_code(code: str) -> Datatype:
    """Return the datatype of a code of numpy or of the struct module; KeyError if it has none."""
    try:
        return _typedict[code]
    except KeyError:
        raise KeyError(f"cannot map {code!r} to MPI datatype") from None
