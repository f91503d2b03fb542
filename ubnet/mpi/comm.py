"""Communicators: who talks to whom, and how new ones are made."""

import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Self

from ubnet.rank import current

from .buffer_collectives import BufferCollectives
from .buffer_messages import BufferMessages
from .buffer_reductions import BufferReductions
from .communicator import SELF, WORLD, Communicator, found, meeting_context, positions, ticket
from .constants import CONGRUENT, IDENT, MAX_OBJECT_NAME, SIMILAR, UNDEFINED, UNEQUAL
from .exception import ERR_ARG, ERR_COMM, ERR_GROUP
from .exception import Exception as MPIException
from .group import Group
from .object_collectives import ObjectCollectives
from .object_messages import ObjectMessages
from .scans import Scans


class Comm(BufferMessages, ObjectMessages, BufferCollectives, BufferReductions, ObjectCollectives):
    """A communicator: members in an order, whose messages no other communicator sees."""

    __slots__ = ()

    def Get_rank(self) -> int:
        """Return which member this rank is."""
        return self._here.rank

    def Get_size(self) -> int:
        """Return the number of members."""
        return len(self._here.group)

    def Get_group(self) -> Group:
        """Return the group of the members."""
        return Group._of(self._here.group)

    def Get_name(self) -> str:
        """Return the name that the program has given."""
        return self._here.name

    def Set_name(self, name: str) -> None:
        """Give it a name, which reports use, too."""
        here = self._here
        here.name = name[: MAX_OBJECT_NAME - 1]
        current().host.labels[here.context] = here.name

    rank = property(Get_rank, doc="Which member this rank is.")
    size = property(Get_size, doc="Number of members.")
    group = property(Get_group, doc="Group of the members.")
    name = property(Get_name, Set_name, doc="Its name.")

    @property
    def is_inter(self) -> bool:
        """Whether it joins two groups."""
        return self.Is_inter()

    @property
    def is_intra(self) -> bool:
        """Whether it has one group."""
        return self.Is_intra()

    def Is_inter(self) -> bool:
        """Return whether it joins two groups."""
        _ = self._here
        return False

    def Is_intra(self) -> bool:
        """Return whether it has one group."""
        return not self.Is_inter()

    def Compare(self, comm: "Comm") -> int:
        """Return IDENT, CONGRUENT (same members), SIMILAR (in another order) or UNEQUAL."""
        here, there = self._here, comm._here
        if here.context == there.context:
            return IDENT
        if here.group == there.group:
            return CONGRUENT
        return SIMILAR if sorted(here.group) == sorted(there.group) else UNEQUAL

    def Dup(self, info: Any = None) -> Self:
        """Return a communicator of the same members."""
        return type(self)._of(self._duplicate("Comm.Dup"))

    def Clone(self) -> Self:
        """Return a communicator of the same members."""
        return type(self)._of(self._duplicate("Comm.Clone"))

    def Split(self, color: int = 0, key: int = 0) -> "Comm":
        """Return a communicator of the members with the same color, ordered by key.

        Parameters
        ----------
        color : int
            0 or more, or UNDEFINED to be in none.
        key : int
            Order in the new one; equal keys keep the old order.
        """
        if color < 0 and color != UNDEFINED:
            raise MPIException(ERR_ARG, f"color {color}; give 0 or more, or UNDEFINED")
        here, rank = self._here, current()
        told = rank.exchange(here.context, here.group, (color, key, ticket(rank)), "Comm.Split")
        if color == UNDEFINED:
            return COMM_NULL
        mine = [(told[r][1], r) for r in range(here.size) if told[r][0] == color]
        order = [r for _, r in sorted(mine)]
        return _made(found(rank, told[order[0]][2], [here.group[r] for r in order]))

    def Create(self, group: Group) -> "Comm":
        """Return a communicator of the members of a group; all members of this one must call."""
        here, rank = self._here, current()
        members = group._members
        if any(member not in here.place for member in members):
            raise MPIException(ERR_GROUP, "a member of the group is none of the communicator")
        told = rank.exchange(here.context, here.group, (members, ticket(rank)), "Comm.Create")
        if rank.number not in positions(members):
            return COMM_NULL
        for member in members:
            other = told[here.place[member]][0]
            if other != members:
                raise MPIException(
                    ERR_GROUP,
                    f"Create: this rank gave members {members[:16]} and rank "
                    f"{here.place[member]} gave {other[:16]}",
                )
        return _made(found(rank, told[here.place[members[0]]][1], members))

    def Free(self) -> None:
        """Let it go; the handle is COMM_NULL then."""
        here = self._here
        if self._name == "COMM_WORLD":
            raise MPIException(ERR_COMM, f"{here.name} cannot be freed")
        self._let_go()

    def Disconnect(self) -> None:
        """Let it go."""
        self.Free()

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End the world with a status."""
        rank = current()
        reason = f"rank {rank.number} called Abort({errorcode})"
        sys.stdout.flush()
        print(f"ubnet: {reason}", file=sys.stderr, flush=True)
        rank.abort(errorcode & 0xFF, reason)

    def _duplicate(self, call: str) -> Communicator:
        here, rank = self._here, current()
        told = rank.exchange(here.context, here.group, ticket(rank), call)
        made = found(rank, told[0], here.group)
        assert made is not None
        return made


class Intracomm(Scans, Comm):
    """A communicator of one group.

    Parameters
    ----------
    comm : Comm, optional
        One to stand for as well.
    """

    __slots__ = ()

    def Create_group(self, group: Group, tag: int = 0) -> "Intracomm":
        """Return a communicator of the members of a group; only they must call.

        Parameters
        ----------
        group : Group
            Members of this communicator.
        tag : int
            Tells apart what the same members make at the same time.
        """
        here, rank = self._here, current()
        members = group._members
        if rank.number not in positions(members):
            return Intracomm._of(None)
        if any(member not in here.place for member in members):
            raise MPIException(ERR_GROUP, "a member of the group is none of the communicator")
        meeting = meeting_context(here.context, members, tag)
        told = rank.exchange(meeting, members, ticket(rank), "Intracomm.Create_group")
        return _made(found(rank, told[0], members))


Comm._kind = Comm

COMM_NULL = Comm._of(None, "COMM_NULL")
COMM_WORLD = Intracomm._of(WORLD, "COMM_WORLD")
COMM_SELF = Intracomm._of(SELF, "COMM_SELF")


def _made(communicator: Communicator | None) -> Intracomm:
    assert communicator is not None
    return Intracomm._of(communicator)


def compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Return the sides of a grid of `nnodes` ranks, as equal as they can be, the largest first.

    Parameters
    ----------
    nnodes : int
        Number of ranks.
    dims : int or sequence of int
        Number of sides; or the sides, 0 where one is to be found.

    Raises
    ------
    Exception
        Of class ERR_DIMS if the given sides do not divide the number of ranks.

    Examples
    --------
    >>> compute_dims(12, 2), compute_dims(12, [0, 2, 0]), compute_dims(7, 3)
    ([4, 3], [3, 2, 2], [7, 1, 1])
    """
    from .exception import ERR_DIMS

    given = [0] * dims if isinstance(dims, int) else [int(side) for side in dims]
    fixed = 1
    for side in given:
        fixed *= side or 1
    if nnodes < 1 or any(side < 0 for side in given) or nnodes % fixed:
        raise MPIException(ERR_DIMS, f"{nnodes} ranks on a grid of sides {given}")
    if 0 not in given and fixed != nnodes:
        raise MPIException(ERR_DIMS, f"{nnodes} ranks on a grid of sides {given}")
    free = iter(_most_equal(nnodes // fixed, given.count(0)))
    return [side or next(free) for side in given]


def _most_equal(count: int, sides: int) -> list[int]:
    """Return factors whose largest is least, then the next; the largest first."""
    if sides <= 1:
        return [count] * sides
    best: list[int] = []
    for largest in range(1, count + 1):
        if count % largest or largest**sides < count:
            continue
        rest = _most_equal(count // largest, sides - 1)
        if rest[0] <= largest:
            best = [largest, *rest]
            break
    return best
