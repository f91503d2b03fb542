"""What can be asked of how a datatype was made."""

from typing import Any

from .definition import TypeHandle
from .handle import predefined

COMBINERS = {
    **{"NAMED": 0, "DUP": 1, "CONTIGUOUS": 2, "VECTOR": 3, "HVECTOR": 5, "INDEXED": 6},
    **{"HINDEXED": 8, "INDEXED_BLOCK": 9, "HINDEXED_BLOCK": 18, "STRUCT": 11, "SUBARRAY": 12},
    **{"DARRAY": 13, "RESIZED": 17, "VALUE_INDEX": 19, "F90_REAL": 14, "F90_COMPLEX": 15},
    **{"F90_INTEGER": 16},
}
"""The number of each constructor: that of Open MPI, where it has one."""

PREDEFINED = ("NAMED", "VALUE_INDEX", "F90_INTEGER", "F90_REAL", "F90_COMPLEX")
"""What makes a datatype that cannot be freed."""


class DatatypeContents(TypeHandle):
    """How a datatype was made: the constructor, and what it was given."""

    __slots__ = ()

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        """Return how many integers, addresses, counts and datatypes made it, and the combiner."""
        made = self._definition
        numbers, addresses = made.counted()
        return numbers, addresses, 0, len(made.datatypes), COMBINERS[made.combiner]

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[TypeHandle]]:
        """Return the integers, addresses, counts and datatypes that made it."""
        made = self._definition
        again = [self._again(datatype) for datatype in made.datatypes]
        return made.integers(), made.addresses(), [], again

    def decode(self) -> tuple[Any, str, dict[str, Any]]:
        """Return the datatype it was made of, the combiner's name and the other arguments.

        Examples
        --------
        >>> from ubnet.mpi.datatype import DOUBLE
        >>> DOUBLE.Create_vector(3, 1, 2).decode()
        (MPI.DOUBLE, 'VECTOR', {'count': 3, 'blocklength': 1, 'stride': 2})
        """
        made = self._definition
        if made.combiner == "NAMED":
            return self, "NAMED", {}
        again = [self._again(datatype) for datatype in made.datatypes]
        copied = {n: list(v) if isinstance(v, list) else v for n, v in made.arguments.items()}
        if made.combiner == "STRUCT":
            copied["datatypes"] = again
        elif made.combiner == "VALUE_INDEX":
            copied |= {"value": again[0], "index": again[1]}
        return again[0] if len(again) == 1 else predefined("DATATYPE_NULL"), made.combiner, copied

    @property
    def envelope(self) -> tuple[int, int, int, int, int]:
        """What `Get_envelope` returns."""
        return self.Get_envelope()

    @property
    def contents(self) -> tuple[list[int], list[int], list[int], list[TypeHandle]]:
        """What `Get_contents` returns."""
        return self.Get_contents()

    @property
    def combiner(self) -> int:
        """The number of the constructor that made it."""
        return COMBINERS[self._definition.combiner]

    @property
    def is_named(self) -> bool:
        """Whether it has a name in MPI."""
        return self._definition.combiner == "NAMED"

    @property
    def is_predefined(self) -> bool:
        """Whether it is one of MPI's own, or null."""
        return self._ref is None or self._definition.combiner in PREDEFINED
