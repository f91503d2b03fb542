"""How communicators are made of others."""

from typing import Any, Self

from ubnet.rank import current

from .attributes import Attributes
from .communicator import (
    CommHandle,
    found,
    handle_of,
    joined,
    meeting_context,
    positions,
    ticket,
)
from .constants import UNDEFINED
from .exception import ERR_ARG, ERR_COMM, ERR_GROUP
from .exception import Exception as MPIException
from .group import Group
from .info import INFO_NULL, Info
from .kept import kept
from .operation import Operation
from .request import Request

COMM_TYPE_SHARED = 0
COMM_TYPE_HW_UNGUIDED, COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED = 12, 13, 14

LEVELS = ("node", "npu", "die")
"""The parts of a supernode that an endpoint's name names, the largest first."""


class CommMakers(CommHandle, Attributes):
    """The calls that make communicators."""

    __slots__ = ()

    def Dup(self, info: Info | None = None) -> Self:
        """Return a communicator of the same members, with the attributes that are copied."""
        return self._duplicate("Comm.Dup", info)

    def Dup_with_info(self, info: Info) -> Self:
        """Return a communicator of the same members with hints."""
        return self._duplicate("Comm.Dup_with_info", info)

    def Clone(self) -> Self:
        """Return a communicator of the same members."""
        return self._duplicate("Comm.Clone")

    def Idup(self, info: Info | None = None) -> tuple[Self, Request]:
        """Return a communicator of the same members, and a request that ends when it is ready."""
        return self._duplicate("Comm.Idup", info), Request._of(Operation())

    def Idup_with_info(self, info: Info) -> tuple[Self, Request]:
        """Return a communicator of the same members with hints, and a request."""
        return self._duplicate("Comm.Idup_with_info", info), Request._of(Operation())

    def Get_info(self) -> Info:
        """Return the hints."""
        return Info.Create(_hints().get(self._here.context, {}))

    def Set_info(self, info: Info) -> None:
        """Give hints, which change nothing."""
        _hints()[self._here.context] = dict(info.items())

    info = property(Get_info, Set_info, doc="Its hints.")

    def Split(self, color: int = 0, key: int = 0) -> Any:
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
            return handle_of(None)
        mine = [(told[r][1], r) for r in range(here.size) if told[r][0] == color]
        order = [r for _, r in sorted(mine)]
        return handle_of(found(rank, told[order[0]][2], [here.group[r] for r in order]))

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Any:
        """Return a communicator of the members who share a part of the supernode.

        Parameters
        ----------
        split_type : int
            COMM_TYPE_SHARED: a node; COMM_TYPE_HW_GUIDED and COMM_TYPE_RESOURCE_GUIDED: what the
            hint ``mpi_hw_resource_type`` names, ``mpi_shared_memory``, ``node``, ``npu`` or
            ``die``; COMM_TYPE_HW_UNGUIDED: the next smaller part, which the hint says then;
            UNDEFINED: none.
        key : int
            Order in the new one; equal keys keep the old order.
        info : Info
            Hints.
        """
        here, rank = self._here, current()
        place = part_of(split_type, info)
        told = rank.exchange(
            here.context, here.group, (place, key, ticket(rank)), "Comm.Split_type"
        )
        places = [place for place, _, _ in told]
        if split_type == COMM_TYPE_HW_UNGUIDED:
            names = [rank.host.endpoint_names[member] for member in here.group]
            level, places = _next_smaller(names)
            if info and level:
                info.Set("mpi_hw_resource_type", level)
        mine = places[here.rank]
        if mine is None:
            return handle_of(None)
        order = sorted((told[r][1], r) for r in range(here.size) if places[r] == mine)
        members = [here.group[r] for _, r in order]
        return handle_of(found(rank, told[order[0][1]][2], members))

    def Create(self, group: Group) -> Any:
        """Return a communicator of the members of a group; all members of this one must call."""
        here, rank = self._here, current()
        members = group._members
        if any(member not in here.place for member in members):
            raise MPIException(ERR_GROUP, "a member of the group is none of the communicator")
        told = rank.exchange(here.context, here.group, (members, ticket(rank)), "Comm.Create")
        if rank.number not in positions(members):
            return handle_of(None)
        for member in members:
            other = told[here.place[member]][0]
            if other != members:
                raise MPIException(
                    ERR_GROUP,
                    f"Create: this rank gave members {members[:16]} and rank "
                    f"{here.place[member]} gave {other[:16]}",
                )
        return handle_of(found(rank, told[here.place[members[0]]][1], members))

    def _duplicate(self, call: str, info: Info | None = None) -> Self:
        here, rank = self._here, current()
        told = rank.exchange(here.context, here.group, ticket(rank), call)
        made = found(rank, told[0], here.group)
        assert made is not None
        made.topology = here.topology
        handle = type(self)._of(made)
        self._copy_attributes(handle)
        hints = self.Get_info() if info is None else info
        if hints:
            handle.Set_info(hints)
        return handle


