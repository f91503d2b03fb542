"""What a datatype's handle stands for: its layout, and what it was made by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from .exception import ERR_TYPE
from .exception import Exception as MPIException
from .handle import Handle
from .layout import Layout

ADDRESSES = {
    "HVECTOR": ("stride",),
    "HINDEXED": ("displacements",),
    "HINDEXED_BLOCK": ("displacements",),
    "STRUCT": ("displacements",),
    "RESIZED": ("lb", "extent"),
}
"""The arguments of constructors that are addresses, not plain numbers."""

LISTS = ("INDEXED", "HINDEXED", "INDEXED_BLOCK", "HINDEXED_BLOCK", "STRUCT", "SUBARRAY")
"""Constructors whose numbers begin with how long each list is."""


@dataclass(slots=True, eq=False)
class Definition:
    """A datatype.

    Attributes
    ----------
    layout : Layout
        What it says of memory.
    combiner : str
        The constructor that made it.
    arguments : dict
        What the constructor was given, by name, apart from datatypes.
    datatypes : tuple of TypeHandle
        The datatypes that it was given.
    """

    layout: Layout
    combiner: str = "NAMED"
    arguments: dict[str, Any] = field(default_factory=dict)
    datatypes: tuple["TypeHandle", ...] = ()
    _counted: tuple[int, int] | None = None

    def counted(self) -> tuple[int, int]:
        """Return how many plain numbers and how many addresses it was given."""
        if self._counted is None:
            self._counted = len(self.integers()), len(self.addresses())
        return self._counted

    def integers(self) -> list[int]:
        """Return the arguments that are plain numbers, as MPI lists them."""
        given = self.arguments
        if self.combiner == "DARRAY":
            lists = [given[name] for name in ("gsizes", "distribs", "dargs", "psizes")]
            numbers = [given["size"], given["rank"], len(lists[0])]
            return [*numbers, *_flat(lists), given["order"]]
        lengths = []
        if self.combiner in LISTS:
            lengths = [next(len(value) for value in given.values() if isinstance(value, list))]
        apart = ADDRESSES.get(self.combiner, ())
        return [*lengths, *_flat([given[name] for name in given if name not in apart])]

    def addresses(self) -> list[int]:
        """Return the arguments that are addresses, as MPI lists them."""
        return _flat([self.arguments[name] for name in ADDRESSES.get(self.combiner, ())])


class TypeHandle(Handle):
    """A handle of a datatype: what all its methods need."""

    __slots__ = ()

    @property
    def _definition(self) -> Definition:
        if self._ref is None:
            raise MPIException(ERR_TYPE, "the datatype is DATATYPE_NULL")
        definition: Definition = self._ref
        return definition

    @property
    def _layout(self) -> Layout:
        return self._definition.layout

    @classmethod
    def _made(
        cls, layout: Layout, combiner: str, of: Sequence["TypeHandle"], **arguments: Any
    ) -> Self:
        """Return the datatype of a layout that a constructor has made."""
        given = tuple(cls._again(datatype) for datatype in of)
        return cls._of(Definition(layout, combiner, arguments, given))

    @classmethod
    def _again(cls, datatype: "TypeHandle") -> "TypeHandle":
        """Return MPI's own handle itself, of others another one, which can be freed."""
        return datatype if datatype._name else cls._of(datatype._ref)


def _flat(values: list[Any]) -> list[int]:
    return [n for value in values for n in (value if isinstance(value, list) else [value])]
