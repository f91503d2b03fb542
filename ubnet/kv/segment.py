"""A process that takes part in transfers."""

from dataclasses import dataclass

from .regions import Regions


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """A process that takes part: its name, where it runs, and its registered memory."""

    name: str
    endpoint: int
    regions: Regions
