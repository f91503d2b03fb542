"""Datatypes that are asked for by what they must hold: sizes, decimal digits, pairs."""

from typing import Any

import numpy as np

from .definition import Definition, TypeHandle
from .exception import ERR_ARG
from .exception import Exception as MPIException
from .handle import predefined

TYPECLASS_INTEGER, TYPECLASS_REAL, TYPECLASS_COMPLEX, TYPECLASS_LOGICAL = 1, 2, 3, 4

CLASSES = {
    TYPECLASS_INTEGER: ("INTEGER", (1, 2, 4, 8)),
    TYPECLASS_REAL: ("REAL", (2, 4, 8, 16)),
    TYPECLASS_COMPLEX: ("COMPLEX", (8, 16, 32)),
    TYPECLASS_LOGICAL: ("LOGICAL", (1, 2, 4, 8)),
}
"""The name of each class of Fortran's types, and the sizes that there are."""

PAIRS = ("SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "LONG_DOUBLE")
"""The values of which there are pairs with an int."""


class SizedTypes(TypeHandle):
    """How a predefined datatype is found."""

    __slots__ = ()

    @classmethod
    def Get_value_index(cls, value: TypeHandle, index: TypeHandle) -> Any:
        """Return the predefined pair of two datatypes, DATATYPE_NULL if there is none."""
        codes = value._layout.dtype, index._layout.dtype
        for name in PAIRS:
            if index == predefined("INT") and value == predefined(name) and codes[0] is not None:
                return predefined(f"{name}_INT")
        return predefined("DATATYPE_NULL")

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Any:
        """Return the predefined datatype of a class (TYPECLASS_REAL ...) and a size in bytes.

        >>> from ubnet.mpi.datatype import Datatype
        >>> Datatype.Match_size(TYPECLASS_REAL, 8)
        MPI.REAL8
        """
        names, sizes = CLASSES.get(typeclass, ("", ()))
        if size not in sizes:
            raise MPIException(ERR_ARG, f"no datatype of class {typeclass} has {size} bytes")
        return predefined(f"{names}{size}")

    @classmethod
    def Create_f90_integer(cls, r: int) -> Any:
        """Return the integer of Fortran that holds r decimal digits."""
        for size, digits in ((1, 2), (2, 4), (4, 9), (8, 18)):
            if r <= digits:
                return cls._fortran(f"INTEGER{size}", "F90_INTEGER", r=r)
        raise MPIException(ERR_ARG, f"no integer has {r} decimal digits")

    @classmethod
    def Create_f90_real(cls, p: int, r: int) -> Any:
        """Return the real of Fortran of p decimal digits and exponents to r."""
        return cls._fortran(f"REAL{_f90_size(p, r)}", "F90_REAL", p=p, r=r)

    @classmethod
    def Create_f90_complex(cls, p: int, r: int) -> Any:
        """Return the complex number of Fortran of p decimal digits and exponents to r."""
        return cls._fortran(f"COMPLEX{2 * _f90_size(p, r)}", "F90_COMPLEX", p=p, r=r)

    @classmethod
    def _fortran(cls, name: str, combiner: str, **arguments: int) -> Any:
        of_name: Any = predefined(name)
        return cls._of(Definition(of_name._layout, combiner, arguments))


def _f90_size(digits: int, exponent: int) -> int:
    for size, code in ((4, "f"), (8, "d"), (16, "g")):
        known = np.finfo(code)
        if digits <= known.precision and exponent <= int(np.log10(known.max)):
            return size
    raise MPIException(ERR_ARG, f"no real has {digits} digits and exponents to {exponent}")
