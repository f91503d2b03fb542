"""Reduce-scatter and all-gather of teams, in place: one function an algorithm.

Each takes a `Work` and a `Team` and ends its stage. After a reduce-scatter block j of W is the sum
on member j and the rest of W is of no use; an all-gather begins like that.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ubnet.errors import ScheduleError
from ubnet.schedule import COPY, REDUCE, SCRATCH

from .blocks import Ints
from .fan import in_rank_order, others
from .slices import Order, nb, nhr
from .work import Team, Work

Stage = Callable[[Work, Team], None]


def scatter_mesh(work: Work, team: Team) -> None:
    """Write block j to member j, all in one step; the sums are in the order of the members."""
    member = np.arange(team.members)
    peer, kind = in_rank_order(member, team.members)
    start, size = team.start[:, :, None], team.size[:, :, None]
    work.move(team.ranks[:, peer], team.ranks[:, :, None], start, start, size, kind=kind)
    work.close()


def gather_mesh(work: Work, team: Team) -> None:
    """Write the own block to all others, in one step."""
    target = others(np.arange(team.members), team.members)
    start, size = team.start[:, :, None], team.size[:, :, None]
    work.move(team.ranks[:, :, None], team.ranks[:, target], start, start, size)
    work.close()


def scatter_ring(work: Work, team: Team) -> None:
    """Pass every block around the ring to its owner, collecting."""
    around(work, [team], 1, REDUCE)


def gather_ring(work: Work, team: Team) -> None:
    """Pass every block around the ring from its owner."""
    around(work, [team], 0, COPY)


def around(work: Work, rings: Sequence[Team], ahead: int, *kinds: int) -> None:
    """Send block j of each ring on n - 1 hops of each kind, the first from member j + `ahead`."""
    members = rings[0].members
    ranks, start, size = (np.stack(column) for column in zip(*rings, strict=True))
    ring, group, block = np.nonzero(size)
    start, size = start[ring, group, block], size[ring, group, block]
    hop = np.arange(len(kinds) * (members - 1))[:, None]
    src, dst = (ranks[ring, group, (block + ahead + hop + k) % members] for k in (0, 1))
    ready = work.ready
    brought = len(work.builder) + np.arange(src.size).reshape(src.shape) - len(block)
    ids = work.builder.add(
        work.step + hop * len(rings) + ring,
        src,
        dst,
        start,
        start,
        size,
        src_buf=work.buf,
        dst_buf=work.buf,
        kind=np.repeat(kinds, members - 1)[:, None],
        # What brought a piece has waited for the ranks that it came by.
        after=np.stack(
            [
                np.where(hop > 0, brought, ready[src]),
                np.where(hop < members - 1, ready[dst], -1),
            ],
            axis=-1,
        ),
    )
    work.touch(src, ids)
    work.touch(dst[-1:], ids[-1:])  # on the way, the next hop waits for the one that arrived
    work.step += len(hop) * len(rings)
    work.close()


def scatter_halving(work: Work, team: Team) -> None:
    """Give away the half of what a member still has that it does not own; 2**k members."""
    _check_power(team)
    reach = team.members // 2
    before = np.full(team.ranks.shape, -1)
    while reach:
        before = _halves(work, team, reach, before, inwards=True)
        reach //= 2
    work.close()


def gather_doubling(work: Work, team: Team) -> None:
    """Exchange all that a member has with ever farther ones; 2**k members."""
    _check_power(team)
    reach = 1
    before = np.full(team.ranks.shape, -1)
    while reach < team.members:
        before = _halves(work, team, reach, before, inwards=False)
        reach *= 2
    work.close()


def _halves(work: Work, team: Team, reach: int, before: Ints, *, inwards: bool) -> Ints:
    """Exchange `reach` blocks with the member that differs in one bit; return what arrived."""
    member = np.arange(team.members)
    peer = member ^ reach
    low = (peer if inwards else member) // reach * reach
    start = team.start[:, low]
    ends = team.start + team.size
    sent = work.move(
        team.ranks,
        team.ranks[:, peer],
        start,
        start,
        ends[:, low + reach - 1] - start,
        kind=REDUCE if inwards else COPY,
        # What a member sends it has received before, and its peer has sent what is overwritten.
        after=(before, before[:, peer]),
    )
    work.step += 1
    return np.maximum(sent[:, peer], before)


def _check_power(team: Team) -> None:
    if team.members & (team.members - 1):
        raise ScheduleError(
            f"halving and doubling needs a power of two of members, not {team.members}: use nhr, "
            f"nb, ring or mesh"
        )


def _scatter_by(order: Callable[[int], Order]) -> Stage:
    def stage(work: Work, team: Team) -> None:
        _reordered(work, team, order(team.members), inwards=True)

    return stage


def _gather_by(order: Callable[[int], Order]) -> Stage:
    def stage(work: Work, team: Team) -> None:
        _reordered(work, team, order(team.members), inwards=False)

    return stage


def _reordered(work: Work, team: Team, order: Order, *, inwards: bool) -> None:
    """Do the steps of an order of slices in scratch, forwards or backwards in time."""
    members = team.members
    member = np.arange(members)
    slices = (member[:, None] + order.offset) % members
    size = team.size[:, slices]
    begin = np.zeros((*size.shape[:2], members + 1), dtype=np.int64)
    np.cumsum(size, axis=2, out=begin[:, :, 1:])
    begin += work.spare + team.start[:, :1, None]
    place = np.arange(members) if inwards else np.array([order.own])
    into = _local(work, team, slices, begin, place, inwards=True)
    last = _all_in(work, team) if inwards else into.reshape(team.ranks.shape)
    for step in reversed(order.steps) if inwards else order.steps:
        peer = (member + step.shift) % members
        count = begin[:, :, step.first + step.slices] - begin[:, :, step.first]
        ends = (member, begin[:, :, step.first]), (peer, begin[:, peer, step.target])
        (src, src_off), (dst, dst_off) = ends[::-1] if inwards else ends
        sent = work.move(
            team.ranks[:, src],
            team.ranks[:, dst],
            src_off,
            dst_off,
            count,
            kind=REDUCE if inwards else COPY,
            src_buf=SCRATCH,
            dst_buf=SCRATCH,
            after=(last[:, src], last[:, dst]),
        )
        arrived = np.full(last.shape, -1)
        arrived[:, dst] = sent
        last = np.maximum(arrived, last)
        work.step += 1
    work.close()
    place = np.array([order.own]) if inwards else np.arange(members)
    _local(work, team, slices, begin, place, inwards=False)
    work.close()


def _all_in(work: Work, team: Team) -> Ints:
    """Wait for a member's own copies; return the operations that say so."""
    work.close()
    return work.ready[team.ranks]


