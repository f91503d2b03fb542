"""Communicators whose members are neighbours of each other."""

from collections.abc import Sequence
from operator import index
from typing import Any, Self

from .comm import Intracomm
from .communicator import CLASSES
from .exception import ERR_COMM
from .exception import Exception as MPIException
from .neighbours import Neighbours
from .topology import Cart, DistGraph, Graph, Topology


class Topocomm(Neighbours, Intracomm):
    """A communicator with a topology.

    Parameters
    ----------
    comm : Topocomm, optional
        One to stand for as well.
    """

    __slots__ = ()

    _topologies: tuple[type[Any], ...] = (Cart, Graph, DistGraph)

    def __new__(cls, comm: Intracomm | None = None) -> Self:
        """Make a handle of a communicator that has such a topology."""
        made = super().__new__(cls, comm)
        if made and not isinstance(made._here.topology, cls._topologies):
            raise TypeError(f"expecting a topology communicator of the kind {cls.__name__}")
        return made

    @property
    def _topology(self) -> Any:
        topology: Topology | None = self._here.topology
        if topology is None:
            raise MPIException(ERR_COMM, "the communicator has no topology")
        return topology

    @property
    def degrees(self) -> tuple[int, int]:
        """Number of neighbours who send to this member, and to whom it sends."""
        return self.indegree, self.outdegree

    @property
    def indegree(self) -> int:
        """Number of neighbours who send to this member."""
        return len(self.inedges)

    @property
    def outdegree(self) -> int:
        """Number of neighbours to whom this member sends."""
        return len(self.outedges)

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """Who sends to this member, and to whom it sends."""
        return self.inedges, self.outedges

    @property
    def inedges(self) -> list[int]:
        """Who sends to this member."""
        return list(self._topology.sources(self._here.rank).peers)

    @property
    def outedges(self) -> list[int]:
        """To whom this member sends."""
        return list(self._topology.destinations(self._here.rank).peers)


class Cartcomm(Topocomm):
    """A communicator whose members stand in a grid."""

    __slots__ = ()

    _topologies = (Cart,)

    def Get_dim(self) -> int:
        """Return the number of sides."""
        return len(self._topology.dims)

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Return sides, which of them are rings, and this member's coordinates."""
        grid = self._topology
        return list(grid.dims), [int(p) for p in grid.periods], self.Get_coords(self._here.rank)

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Return the member at coordinates."""
        place: int = self._topology.rank([index(coord) for coord in coords])
        return place

    def Get_coords(self, rank: int) -> list[int]:
        """Return the coordinates of a member."""
        coords: list[int] = self._topology.coords(rank)
        return coords

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return who is so far before this member on one side, and who behind it."""
        source, dest = self._topology.shift(direction, disp, self._here.rank)
        return source, dest

    def Sub(self, remain_dims: Sequence[bool]) -> "Cartcomm":
        """Return the communicator of the members who differ on some sides alone.

        Parameters
        ----------
        remain_dims : sequence of bool
            For each side whether it stays.
        """
        grid, coords = self._topology, self.Get_coords(self._here.rank)
        stays = [bool(stay) for stay in remain_dims]
        if len(stays) != len(grid.dims):
            raise ValueError(f"expecting {len(grid.dims)} items, got {len(stays)}")
        color = key = 0
        for stay, side, place in zip(stays, grid.dims, coords, strict=True):
            if stay:
                key = key * side + place
            else:
                color = color * side + place
        made = Cartcomm._of(self.Split(color, key)._here)
        made._here.topology = Cart(_chosen(grid.dims, stays), _chosen(grid.periods, stays))
        return made

    dim = property(Get_dim, doc="Number of sides.")
    ndim = property(Get_dim, doc="Number of sides.")
    topo = property(Get_topo, doc="Sides, which of them are rings, coordinates.")

    @property
    def dims(self) -> list[int]:
        """Sides."""
        return self.Get_topo()[0]

    @property
    def periods(self) -> list[int]:
        """Which sides are rings."""
        return self.Get_topo()[1]

    @property
    def coords(self) -> list[int]:
        """This member's coordinates."""
        return self.Get_topo()[2]


class Graphcomm(Topocomm):
    """A communicator whose members know one graph."""

    __slots__ = ()

    _topologies = (Graph,)

    def Get_dims(self) -> tuple[int, int]:
        """Return the number of members and of edges."""
        graph = self._topology
        return graph.size, len(graph.edges)

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """Return where each member's neighbours end, and the neighbours."""
        return list(self._topology.index), list(self._topology.edges)

    def Get_neighbors_count(self, rank: int) -> int:
        """Return the number of neighbours of a member."""
        return len(self._topology.neighbours(rank))

    def Get_neighbors(self, rank: int) -> list[int]:
        """Return the neighbours of a member."""
        return list(self._topology.neighbours(rank))

    dims = property(Get_dims, doc="Number of members and of edges.")
    topo = property(Get_topo, doc="Where each member's neighbours end, and the neighbours.")

    @property
    def nnodes(self) -> int:
        """Number of members."""
        return self.Get_dims()[0]

    @property
    def nedges(self) -> int:
        """Number of edges."""
        return self.Get_dims()[1]

    @property
    def index(self) -> list[int]:
        """Where each member's neighbours end."""
        return self.Get_topo()[0]

    @property
    def edges(self) -> list[int]:
        """The neighbours of all members."""
        return self.Get_topo()[1]

    @property
    def nneighbors(self) -> int:
        """Number of this member's neighbours."""
        return self.Get_neighbors_count(self._here.rank)

    @property
    def neighbors(self) -> list[int]:
        """This member's neighbours."""
        return self.Get_neighbors(self._here.rank)


class Distgraphcomm(Topocomm):
    """A communicator of which every member knows its own edges."""

    __slots__ = ()

    _topologies = (DistGraph,)

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        """Return how many send to this member, to how many it sends, and whether with weights."""
        graph = self._topology
        return len(graph.inward), len(graph.outward), graph.weights is not None

    def Get_dist_neighbors(
        self,
    ) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """Return who sends to this member, to whom it sends, and the weights of both or None."""
        graph = self._topology
        weights = graph.weights
        if weights is not None:
            weights = list(weights[0]), list(weights[1])
        return list(graph.inward), list(graph.outward), weights


def _chosen(values: Sequence[Any], which: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(value for value, chosen in zip(values, which, strict=True) if chosen)


CLASSES |= {Cart: Cartcomm, Graph: Graphcomm, DistGraph: Distgraphcomm}
