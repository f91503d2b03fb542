"""Communicators: who talks to whom."""

import sys
from types import NoneType
from typing import Any, NoReturn, Self

from ubnet.rank import current

from .buffer_collectives import BufferCollectives
from .buffer_messages import BufferMessages
from .buffer_reductions import BufferReductions
from .comm_makers import CommMakers, GroupMakers
from .communicator import CLASSES, SELF, WORLD, Communicator
from .constants import CONGRUENT, IDENT, LARGEST_TAG, MAX_OBJECT_NAME, SIMILAR, UNDEFINED, UNEQUAL
from .errhandler import ErrorHandling
from .exception import ERR_COMM, ERR_LASTCODE
from .exception import Exception as MPIException
from .group import Group
from .object_collectives import ObjectCollectives
from .object_messages import ObjectMessages
from .probes import Probes
from .scans import Scans
from .send_buffers import SendBuffers
from .third_tier import AbsentCalls, AbsentIntraCalls
from .topology import CART, DIST_GRAPH, GRAPH, Cart, DistGraph, Graph
from .topology_makers import TopologyMakers

TAG_UB, HOST, IO, WTIME_IS_GLOBAL, APPNUM, LASTUSEDCODE, UNIVERSE_SIZE = range(7)
"""What asks for a predefined attribute of a communicator."""


class Comm(
    BufferMessages,
    ObjectMessages,
    Probes,
    BufferCollectives,
    BufferReductions,
    ObjectCollectives,
    CommMakers,
    SendBuffers,
    ErrorHandling,
    AbsentCalls,
):
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
        return self._here.name if self else "MPI_COMM_NULL"

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
        return self._here.remote is not None

    def Is_intra(self) -> bool:
        """Return whether it has one group."""
        return not self.Is_inter()

    def Get_topology(self) -> int:
        """Return CART, GRAPH, DIST_GRAPH, or UNDEFINED where there is no topology."""
        kinds: dict[type[Any], int] = {Cart: CART, Graph: GRAPH, DistGraph: DIST_GRAPH}
        return kinds.get(type(self._here.topology), UNDEFINED)

    topology = property(Get_topology, doc="The kind of its topology.")

    @property
    def is_topo(self) -> bool:
        """Whether it has a topology."""
        return bool(self) and self._here.topology is not None

    def Compare(self, comm: "Comm") -> int:
        """Return IDENT, CONGRUENT (same members), SIMILAR (in another order) or UNEQUAL."""
        here, there = self._here, comm._here
        if here.context == there.context:
            return IDENT
        if here.group == there.group:
            return CONGRUENT
        return SIMILAR if sorted(here.group) == sorted(there.group) else UNEQUAL

    def Free(self) -> None:
        """Let it go; the handle is COMM_NULL then."""
        here = self._here
        if self._name in ("COMM_WORLD", "COMM_SELF"):
            raise MPIException(ERR_COMM, f"{here.name} cannot be freed")
        self._drop_attributes()
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

    def _owner(self) -> Communicator:
        return self._here

    def _predefined_attribute(self, keyval: int) -> int | None:
        rank = current()
        return {
            TAG_UB: LARGEST_TAG,
            IO: rank.number,
            WTIME_IS_GLOBAL: 1,
            APPNUM: 0,
            LASTUSEDCODE: ERR_LASTCODE,
            UNIVERSE_SIZE: rank.host.size,
        }.get(keyval)


class Intracomm(Scans, TopologyMakers, GroupMakers, AbsentIntraCalls, Comm):
    """A communicator of one group.

    Parameters
    ----------
    comm : Comm, optional
        One to stand for as well.
    """

    __slots__ = ()

    def __new__(cls, comm: Comm | None = None) -> Self:
        """Make a handle of a communicator of one group."""
        made = super().__new__(cls, comm)
        if made and made.Is_inter():
            raise TypeError("expecting an intracommunicator")
        return made


Comm._kind = Comm
CLASSES[NoneType] = Intracomm

COMM_NULL = Comm._of(None, "COMM_NULL")
COMM_WORLD = Intracomm._of(WORLD, "COMM_WORLD")
COMM_SELF = Intracomm._of(SELF, "COMM_SELF")