def _local(
    work: Work, team: Team, slices: Ints, begin: Ints, place: Ints, *, inwards: bool
) -> Ints:
    """Copy slices between W and their places in scratch, on the rank itself."""
    chosen = slices[:, place]
    size = team.size[:, chosen].reshape(-1)
    in_w, in_scratch = (c.reshape(-1) for c in (team.start[:, chosen], begin[:, :, place]))
    rank = np.repeat(team.ranks.reshape(-1), len(place))
    # Slices that follow each other in both orders are copied at once.
    follows = in_w[1:] == in_w[:-1] + size[:-1]
    follows &= (in_scratch[1:] == in_scratch[:-1] + size[:-1]) & (rank[1:] == rank[:-1])
    first = np.flatnonzero(np.concatenate([[True], ~follows]))
    rank, in_w, in_scratch = rank[first], in_w[first], in_scratch[first]
    size = np.add.reduceat(size, first)
    if inwards:
        return work.move(rank, rank, in_w, in_scratch, size, dst_buf=SCRATCH)
    return work.move(rank, rank, in_scratch, in_w, size, src_buf=SCRATCH)


REDUCE_SCATTER: dict[str, Stage] = {
    "mesh": scatter_mesh,
    "ring": scatter_ring,
    "halving_doubling": scatter_halving,
    "nhr": _scatter_by(nhr),
    "nb": _scatter_by(nb),
}

ALL_GATHER: dict[str, Stage] = {
    "mesh": gather_mesh,
    "ring": gather_ring,
    "halving_doubling": gather_doubling,
    "nhr": _gather_by(nhr),
    "nb": _gather_by(nb),
}
