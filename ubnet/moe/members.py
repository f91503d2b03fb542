"""The ranks that share experts, as one of them sees them."""

from dataclasses import dataclass
from typing import Any

from ubnet.errors import OptionError
from ubnet.rank import current


@dataclass(frozen=True)
class Members:
    """A group of ranks.

    Attributes
    ----------
    context : int
        The communicator's number, which keeps its calls apart from others'.
    group : tuple of int
        World ranks of the members.
    rank : int
        Which of them this rank is.
    """

    context: int
    group: tuple[int, ...]
    rank: int

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.group)


def members_of(comm: Any = None) -> Members:
    """Return the members of a communicator of `ubnet.mpi`; None or a name means the whole world.

    Raises
    ------
    OptionError
        If it is something else.
    """
    if comm is None or isinstance(comm, str):
        rank = current()
        return Members(0, tuple(range(rank.host.size)), rank.number)
    here = getattr(comm, "_here", None)
    if here is None:
        raise OptionError(
            f"{comm!r} is no communicator; give one of mpi4py under `ubnet run`, such as "
            "MPI.COMM_WORLD, or None for the whole world"
        )
    return Members(here.context, tuple(here.group), here.rank)
