"""Who has how much for whom: the common ground of the all-to-all operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ubnet.errors import MismatchedCall, OptionError
from ubnet.schedule import Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import Ints


@dataclass(frozen=True, eq=False)
class Exchange:
    """What every rank sends to every rank, as matrices (source, destination).

    Attributes
    ----------
    count : ndarray of int64, shape (ranks, ranks)
        Elements that the source has for the destination.
    send_off, recv_off : ndarray of int64, shape (ranks, ranks)
        Where they stand in the source's input, and where they go in the destination's output.
    sizes : ndarray of int64, shape (ranks, 3)
        Elements of every rank's buffers.
    """

    count: Ints
    send_off: Ints
    recv_off: Ints
    sizes: Ints

    @classmethod
    def even(cls, ranks: int, count: int) -> "Exchange":
        """Return the exchange in which every rank has `count` elements for every rank."""
        rank = np.arange(ranks)
        shape = (ranks, ranks)
        to = np.broadcast_to(rank * count, shape)
        of = np.broadcast_to(rank[:, None] * count, shape)
        sizes = np.tile([ranks * count, ranks * count, 0], (ranks, 1))
        return cls(np.full(shape, count), to, of, sizes)

    @classmethod
    def of_parts(cls, parts: Sequence[Sequence[Any]]) -> "Exchange":
        """Join what the ranks gave: sendcounts, sdispls, recvcounts and rdispls of each.

        Raises
        ------
        OptionError
            If a rank gives too few or too many numbers, or a negative one.
        MismatchedCall
            If a rank sends another number of elements than the receiver expects.

        Examples
        --------
        >>> part = ([1, 2], [0, 1], [1, 3], [0, 1])
        >>> Exchange.of_parts([part, part])
        Traceback (most recent call last):
        ubnet.errors.MismatchedCall: all_to_all_v: rank 0 sends 2 elements to rank 1, which expects
        1 from it; sendcounts[1] of rank 0 and recvcounts[0] of rank 1 must be equal
        """
        columns = [_column(parts, place, name) for place, name in enumerate(PART)]
        sent, send_off, received, recv_off = columns
        wrong = np.argwhere(sent != received.T)
        if len(wrong):
            src, dst = (int(rank) for rank in wrong[0])
            raise MismatchedCall(
                f"all_to_all_v: rank {src} sends {sent[src, dst]} elements to rank {dst}, which "
                f"expects {received[dst, src]} from it; sendcounts[{dst}] of rank {src} and "
                f"recvcounts[{src}] of rank {dst} must be equal"
            )
        sizes = np.zeros((len(parts), 3), dtype=np.int64)
        sizes[:, 0] = np.where(sent > 0, send_off + sent, 0).max(axis=1)
        sizes[:, 1] = np.where(received > 0, recv_off + received, 0).max(axis=1)
        return cls(sent, send_off, recv_off.T, sizes)

    def mesh(self, name: str) -> Schedule:
        """Return the schedule in which all write to all in one step."""
        ranks = len(self.count)
        builder = ScheduleBuilder(name, ranks, self.sizes)
        src, shift = np.divmod(np.arange(ranks * ranks), ranks)
        dst = (src + shift) % ranks
        there = self.count[src, dst] > 0
        src, dst = src[there], dst[there]
        builder.add(0, src, dst, *self._place(src, dst))
        return builder.build()

    def pairwise(self, name: str) -> Schedule:
        """Return the schedule of n - 1 steps: in step k rank r sends to r + k.

        A rank begins a step when it has sent and received what it had in the steps before.
        """
        ranks = len(self.count)
        builder = ScheduleBuilder(name, ranks, self.sizes)
        rank = np.arange(ranks)
        mine = rank[self.count[rank, rank] > 0]
        builder.add(0, mine, mine, *self._place(mine, mine))
        step, src = np.divmod(np.arange((ranks - 1) * ranks), ranks)
        dst = (src + step + 1) % ranks
        there = self.count[src, dst] > 0
        done = np.full((2, ranks, ranks), -1)
        ids = len(builder) + np.arange(np.count_nonzero(there))
        step, src, dst = step[there], src[there], dst[there]
        done[0, step + 1, src] = ids
        done[1, step + 1, dst] = ids
        done = np.maximum.accumulate(done, axis=1)
        after = np.stack([done[0, step, src], done[1, step, src]], axis=-1)
        builder.add(step, src, dst, *self._place(src, dst), after=after)
        return builder.build()

    def _place(self, src: Ints, dst: Ints) -> tuple[Ints, Ints, Ints]:
        """Return where the elements of pairs stand, where they go, and how many they are."""
        return self.send_off[src, dst], self.recv_off[src, dst], self.count[src, dst]


PART = ("sendcounts", "sdispls", "recvcounts", "rdispls")
"""What a rank gives to all_to_all_v, each a number for every rank."""


def _column(parts: Sequence[Sequence[Any]], place: int, name: str) -> Ints:
    """Return one of the four columns as a matrix (rank that gave it, peer)."""
    rows = [np.asarray(part[place], dtype=np.int64).reshape(-1) for part in parts]
    for rank, row in enumerate(rows):
        if len(row) != len(parts) or (row < 0).any():
            raise OptionError(
                f"all_to_all_v: {name} of rank {rank} is {row[:8].tolist()}; give one number >= 0 "
                f"for each of the {len(parts)} ranks"
            )
    return np.stack(rows)
