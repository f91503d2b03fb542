"""Virtual topologies: which members of a communicator are neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from .constants import PROC_NULL
from .exception import ERR_ARG, ERR_DIMS, ERR_RANK
from .exception import Exception as MPIException

CART, GRAPH, DIST_GRAPH = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Edges:
    """One member's neighbours on one side, in order.

    Attributes
    ----------
    peers : tuple of int
        The members; PROC_NULL where there is none.
    labels : tuple of int
        Tells apart the messages of the same two members: a message's sender and receiver have the
        same label for it.
    """

    peers: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cart:
    """A grid; the last coordinate runs fastest.

    Attributes
    ----------
    dims : tuple of int
        Sides.
    periods : tuple of bool
        Whether each side is a ring.

    Examples
    --------
    >>> grid = Cart((2, 3), (True, False))
    >>> grid.coords(4), grid.rank([-1, 0]), grid.shift(0, 1, 4), grid.shift(1, 1, 0)
    ([1, 1], 3, (1, 1), (-2, 1))
    """

    dims: tuple[int, ...]
    periods: tuple[bool, ...]

    @property
    def size(self) -> int:
        """Number of members."""
        return prod(self.dims)

    def coords(self, rank: int) -> list[int]:
        """Return the coordinates of a member."""
        if not 0 <= rank < self.size:
            raise MPIException(ERR_RANK, f"rank {rank} of a grid of {self.size}")
        found = []
        for side in reversed(self.dims):
            rank, place = divmod(rank, side)
            found.append(place)
        return found[::-1]

    def rank(self, coords: Sequence[int]) -> int:
        """Return the member at coordinates, which go around where the side is a ring."""
        if len(coords) != len(self.dims):
            raise ValueError(f"expecting {len(self.dims)} items, got {len(coords)}")
        rank = 0
        for place, side, ring in zip(coords, self.dims, self.periods, strict=True):
            if not ring and not 0 <= place < side:
                raise MPIException(ERR_ARG, f"coordinate {place} of a side of {side}, no ring")
            rank = rank * side + place % side
        return rank

    def shift(self, direction: int, step: int, rank: int) -> tuple[int, int]:
        """Return who is `step` before a member on one side, and who behind it."""
        if not 0 <= direction < len(self.dims):
            raise MPIException(ERR_DIMS, f"side {direction} of {len(self.dims)}")
        here = self.coords(rank)
        found = []
        for way in (-step, step):
            there = list(here)
            there[direction] += way
            inside = self.periods[direction] or 0 <= there[direction] < self.dims[direction]
            found.append(self.rank(there) if inside else PROC_NULL)
        return found[0], found[1]

    def sources(self, rank: int) -> Edges:
        """Return who sends to a member: for each side the one before, then the one behind.

        What comes from before was sent to behind: its label is that of the sender's other edge
        (MPI 4.1, section 8.6).
        """
        peers = self._neighbours(rank)
        return Edges(peers, tuple(edge ^ 1 for edge in range(len(peers))))

    def destinations(self, rank: int) -> Edges:
        """Return whom a member sends to."""
        peers = self._neighbours(rank)
        return Edges(peers, tuple(range(len(peers))))

    def _neighbours(self, rank: int) -> tuple[int, ...]:
        pairs = [self.shift(direction, 1, rank) for direction in range(len(self.dims))]
        return tuple(peer for pair in pairs for peer in pair)


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that every member knows.

    Attributes
    ----------
    index : tuple of int
        Where the neighbours of each member end in `edges`.
    edges : tuple of int
        The neighbours of all members, one after the other.
    """

    index: tuple[int, ...]
    edges: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.index)

    def neighbours(self, rank: int) -> tuple[int, ...]:
        """Return the neighbours of a member."""
        if not 0 <= rank < self.size:
            raise MPIException(ERR_RANK, f"rank {rank} of a graph of {self.size}")
        first, end = list(pairwise((0, *self.index)))[rank]
        return self.edges[first:end]

    def sources(self, rank: int) -> Edges:
        """Return who sends to a member."""
        return self.destinations(rank)

    def destinations(self, rank: int) -> Edges:
        """Return whom a member sends to."""
        peers = self.neighbours(rank)
        return Edges(peers, (0,) * len(peers))


@dataclass(frozen=True, slots=True)
class DistGraph:
    """A graph of which every member knows its own edges.

    Attributes
    ----------
    inward, outward : tuple of int
        Who sends to this member, and whom it sends to.
    weights : tuple of (tuple of int, tuple of int), or None
        Weights of both, None where there are none.
    """

    inward: tuple[int, ...]
    outward: tuple[int, ...]
    weights: tuple[tuple[int, ...], tuple[int, ...]] | None

    def sources(self, rank: int) -> Edges:
        """Return who sends to this member."""
        return Edges(self.inward, (0,) * len(self.inward))

    def destinations(self, rank: int) -> Edges:
        """Return whom this member sends to."""
        return Edges(self.outward, (0,) * len(self.outward))


Topology = Cart | Graph | DistGraph


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
    given = [0] * dims if isinstance(dims, int) else [int(side) for side in dims]
    fixed = prod(side or 1 for side in given)
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
