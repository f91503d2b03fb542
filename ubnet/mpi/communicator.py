"""What a communicator's handle stands for: the members and the context, as one rank sees them."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import index
from threading import Lock
from types import NoneType
from typing import Any

from ubnet.rank import Rank, current

from .constants import ANY_SOURCE, ANY_TAG, LARGEST_TAG, PROC_NULL
from .exception import ERR_COMM, ERR_RANK, ERR_ROOT, ERR_TAG
from .exception import Exception as MPIException
from .handle import Handle

Group = tuple[int, ...]


@lru_cache(maxsize=1024)
def positions(group: Group) -> dict[int, int]:
    """Return the place of each world rank in a group; ranks that share a process share it."""
    return {world: place for place, world in enumerate(group)}


def _whole(what: str, given: Any) -> int:
    try:
        return index(given)
    except TypeError:
        if isinstance(given, float) and given.is_integer():
            return int(given)  # as in mpi4py: `comm.size / 2` is a rank
        raise TypeError(f"{what} is {given!r}; give a whole number, such as 0") from None


@dataclass(slots=True, eq=False)
class Communicator:
    """Members who talk among themselves.

    Attributes
    ----------
    context : int
        The number that keeps their messages apart from others'.
    group : tuple of int
        World ranks of the members.
    rank : int
        Which of them this rank is.
    name : str
        What the program calls it.
    topology : Topology or None
        Which members are neighbours.
    remote : tuple of int or None
        Of an intercommunicator the world ranks of the other group.
    first : bool
        Whether this rank's group comes first where both are counted through.
    locks : dict
        What guards each kind of call, for programs that look.
    inner : Comm or None
        A communicator of the same members for mpi4py's helper modules.
    inner_calls : int
        How often they have asked for it.
    """

    context: int
    group: Group
    rank: int
    name: str = ""
    topology: Any = None
    remote: Group | None = None
    first: bool = True
    locks: dict[str, Lock] = field(default_factory=dict)
    inner: Any = None
    inner_calls: int = 0
    place: dict[int, int] = field(init=False)
    peers: Group = field(init=False)
    peer_place: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.place = positions(self.group)
        self.peers = self.group if self.remote is None else self.remote
        self.peer_place = positions(self.peers)

    @property
    def everybody(self) -> Group:
        """World ranks of all who take part in a collective call."""
        if self.remote is None:
            return self.group
        return self.group + self.remote if self.first else self.remote + self.group

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.group)

    def world(self, rank: int, also: int = PROC_NULL) -> int:
        """Return the world rank of a member; PROC_NULL, and what is `also` allowed, stay.

        Raises
        ------
        Exception
            Of class ERR_RANK.
        """
        if type(rank) is not int:
            rank = _whole("rank", rank)
        if 0 <= rank < len(self.peers):
            return self.peers[rank]
        if rank in (PROC_NULL, also):
            return rank
        any_too = ", or ANY_SOURCE" if also == ANY_SOURCE else ""
        raise MPIException(
            ERR_RANK,
            f"rank {rank} of a communicator of {len(self.peers)}; give 0 to "
            f"{len(self.peers) - 1}, or PROC_NULL{any_too}",
        )

    def check_root(self, root: int) -> int:
        """Return the root if it is a member; the error is of class ERR_ROOT."""
        root = _whole("root", root)
        if 0 <= root < len(self.group):
            return root
        raise MPIException(
            ERR_ROOT,
            f"root {root} of a communicator of {len(self.group)}; give 0 to {len(self.group) - 1}",
        )

    def source(self, world: int) -> int:
        """Return which member a world rank is; negative numbers stay."""
        return self.peer_place[world] if world >= 0 else world


def inner_lock(here: Communicator, key: str) -> Lock:
    """Return the lock of one kind of call, made when it is asked for first."""
    lock = here.locks.get(key)
    if lock is None:
        lock = here.locks[key] = Lock()
    return lock


def check_tag(tag: int, also: int = 0) -> int:
    """Return the tag if it is allowed, as ANY_TAG may `also` be; the error is of class ERR_TAG."""
    if 0 <= tag <= LARGEST_TAG or tag == also:
        return tag
    raise MPIException(
        ERR_TAG, f"tag {tag}; give 0 to {LARGEST_TAG}" + (", or ANY_TAG" if also == ANY_TAG else "")
    )


class Predefined:
    """A communicator that every rank has from the start: which one, the running rank decides.

    Parameters
    ----------
    name : str
        ``COMM_WORLD`` or ``COMM_SELF``.
    make : callable
        Makes the communicator of a rank.
    """

    def __init__(self, name: str, make: Callable[[Rank], Communicator]) -> None:
        self.name = name
        self.make = make

    def of_running_rank(self) -> Communicator:
        """Return the communicator of the rank that is running."""
        rank = current()
        found: Communicator | None = rank.kept.get(self.name)
        if found is None:
            found = rank.kept[self.name] = self.make(rank)
            rank.host.labels[found.context] = found.name
        return found


def _world(rank: Rank) -> Communicator:
    return Communicator(0, _everybody(rank.host.size), rank.number, "MPI_COMM_WORLD")


def _self(rank: Rank) -> Communicator:
    return Communicator(1 + rank.number, (rank.number,), 0, "MPI_COMM_SELF")


@lru_cache(maxsize=4)
def _everybody(size: int) -> Group:
    return tuple(range(size))


WORLD = Predefined("COMM_WORLD", _world)
SELF = Predefined("COMM_SELF", _self)


class CommHandle(Handle):
    """A handle of a communicator: what all kinds of calls on it need."""

    __slots__ = ()

    @property
    def _here(self) -> Communicator:
        """The communicator as the running rank sees it."""
        ref = self._ref
        if type(ref) is Communicator:
            return ref
        if ref is None:
            raise MPIException(ERR_COMM, "the communicator is COMM_NULL")
        found: Communicator = ref.of_running_rank()
        return found


CLASSES: dict[type[Any], type[CommHandle]] = {}
"""The class of handles by that of the topology: NoneType where there is none, and tuple for an
intercommunicator, whose other group is one."""


def handle_of(communicator: Communicator | None, topology: type[Any] = NoneType) -> Any:
    """Return the handle of a communicator, a null one of the class of a topology if it is None."""
    kind = topology
    if communicator is not None:
        kind = type(communicator.topology if communicator.remote is None else communicator.remote)
    return CLASSES[kind]._of(communicator)


def ticket(rank: Rank) -> int:
    """Return the context that a communicator gets if this rank is its first member.

    Every rank counts its own, so that no two communicators ever have the same: all members ask
    for one, tell each other, and take that of the first.
    """
    count: int = rank.kept.get("communicators", 0)
    return 1 + rank.host.size * (1 + count) + rank.number


def found(rank: Rank, context: int, group: Iterable[int]) -> Communicator | None:
    """Return the new communicator as `rank` sees it, None where it is no member."""
    members = tuple(group)
    if rank.number not in positions(members):
        return None
    if members[0] == rank.number:
        rank.kept["communicators"] = rank.kept.get("communicators", 0) + 1
    return Communicator(context, members, positions(members)[rank.number])


def joined(rank: Rank, context: int, local: Group, remote: Group) -> Communicator:
    """Return the new intercommunicator of two groups as `rank` sees it, who is in the first.

    The context is the ticket of the first member of the group with the lowest world rank.
    """
    first = min(local) < min(remote)
    if first:
        found(rank, context, local)
    place = positions(local)[rank.number]
    return Communicator(context, local, place, remote=remote, first=first)


def meeting_context(context: int, group: Group, tag: int | str) -> int:
    """Return a context for an agreement among some members of a communicator only.

    It is negative, so that it is none of those that communicators have.
    """
    digest = hashlib.blake2b(repr((context, group, tag)).encode(), digest_size=7).digest()
    return -1 - int.from_bytes(digest, "big")