class GroupMakers(CommHandle):
    """The calls that make a communicator without all members of this one, or with other ranks."""

    __slots__ = ()

    def Create_group(self, group: Group, tag: int = 0) -> Any:
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
            return handle_of(None)
        if any(member not in here.place for member in members):
            raise MPIException(ERR_GROUP, "a member of the group is none of the communicator")
        meeting = meeting_context(here.context, members, tag)
        told = rank.exchange(meeting, members, ticket(rank), "Intracomm.Create_group")
        return handle_of(found(rank, told[0], members))

    @classmethod
    def Create_from_group(
        cls,
        group: Group,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Any = None,
    ) -> Any:
        """Return a communicator of the members of a group, which no communicator must hold.

        Parameters
        ----------
        group : Group
            The members.
        stringtag : str
            Tells apart what the same members make at the same time.
        info, errhandler : optional
            Hints and error handler of the new one.
        """
        rank, members = current(), group._members
        if rank.number not in positions(members):
            return handle_of(None)
        meeting = meeting_context(0, members, stringtag)
        told = rank.exchange(meeting, members, ticket(rank), "Intracomm.Create_from_group")
        made = handle_of(found(rank, told[0], members))
        if info:
            made.Set_info(info)
        if errhandler:
            made.Set_errhandler(errhandler)
        return made

    def Create_intercomm(
        self, local_leader: int, peer_comm: CommHandle, remote_leader: int, tag: int = 0
    ) -> Any:
        """Return an intercommunicator that joins this communicator's members to other ones.

        Parameters
        ----------
        local_leader : int
            The member who speaks for them.
        peer_comm : Comm
            What the leaders of both sides talk on; nobody else's is looked at.
        remote_leader : int
            The other leader's rank on it.
        tag : int
            Tag of the leaders' messages.
        """
        here, rank = self._here, current()
        leader = here.check_root(local_leader)
        told = rank.exchange(here.context, here.group, ticket(rank), "Intracomm.Create_intercomm")
        other = None
        if here.rank == leader:
            talk: Any = peer_comm
            other = talk.sendrecv(
                (here.group, told[0]), remote_leader, tag, source=remote_leader, recvtag=tag
            )
        known = rank.exchange(here.context, here.group, other, "Intracomm.Create_intercomm")
        theirs, their_ticket = known[leader]
        if any(member in here.place for member in theirs):
            raise MPIException(ERR_COMM, "Create_intercomm: the two groups have members in common")
        context = told[0] if min(here.group) < min(theirs) else their_ticket
        return handle_of(joined(rank, context, here.group, tuple(theirs)))


def _hints() -> dict[int, dict[str, str]]:
    hints: dict[int, dict[str, str]] = kept("hints of communicators")
    return hints


def part_of(split_type: int, info: Info) -> str | None:
    """Return the part of the supernode that this rank shares by a kind of split, None if none."""
    rank, level = current(), _level(split_type, info)
    return None if level is None else _part(rank.host.endpoint_names[rank.number], level)


def _level(split_type: int, info: Info) -> str | None:
    """Return which part of the supernode a kind of split is by, None if by none."""
    if split_type == COMM_TYPE_SHARED:
        return "node"
    if split_type in (COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED):
        wanted = info.get("mpi_hw_resource_type", "")
        wanted = "node" if wanted == "mpi_shared_memory" else wanted
        return wanted if wanted in LEVELS else None
    if split_type not in (UNDEFINED, COMM_TYPE_HW_UNGUIDED):
        raise MPIException(ERR_ARG, f"{split_type} is no kind of split; give COMM_TYPE_SHARED ...")
    return None


def _part(name: str, level: str) -> str:
    """Return the part of the supernode that an endpoint lies in.

    >>> _part("node03.npu5.die1", "npu")
    'node03.npu5'
    """
    return ".".join(name.split(".")[: LEVELS.index(level) + 1])


def _next_smaller(names: list[str]) -> tuple[str, list[str] | list[None]]:
    """Return the largest level that not all endpoints share, and the part of each endpoint."""
    for level in LEVELS:
        parts = [_part(name, level) for name in names]
        if len(dict.fromkeys(parts)) > 1:
            return level, parts
    return "", [None] * len(names)
