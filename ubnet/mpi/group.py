"""Groups of ranks, in an order of their own."""

from collections.abc import Iterable, Sequence

from ubnet.rank import current

from .communicator import positions
from .constants import IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from .exception import ERR_ARG, ERR_GROUP, ERR_RANK
from .exception import Exception as MPIException
from .handle import Handle
from .third_tier import absent


class Group(Handle):
    """An ordered set of ranks.

    Examples
    --------
    >>> pair = Group._of((4, 2))
    >>> pair.Get_size(), Group.Union(pair, Group._of((2, 7)))._members
    (2, (4, 2, 7))
    """

    __slots__ = ()

    Create_from_session_pset = absent("Group.Create_from_session_pset")

    @property
    def _members(self) -> tuple[int, ...]:
        if self._ref is None:
            raise MPIException(ERR_GROUP, "the group is GROUP_NULL")
        members: tuple[int, ...] = self._ref
        return members

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return bool(self._ref == other._ref)

    def Get_size(self) -> int:
        """Return the number of members."""
        return len(self._members)

    def Get_rank(self) -> int:
        """Return which member this rank is, UNDEFINED if none."""
        return positions(self._members).get(current().number, UNDEFINED)

    def Translate_ranks(
        self, ranks: Sequence[int] | None = None, group: "Group | None" = None
    ) -> list[int]:
        """Return which members of another group these are, UNDEFINED where none.

        Parameters
        ----------
        ranks : sequence of int, optional
            Members of this group, by default all.
        group : Group, optional
            The other group, by default that of the world.
        """
        there = None if group is None else positions(group._members)
        chosen = range(len(self._members)) if ranks is None else ranks
        found = []
        for rank in chosen:
            if rank == PROC_NULL:
                found.append(PROC_NULL)
                continue
            world = self._members[self._check(rank)]
            found.append(world if there is None else there.get(world, UNDEFINED))
        return found

    def Compare(self, group: "Group") -> int:
        """Return IDENT, SIMILAR (another order) or UNEQUAL."""
        mine, theirs = self._members, group._members
        if mine == theirs:
            return IDENT
        return SIMILAR if sorted(mine) == sorted(theirs) else UNEQUAL

    def Dup(self) -> "Group":
        """Return a group of the same members."""
        return type(self)._of(self._members)

    @classmethod
    def Union(cls, group1: "Group", group2: "Group") -> "Group":
        """Return the members of the first group, then those of the second alone."""
        return cls._of(tuple(dict.fromkeys((*group1._members, *group2._members))))

    @classmethod
    def Intersection(cls, group1: "Group", group2: "Group") -> "Group":
        """Return the members of the first group that are in the second."""
        there = positions(group2._members)
        return cls._of(tuple(m for m in group1._members if m in there))

    @classmethod
    def Difference(cls, group1: "Group", group2: "Group") -> "Group":
        """Return the members of the first group that are not in the second."""
        there = positions(group2._members)
        return cls._of(tuple(m for m in group1._members if m not in there))

    Intersect = Intersection

    def Incl(self, ranks: Sequence[int]) -> "Group":
        """Return the members of these numbers, in this order."""
        return type(self)._of(tuple(self._members[r] for r in self._distinct(ranks)))

    def Excl(self, ranks: Sequence[int]) -> "Group":
        """Return the other members."""
        left_out = positions(tuple(self._distinct(ranks)))
        return type(self)._of(tuple(m for r, m in enumerate(self._members) if r not in left_out))

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> "Group":
        """Return the members of ranges (first, last, stride), the last included."""
        return self.Incl(_unroll(ranks))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> "Group":
        """Return the members outside of ranges (first, last, stride)."""
        return self.Excl(_unroll(ranks))

    def Free(self) -> None:
        """Free the group; the handle is GROUP_NULL then."""
        _ = self._members
        self._let_go()

    size = property(Get_size, doc="Number of members.")
    rank = property(Get_rank, doc="Which member this rank is.")

    def _check(self, rank: int) -> int:
        if not 0 <= rank < len(self._members):
            raise MPIException(ERR_RANK, f"rank {rank} of a group of {len(self._members)}")
        return rank

    def _distinct(self, ranks: Iterable[int]) -> list[int]:
        chosen = [self._check(rank) for rank in ranks]
        if len(positions(tuple(chosen))) < len(chosen):
            raise MPIException(ERR_RANK, f"ranks {chosen[:16]} name a member twice")
        return chosen


Group._kind = Group


def _unroll(ranges: Sequence[tuple[int, int, int]]) -> list[int]:
    ranks: list[int] = []
    for first, last, stride in ranges:
        if stride == 0:
            raise MPIException(ERR_ARG, f"range ({first}, {last}, {stride}): the stride is zero")
        ranks += range(first, last + (1 if stride > 0 else -1), stride)
    return ranks


GROUP_NULL = Group._of(None, "GROUP_NULL")
GROUP_EMPTY = Group._of((), "GROUP_EMPTY")
