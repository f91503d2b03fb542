"""Where experts stand: any expert on any ranks, in one slot or in several (replicas).

Ranks have equal numbers of slots; a slot holds one expert. Dispatch and combine know slots only:
a `Placement` turns the experts that a gate chose into slots, replicas in turn, so that they are
balanced. Shared experts, which every token takes with weight 1, have slots of their own.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.compressed_rows import pointers
from ubnet.errors import OptionError
from ubnet.fabric import Floats, Ints

from .routing import NO_EXPERT, check_routing


@dataclass(frozen=True, eq=False)
class Placement:
    """Which expert each slot holds; slots lie in equal contiguous blocks on the ranks.

    Attributes
    ----------
    expert_of : ndarray of int64, shape (slots,)
        The expert in each slot, -1 = an empty slot or one that holds a shared expert.
    ranks : int
        Number of ranks.
    shared : ndarray of int64
        Slots that hold a copy of the shared expert; each rank sends all of its tokens to one.

    Raises
    ------
    OptionError
        If the slots do not fall into equal blocks, or an expert has no slot.

    Examples
    --------
    Expert 0 in two slots, on both of two ranks:

    >>> placement = Placement(np.array([0, 1, 0, 2]), ranks=2)
    >>> placement.slots_of(np.array([[0], [0], [2]]), rank=0).tolist()
    [[0], [2], [3]]
    """

    expert_of: Ints
    ranks: int
    shared: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _slot: Ints = field(init=False, repr=False)
    _first: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.ranks < 1 or len(self.expert_of) % self.ranks or not len(self.expert_of):
            above = max(1, -(-len(self.expert_of) // max(self.ranks, 1))) * max(self.ranks, 1)
            raise OptionError(
                f"{len(self.expert_of)} expert slots on {self.ranks} ranks: give a multiple of "
                f"the ranks, such as {above}"
            )
        held = self.expert_of[self.expert_of >= 0]
        counts = np.bincount(held, minlength=1)
        if not counts.all():
            raise OptionError(
                f"expert {int(np.argmin(counts))} has no slot; give each expert one or more"
            )
        order = np.argsort(self.expert_of, kind="stable")
        object.__setattr__(self, "_slot", order[self.expert_of[order] >= 0])
        object.__setattr__(self, "_first", pointers(counts))

    @property
    def slots(self) -> int:
        """Number of slots on all ranks together."""
        return len(self.expert_of)

    @property
    def experts(self) -> int:
        """Number of different experts, shared ones not counted."""
        return len(self._first) - 1

    @property
    def replicas(self) -> Ints:
        """How many slots hold each expert, shape (experts,)."""
        return np.diff(self._first)

    def slots_of(self, topk_idx: NDArray[Any], rank: int) -> Ints:
        """Turn experts into slots; the copies of a rank take an expert's replicas in turn.

        Parameters
        ----------
        topk_idx : ndarray of int, shape (tokens, topk)
            Experts of each token, -1 = none.
        rank : int
            The rank whose tokens they are; it begins with replica ``rank mod replicas``.

        Returns
        -------
        ndarray of int64, shape (tokens, topk or topk + 1)
            Slots; with a shared expert its slot is the last column.

        Raises
        ------
        OptionError
            As `ubnet.collectives.routing.check_routing`.
        """
        check_routing(topk_idx, self.experts, rank)
        chosen = topk_idx.reshape(-1).astype(np.int64)
        active = np.flatnonzero(chosen != NO_EXPERT)
        order = active[np.argsort(chosen[active], kind="stable")]
        expert = chosen[order]
        # The how-manieth copy for its expert each one is.
        turn = np.arange(len(order)) - np.searchsorted(expert, expert)
        replica = (turn + rank) % self.replicas[expert]
        flat = np.full(len(chosen), NO_EXPERT, dtype=np.int64)
        flat[order] = self._slot[self._first[expert] + replica]
        found: Ints = flat.reshape(topk_idx.shape)
        if not len(self.shared):
            return found
        own = self.shared[rank * len(self.shared) // self.ranks]
        return np.concatenate([found, np.full((len(found), 1), own)], axis=1)

    def weights_of(self, weights: NDArray[Any]) -> NDArray[np.float32]:
        """Return the gate's weights with 1 for the shared expert where there is one."""
        singles = weights.astype(np.float32, copy=False)
        if not len(self.shared):
            return singles
        one = np.ones((len(singles), 1), dtype=np.float32)
        return np.concatenate([singles, one], axis=1)

    def rank_loads(self, loads: ArrayLike) -> Floats:
        """Return what each rank gets of the experts' loads, replicas taking equal parts."""
        part = np.asarray(loads, dtype=np.float64) / self.replicas
        held = np.where(self.expert_of >= 0, part[self.expert_of], 0.0)
        by_rank: Floats = held.reshape(self.ranks, -1).sum(axis=1)
        return by_rank


