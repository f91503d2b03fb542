"""All-reduce of teams, in place: every member gets the sum of the whole part of W."""

from collections.abc import Callable

import numpy as np

from ubnet.schedule import REDUCE, REDUCE_LEFT, SCRATCH

from .block_stages import ALL_GATHER, REDUCE_SCATTER
from .work import Team, Work, team


def by_blocks(name: str) -> Callable[[Work, Team], None]:
    """Return the all-reduce that is a reduce-scatter and an all-gather of one algorithm."""

    def stage(work: Work, whole: Team) -> None:
        REDUCE_SCATTER[name](work, whole)
        ALL_GATHER[name](work, whole)

    return stage


def halving_doubling(work: Work, whole: Team) -> None:
    """Halve, then double, on the largest power of two of members; the others fold into it."""
    _folded(work, whole, by_blocks("halving_doubling"))


def recursive_doubling(work: Work, whole: Team) -> None:
    """Exchange the whole part with ever farther members, in the order of the members."""
    _folded(work, whole, _doubling)


def _folded(work: Work, whole: Team, stage: Callable[[Work, Team], None]) -> None:
    """Let every second of the first members add to its neighbour, and get the result back."""
    inner = 1 << (whole.members.bit_length() - 1)
    extra = whole.members - inner
    start, length = whole.start[:, :1], whole.size.sum(axis=1, keepdims=True)
    kept = np.concatenate([np.arange(extra) * 2, np.arange(2 * extra, whole.members)])
    pair = whole.ranks[:, : 2 * extra].reshape(len(whole.ranks), extra, 2)
    if extra:
        work.move(pair[:, :, 1], pair[:, :, 0], start, start, length, kind=REDUCE)
        work.close()
    everybody = len(work.ready)
    starts, lengths = np.zeros((2, everybody), dtype=np.int64)
    starts[whole.ranks], lengths[whole.ranks] = start, length
    stage(work, team(whole.ranks[:, kept], starts, lengths))
    if extra:
        work.move(pair[:, :, 0], pair[:, :, 1], start, start, length)
        work.close()


def _doubling(work: Work, whole: Team) -> None:
    """Do the steps of recursive doubling on a power of two of members.

    What a member sends it keeps in scratch, in two slots by turns, because its sum grows meanwhile.
    """
    start, length = whole.start[:, :1], whole.size.sum(axis=1, keepdims=True)
    member = np.arange(whole.members)
    nothing = np.full(whole.ranks.shape, -1)
    arrived, sent = nothing, [nothing, nothing]
    step, reach, room = 0, 1, int((start + length).max(initial=0))
    while reach < whole.members:
        peer = member ^ reach
        slot = work.spare + start + step % 2 * room
        kept = work.move(
            whole.ranks,
            whole.ranks,
            start,
            slot,
            length,
            dst_buf=SCRATCH,
            after=(arrived, sent[step % 2]),
        )
        sent[step % 2] = work.move(
            whole.ranks,
            whole.ranks[:, peer],
            slot,
            start,
            length,
            src_buf=SCRATCH,
            kind=np.where(member < peer, REDUCE_LEFT, REDUCE),
            after=(kept, kept[:, peer]),
        )
        arrived = sent[step % 2][:, peer]
        step, reach = step + 1, reach * 2
        work.step += 1
    work.close()


ALL_REDUCE: dict[str, Callable[[Work, Team], None]] = {
    "mesh": by_blocks("mesh"),
    "ring": by_blocks("ring"),
    "recursive_doubling": recursive_doubling,
    "halving_doubling": halving_doubling,
    "nhr": by_blocks("nhr"),
    "nb": by_blocks("nb"),
}

SCRATCH_ROOMS = {"recursive_doubling": 2, "nhr": 1, "nb": 1}
"""How much scratch an algorithm needs, in lengths of W."""


def whole(ranks: int, count: int) -> Team:
    """Return everybody as one team on all of W."""
    everybody = np.arange(ranks)
    return team(everybody[None, :], np.zeros(ranks, dtype=np.int64), np.full(ranks, count))
