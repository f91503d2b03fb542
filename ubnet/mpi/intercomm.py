"""Intercommunicators: two groups whose members talk to those of the other."""

from collections.abc import Sequence
from typing import Any, Self

from ubnet.rank import current

from .comm import Comm
from .comm_makers import part_of
from .communicator import CLASSES, found, handle_of, joined, meeting_context, ticket
from .constants import CONGRUENT, IDENT, SIMILAR, UNDEFINED, UNEQUAL
from .exception import ERR_ARG, ERR_COMM, ERR_GROUP
from .exception import Exception as MPIException
from .group import Group
from .info import INFO_NULL, Info
from .inter_collectives import InterCollectives
from .inter_objects import InterObjects


class Intercomm(InterCollectives, InterObjects, Comm):
    """A communicator that joins two groups: ranks are those of the other one.

    Parameters
    ----------
    comm : Comm, optional
        One to stand for as well.
    """

    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Self:
        """Make a handle of an intercommunicator."""
        made = super().__new__(cls, comm)
        if made and made._here.remote is None:
            raise TypeError("expecting an intercommunicator")
        return made

    def Is_inter(self) -> bool:
        """Return whether it joins two groups."""
        return self._here.remote is not None

    def Get_remote_group(self) -> Group:
        """Return the other group."""
        return Group._of(self._here.peers)

    def Get_remote_size(self) -> int:
        """Return the number of members of the other group."""
        return len(self._here.peers)

    remote_group = property(Get_remote_group, doc="The other group.")
    remote_size = property(Get_remote_size, doc="Number of members of the other group.")

    def Compare(self, comm: Comm) -> int:
        """Return IDENT, CONGRUENT (same groups), SIMILAR (in another order) or UNEQUAL."""
        here, there = self._here, comm._here
        if here.context == there.context:
            return IDENT
        if (here.group, here.remote) == (there.group, there.remote):
            return CONGRUENT
        same = there.remote is not None and sorted(here.group) == sorted(there.group)
        return SIMILAR if same and sorted(here.peers) == sorted(there.peers) else UNEQUAL

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Return an intercommunicator of the members of both groups with the same color.

        Parameters
        ----------
        color : int
            0 or more, or UNDEFINED to be in none. It is COMM_NULL where one group has no member.
        key : int
            Order in the new one; equal keys keep the old order.
        """
        if color < 0 and color != UNDEFINED:
            raise MPIException(ERR_ARG, f"color {color}; give 0 or more, or UNDEFINED")
        return self._split(None if color == UNDEFINED else color, key, "Intercomm.Split")

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Any:
        """Return an intercommunicator of those who share a part of the supernode."""
        return self._split(part_of(split_type, info), key, "Intercomm.Split_type")

    def Create(self, group: Group) -> Any:
        """Return an intercommunicator of members of both groups; all of both must call."""
        here, rank = self._here, current()
        if any(member not in here.place for member in group._members):
            raise MPIException(ERR_GROUP, "a member of the group is none of the communicator")
        told = rank.exchange(
            here.context, here.everybody, (group._members, ticket(rank)), "Intercomm.Create"
        )
        known = dict(zip(here.everybody, told, strict=True))
        theirs = known[here.peers[0]][0]
        return self._of_groups(group._members, theirs, known)

    def Merge(self, high: bool = False) -> Any:
        """Return a communicator of both groups, that of the ranks who give `high` False first."""
        here, rank = self._here, current()
        value = bool(high), ticket(rank)
        told = rank.exchange(here.context, here.everybody, value, "Intercomm.Merge")
        known = dict(zip(here.everybody, told, strict=True))
        mine, theirs = known[here.group[0]][0], known[here.peers[0]][0]
        first = here.first if mine == theirs else not mine
        members = here.group + here.peers if first else here.peers + here.group
        return handle_of(found(rank, known[members[0]][1], members))

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Group,
        local_leader: int,
        remote_group: Group,
        remote_leader: int,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Any = None,
    ) -> Any:
        """Return an intercommunicator of two groups, which no communicator must hold.

        Parameters
        ----------
        local_group, remote_group : Group
            This rank's group and the other one.
        local_leader, remote_leader : int
            Members of each, of whom nothing is asked here.
        stringtag : str
            Tells apart what the same members make at the same time.
        info, errhandler : optional
            Hints and error handler of the new one.
        """
        rank = current()
        mine, theirs = local_group._members, remote_group._members
        everybody = tuple(sorted(mine + theirs))
        meeting = meeting_context(0, everybody, stringtag)
        told = rank.exchange(meeting, everybody, ticket(rank), "Intercomm.Create_from_groups")
        tickets = dict(zip(everybody, told, strict=True))
        first = min(mine) < min(theirs)
        made = joined(rank, tickets[(mine if first else theirs)[0]], mine, theirs)
        return handle_of(made, tuple)

    def _duplicate(self, call: str, info: Info | None = None) -> Self:
        here, rank = self._here, current()
        told = rank.exchange(here.context, here.everybody, ticket(rank), call)
        handle = type(self)._of(joined(rank, told[0], here.group, here.peers))
        self._copy_attributes(handle)
        handle.Set_info(self.Get_info() if info is None else info)
        return handle

    def _split(self, color: Any, key: int, call: str) -> Any:
        here, rank = self._here, current()
        value = color, key, ticket(rank)
        told = rank.exchange(here.context, here.everybody, value, call)
        known = dict(zip(here.everybody, told, strict=True))
        if color is None:
            return handle_of(None, tuple)
        sides: list[tuple[int, ...]] = []
        for group in (here.group, here.peers):
            same = [member for member in group if known[member][0] == color]
            sides.append(tuple(sorted(same, key=lambda member: known[member][1])))
        told_on = {member: (row[1], row[2]) for member, row in known.items()}
        return self._of_groups(sides[0], sides[1], told_on)

    def _of_groups(
        self, mine: Sequence[int], theirs: Sequence[int], told: dict[int, tuple[Any, int]]
    ) -> Any:
        """Return what joins two groups, null if one is empty or this rank is in none."""
        rank = current()
        if rank.number not in mine or not theirs:
            return handle_of(None, tuple)
        first = min(mine) < min(theirs)
        context = told[(mine if first else theirs)[0]][1]
        return handle_of(joined(rank, context, tuple(mine), tuple(theirs)))


def local_side(comm: Intercomm) -> Any:
    """Return a communicator of this rank's own group alone."""
    here, rank = comm._here, current()
    if here.remote is None:
        raise MPIException(ERR_COMM, "expecting an intercommunicator")
    meeting = meeting_context(here.context, here.group, "local side")
    told = rank.exchange(meeting, here.group, ticket(rank), "Intercomm, local side")
    return handle_of(found(rank, told[0], here.group))


CLASSES[tuple] = Intercomm