def plain_placement(experts: int, ranks: int) -> Placement:
    """Return expert e in slot e: contiguous blocks."""
    return Placement(np.arange(experts), ranks)


def shared_placement(experts: int, ranks: int, shared_ranks: int) -> Placement:
    """Set the first ranks aside for copies of the shared expert, as Ascend does.

    Parameters
    ----------
    experts : int
        Routed experts, a multiple of the ranks that are left.
    ranks, shared_ranks : int
        All ranks, and how many of them hold the shared expert and nothing else.

    Examples
    --------
    >>> placement = shared_placement(4, ranks=3, shared_ranks=1)
    >>> placement.expert_of.tolist(), placement.shared.tolist()
    ([-1, -1, 0, 1, 2, 3], [0])
    """
    routed = ranks - shared_ranks
    if not 0 <= shared_ranks < ranks or experts % routed:
        raise OptionError(
            f"{experts} experts on {ranks} ranks of which {shared_ranks} hold the shared expert: "
            "give a multiple of the other ranks, at least one of which must be left"
        )
    local = experts // routed
    empty = np.full(shared_ranks * local, NO_EXPERT)
    held = np.concatenate([empty, np.arange(experts)])
    return Placement(held, ranks, np.arange(shared_ranks) * local)


def balanced_placement(loads: ArrayLike, ranks: int, replicas: int) -> Placement:
    """Place experts by their loads with so many replicas more (EPLB).

    Each replica goes to the expert whose copies are the fullest at that moment; then the copies,
    the fullest first, go to the emptiest rank with a free slot, if possible one that does not
    hold the expert yet. Ties go to the lower number.

    Parameters
    ----------
    loads : array_like, shape (experts,)
        Token copies of each expert, such as ``TokenPlan.counts.sum(axis=0)``.
    ranks, replicas : int
        ``experts + replicas`` must be a multiple of the ranks.

    Examples
    --------
    >>> placement = balanced_placement([6, 1, 1], ranks=2, replicas=1)
    >>> placement.expert_of.tolist(), placement.rank_loads([6, 1, 1]).tolist()
    ([0, 1, 0, 2], [4.0, 4.0])
    """
    load = np.asarray(loads, dtype=np.float64)
    copies = np.ones(len(load), dtype=np.int64)
    if replicas < 0 or (len(load) + replicas) % max(ranks, 1):
        fits = -len(load) % max(ranks, 1)
        raise OptionError(
            f"{len(load)} experts and {replicas} replicas on {ranks} ranks: the sum must be a "
            f"multiple of the ranks; give {fits} replicas, or {fits + ranks}"
        )
    for _ in range(replicas):
        copies[np.argmax(load / copies)] += 1
    return Placement(_packed(load / copies, copies, ranks), ranks)


def _packed(part: Floats, copies: Ints, ranks: int) -> Ints:
    """Give each copy of each expert a slot; return the expert of every slot."""
    expert = np.repeat(np.arange(len(part)), copies)
    expert = expert[np.argsort(-part[expert], kind="stable")]
    room = len(expert) // ranks
    held: list[list[int]] = [[] for _ in range(ranks)]
    total = np.zeros(ranks)
    holds = np.zeros((ranks, len(part)), dtype=bool)
    filled = np.zeros(ranks, dtype=np.int64)
    for e in expert.tolist():
        free = np.where(filled < room, total, np.inf)
        other = np.where(holds[:, e], np.inf, free)
        rank = int(np.argmin(other if np.isfinite(other).any() else free))
        held[rank].append(e)
        total[rank] += part[e]
        filled[rank] += 1
        holds[rank, e] = True
    return np.array(held, dtype=np.int64).reshape(-1)
