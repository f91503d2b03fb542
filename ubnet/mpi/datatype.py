"""Datatypes: the elements of messages, their layout in memory, and the names they have in numpy."""

from typing import Any

import ml_dtypes
import numpy as np

from .attributes import Attributes
from .constants import MAX_OBJECT_NAME, UNDEFINED
from .datatype_constructors import DatatypeConstructors
from .datatype_contents import DatatypeContents
from .definition import Definition
from .exception import ERR_TYPE
from .exception import Exception as MPIException
from .kept import kept
from .layout import basic
from .packing import Packing
from .sized_types import SizedTypes


class Datatype(DatatypeConstructors, DatatypeContents, SizedTypes, Packing, Attributes):
    """The type of the elements of a message.

    Examples
    --------
    >>> DOUBLE.Get_size(), DOUBLE.Get_extent(), DOUBLE_INT.Get_size()
    (8, (0, 8), 12)
    """

    __slots__ = ()

    def Get_size(self) -> int:
        """Return the bytes of an element on the wire."""
        return self._layout.size

    def Get_extent(self) -> tuple[int, int]:
        """Return the lower bound and the extent."""
        return self._layout.lb, self._layout.extent

    def Get_true_extent(self) -> tuple[int, int]:
        """Return where its first byte stands, and the bytes from there to its last."""
        layout = self._layout
        return layout.true_lb, layout.true_ub - layout.true_lb

    def Get_name(self) -> str:
        """Return its name."""
        if self._ref is None:
            return "MPI_DATATYPE_NULL"
        _, given = _names().get(id(self._ref), (None, self._layout.name))
        return given

    def Set_name(self, name: str) -> None:
        """Give it a name, for this rank."""
        _names()[id(self._definition)] = self._ref, str(name)[: MAX_OBJECT_NAME - 1]

    def Commit(self) -> "Datatype":
        """Make it ready to be used, which it always is."""
        _ = self._layout
        return self

    def Dup(self) -> "Datatype":
        """Return another datatype of the same elements, with the attributes that are copied."""
        made = super().Dup()
        self._copy_attributes(made)
        return made

    Create_dup = Dup

    def Free(self) -> None:
        """Free it; the handle is DATATYPE_NULL then."""
        if self._name or self.is_predefined:
            raise MPIException(ERR_TYPE, f"{self!r} is predefined and cannot be freed")
        self._drop_attributes()
        _names().pop(id(self._ref), None)
        self._let_go()

    def free(self) -> None:
        """Free it unless it is predefined or null."""
        if not self.is_predefined:
            self.Free()

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._name or self._ref is None:
            return super().__reduce__()
        return _datatype_create, self.decode()

    def tocode(self) -> str:
        """Return the code by which numpy or the struct module names it.

        >>> DOUBLE.tocode(), DATATYPES["INT32_T"].tocode()
        ('d', 'i4')
        """
        code = _typecode(self)
        if code is None:
            raise ValueError("cannot map to character code or type string")
        return code

    @classmethod
    def fromcode(cls, code: str) -> "Datatype":
        """Return the datatype that a code of numpy or of the struct module names.

        >>> Datatype.fromcode("f8") == Datatype.fromcode("d") == DOUBLE
        True
        """
        try:
            return _typedict[code]
        except KeyError:
            raise ValueError(f"cannot map code {code!r} to MPI datatype") from None

    size = property(Get_size, doc="Bytes of an element on the wire.")
    name = property(Get_name, Set_name, doc="Its name.")

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
    def true_lb(self) -> int:
        """Where its first byte stands."""
        return self._layout.true_lb

    @property
    def true_ub(self) -> int:
        """Where its last byte ends."""
        return self._layout.true_ub

    @property
    def true_extent(self) -> int:
        """Bytes from its first to its last."""
        return self._layout.true_ub - self._layout.true_lb

    @property
    def typestr(self) -> str:
        """Type string of numpy, such as ``f8``."""
        if self._ref is None:
            return ""
        dtype = self._layout.dtype
        return f"V{self._layout.extent}" if dtype is None else dtype.str[1:]

    @property
    def typechar(self) -> str:
        """Type character of numpy, such as ``d``."""
        if self._ref is None:
            return ""
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


def _names() -> dict[int, tuple[Definition, str]]:
    """Return the names that the program has given to datatypes."""
    names: dict[int, tuple[Definition, str]] = kept("names of datatypes")
    return names


def _datatype_create(
    datatype: Datatype, combiner: str, params: dict[str, Any], free: bool = False
) -> Datatype:
    """Return the datatype that `Datatype.decode` has told of."""
    make = "Get_value_index" if combiner == "VALUE_INDEX" else f"Create_{combiner.lower()}"
    made: Datatype = getattr(datatype, make)(**params)
    return made


def _typecode(datatype: Datatype) -> str | None:
    """Return the code of a datatype, None if it has none."""
    layout = datatype._layout if datatype else None
    if layout is None or layout.dtype is None or layout.kind == "pair":
        return None
    fixed = datatype._name.endswith("_T") and layout.kind == "integer"
    letters = layout.dtype.char in "SU"  # numpy's code of a string alone has no length
    return datatype.typestr if fixed or letters else datatype.typechar


def _plain(name: str, code: str, kind: str) -> Datatype:
    dtype = np.dtype(getattr(ml_dtypes, code, code))
    return Datatype._of(Definition(basic(f"MPI_{name}", kind, dtype)), name)


def _pair(name: str, value: str) -> Datatype:
    """Return a type of a value and an int, which MINLOC and MAXLOC take; it may have a hole."""
    dtype = np.dtype([("value", value), ("index", "i4")], align=True)
    first = np.dtype(value).itemsize
    index = np.concatenate([np.arange(first), first + np.arange(4)])
    hole = None if len(index) == dtype.itemsize else index
    return Datatype._of(Definition(basic(f"MPI_{name}", "pair", dtype, hole)), name)


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

DATATYPE_NULL = Datatype._of(None, "DATATYPE_NULL")

DATATYPES: dict[str, Datatype] = {
    "DATATYPE_NULL": DATATYPE_NULL,
    # No such elements here.
    **dict.fromkeys(("LOGICAL16", "INTEGER16", "COMPLEX4"), DATATYPE_NULL),
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
