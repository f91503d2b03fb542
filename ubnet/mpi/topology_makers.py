"""How communicators with a topology are made."""

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

from ubnet.rank import current

from .communicator import CommHandle, found, handle_of, ticket
from .constants import UNDEFINED
from .exception import ERR_ARG, ERR_RANK, ERR_TOPOLOGY
from .exception import Exception as MPIException
from .info import INFO_NULL, Info
from .topology import Cart, DistGraph, Graph, Topology

UNWEIGHTED, WEIGHTS_EMPTY = 2, 3
"""In the place of weights: none at all; and for a member without edges, none of its own."""

Weights = Sequence[int] | int | None


class TopologyMakers(CommHandle):
    """The calls of an intracommunicator that make one with a topology."""

    __slots__ = ()

    def Create_cart(
        self,
        dims: Sequence[int],
        periods: Sequence[bool] | bool | None = None,
        reorder: bool = False,
    ) -> Any:
        """Return a communicator whose members stand in a grid; COMM_NULL for those left over.

        Parameters
        ----------
        dims : sequence of int
            Sides of the grid.
        periods : sequence of bool, or bool
            Whether each side is a ring; by default none is.
        reorder : bool
            Whether ranks may change, which they do not.
        """
        grid = _cart(dims, periods)
        if grid.size > self._here.size:
            raise MPIException(
                ERR_ARG,
                f"a grid of {grid.dims} has {grid.size} places, more than the "
                f"{self._here.size} members",
            )
        return _with_topology(self, "Create_cart", grid, grid.size, agreed=grid)

    def Create_graph(
        self, index: Sequence[int], edges: Sequence[int], reorder: bool = False
    ) -> Any:
        """Return a communicator whose members know one graph; COMM_NULL for those left over.

        Parameters
        ----------
        index : sequence of int
            Where the neighbours of each member end in `edges`; it may begin with a 0.
        edges : sequence of int
            The neighbours of all members.
        reorder : bool
            Whether ranks may change, which they do not.
        """
        graph = _graph(index, edges)
        if graph.size > self._here.size:
            raise MPIException(
                ERR_ARG, f"a graph of {graph.size} members, more than the {self._here.size}"
            )
        return _with_topology(self, "Create_graph", graph, graph.size, agreed=graph)

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int] | None,
        destinations: Sequence[int] | None,
        sourceweights: Weights = None,
        destweights: Weights = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Any:
        """Return a communicator of which every member gives its own edges.

        Parameters
        ----------
        sources, destinations : sequence of int
            Who sends to this member, and whom it sends to.
        sourceweights, destweights : sequence of int, optional
            Weights of them; UNWEIGHTED or None: there are none.
        info, reorder : optional
            Hints; ranks do not change.
        """
        inward, outward = _members(self, sources), _members(self, destinations)
        weights = None
        if not (_unweighted(sourceweights) and _unweighted(destweights)):
            weights = _weights(sourceweights, inward), _weights(destweights, outward)
        graph = DistGraph(inward, outward, weights)
        return _with_topology(self, "Create_dist_graph_adjacent", graph, self._here.size)

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Weights = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Any:
        """Return a communicator of which every member gives some edges, of whomever.

        Parameters
        ----------
        sources, degrees : sequence of int
            Members, and how many of the destinations are theirs.
        destinations : sequence of int
            Whom they send to.
        weights : sequence of int, optional
            A weight for each destination.
        info, reorder : optional
            Hints; ranks do not change.
        """
        here, rank = self._here, current()
        begins = _members(self, sources)
        counts = [index(degree) for degree in degrees]
        if len(counts) != len(begins):
            raise ValueError(f"expecting {len(begins)} items, got {len(counts)}")
        ends = _members(self, destinations)
        if len(ends) != sum(counts):
            raise ValueError(f"expecting {sum(counts)} items, got {len(ends)}")
        heavy = None if _unweighted(weights) else _weights(weights, ends)
        starts = [source for source, n in zip(begins, counts, strict=True) for _ in range(n)]
        told = rank.exchange(
            here.context, here.group, (starts, ends, heavy), "Intracomm.Create_dist_graph"
        )
        graph = _own_edges(here.rank, told)
        return _with_topology(self, "Create_dist_graph", graph, here.size)

    def Cart_map(self, dims: Sequence[int], periods: Sequence[bool] | bool | None = None) -> int:
        """Return which place of a grid this member would have, UNDEFINED if none."""
        grid = _cart(dims, periods)
        return self._here.rank if self._here.rank < grid.size else UNDEFINED

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        """Return which place of a graph this member would have, UNDEFINED if none."""
        graph = _graph(index, edges)
        return self._here.rank if self._here.rank < graph.size else UNDEFINED


