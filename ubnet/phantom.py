"""A payload that has a size and no memory, for programs at scale."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Phantom:
    """A payload of a size and no memory.

    >>> Phantom(1 << 20)
    Phantom(nbytes=1048576)
    """

    nbytes: int