def _with_topology(
    comm: CommHandle, call: str, topology: Topology, size: int, agreed: Topology | None = None
) -> Any:
    """Return a communicator of the first members, who have a topology then."""
    here, rank = comm._here, current()
    value = ticket(rank), agreed
    told = rank.exchange(here.context, here.group, value, f"Intracomm.{call}")
    for other, (_, theirs) in enumerate(told):
        if theirs != agreed:
            raise MPIException(
                ERR_TOPOLOGY, f"{call}: this rank gave {agreed} and rank {other} gave {theirs}"
            )
    made = found(rank, told[0][0], here.group[:size])
    if made is not None:
        made.topology = topology
    return handle_of(made, type(topology))


def _cart(dims: Sequence[int], periods: Sequence[bool] | bool | None) -> Cart:
    sides = tuple(index(side) for side in dims)
    if periods is None or isinstance(periods, bool):
        periods = [bool(periods)] * len(sides)
    rings = tuple(bool(ring) for ring in periods)
    if len(rings) != len(sides):
        raise ValueError(f"expecting {len(sides)} items, got {len(rings)}")
    if prod(sides) < 1 or any(side < 1 for side in sides):
        raise MPIException(ERR_ARG, f"sides {sides} of a grid; give 1 or more")
    return Cart(sides, rings)


def _graph(ends: Sequence[int], edges: Sequence[int]) -> Graph:
    places, others = tuple(index(end) for end in ends), tuple(index(edge) for edge in edges)
    if len(places) > 1 and places[0] == 0 and places[-1] == len(others):
        places = places[1:]
    if list(places) != sorted(places) or (places and places[-1] > len(others)):
        raise MPIException(ERR_ARG, f"index {places[:8]} of {len(others)} edges")
    if any(not 0 <= other < len(places) for other in others):
        raise MPIException(ERR_ARG, f"an edge to none of the {len(places)} members")
    return Graph(places, others)


def _members(comm: CommHandle, ranks: Sequence[int] | None) -> tuple[int, ...]:
    members = tuple(index(rank) for rank in ranks or ())
    for member in members:
        if not 0 <= member < comm._here.size:
            raise MPIException(ERR_RANK, f"rank {member} of a communicator of {comm._here.size}")
    return members


def _unweighted(weights: Weights) -> bool:
    return weights is None or (isinstance(weights, int) and weights == UNWEIGHTED)


def _weights(weights: Weights, edges: Sequence[int]) -> tuple[int, ...]:
    if _unweighted(weights):
        return (1,) * len(edges)
    given = () if isinstance(weights, int) or weights is None else tuple(weights)
    if len(given) != len(edges):
        raise ValueError(f"expecting {len(edges)} items, got {len(given)}")
    return tuple(index(weight) for weight in given)


def _own_edges(rank: int, told: Sequence[Any]) -> DistGraph:
    """Return the edges of one member of those that all have given."""
    sides: list[list[tuple[int, int]]] = [[], []]
    for starts, ends, heavy in told:
        for edge, (start, end) in enumerate(zip(starts, ends, strict=True)):
            weight = 1 if heavy is None else heavy[edge]
            if end == rank:
                sides[0].append((start, weight))
            if start == rank:
                sides[1].append((end, weight))
    inward, outward = (tuple(peer for peer, _ in side) for side in sides)
    of_in, of_out = (tuple(weight for _, weight in side) for side in sides)
    weighted = all(heavy is not None for _, _, heavy in told)
    return DistGraph(inward, outward, (of_in, of_out) if weighted else None)
