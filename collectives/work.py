"""Stages on one array: parts of a schedule that teams of ranks do in place, one after another.

All ranks have an array W of the same length. In a stage, teams work side by side, each on a
contiguous part of W that is cut into one block a member: a reduce-scatter leaves member j with the
sum of block j, an all-gather gives every member all blocks. Composed, they are every algorithm that
is known by its levels: inside a server, between servers, between supernodes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ubnet.schedule import COPY, JOIN, OUTPUT
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import Ints


class Team(NamedTuple):
    """Groups of ranks that do the same, each on a part of W of its own.

    Attributes
    ----------
    ranks : ndarray of int64, shape (groups, members)
        Who they are; block j of a group belongs to its member j.
    start, size : ndarray of int64, shape (groups, members)
        The blocks, which stand one behind the other; the same for all members of a group.
    """

    ranks: Ints
    start: Ints
    size: Ints

    @property
    def members(self) -> int:
        """Members of a group."""
        return int(self.ranks.shape[1])


def team(ranks: Ints, start: Ints, length: Ints) -> Team:
    """Cut the part of W that the first member of each group has into a block for each member.

    Parameters
    ----------
    ranks : ndarray of int64, shape (groups, members)
        The groups.
    start, length : ndarray of int64, shape (all ranks,)
        The part of W that every rank works on.
    """
    members = np.arange(ranks.shape[1])
    short, longer = np.divmod(length[ranks[:, 0]], len(members))
    short, longer, first = short[:, None], longer[:, None], start[ranks[:, 0]][:, None]
    return Team(
        ranks, first + members * short + np.minimum(members, longer), short + (members < longer)
    )


class Work:
    """A schedule in the making, and from where on each rank's W may be touched.

    Parameters
    ----------
    builder : ScheduleBuilder
        Where the operations go.
    buf : int
        The buffer that W is.
    spare : int
        Offset in SCRATCH of room as long as W, for algorithms that put blocks in another order.
    ready : ndarray of int64, shape (ranks,)
        The operation after which a rank's W holds what it began with, -1 = none; it is changed.

    Attributes
    ----------
    step : int
        Number of the next step.
    """

    def __init__(
        self, builder: ScheduleBuilder, ready: Ints, *, buf: int = OUTPUT, spare: int = 0
    ) -> None:
        self.builder = builder
        self.buf = buf
        self.spare = spare
        self.step = 0
        self._ready = ready
        self._touched: list[tuple[Ints, Ints]] = []
        self._closed = False

    @property
    def ready(self) -> Ints:
        """The operation after which every rank's W may be touched, -1 = none."""
        if self._closed:
            self._join()
        return self._ready

    def move(
        self,
        src: Any,
        dst: Any,
        src_off: Any,
        dst_off: Any,
        count: Any,
        *,
        kind: Any = COPY,
        src_buf: int | None = None,
        dst_buf: int | None = None,
        after: Sequence[Any] = (),
        step: Any = None,
    ) -> Ints:
        """Add operations that wait for both ranks' W, and return their numbers, -1 where empty.

        All arguments broadcast; `after` is a sequence of further operations, -1 = none.
        """
        number = self.step if step is None else step
        columns = np.broadcast_arrays(number, src, dst, src_off, dst_off, count, kind, *after)
        there = columns[5] > 0
        number, src, dst, src_off, dst_off, count, kind, *more = (c[there] for c in columns)
        ready = self.ready
        waits = np.stack([ready[src], ready[dst], *more], axis=-1)
        ids = self.builder.add(
            number,
            src,
            dst,
            src_off,
            dst_off,
            count,
            src_buf=self.buf if src_buf is None else src_buf,
            dst_buf=self.buf if dst_buf is None else dst_buf,
            kind=kind,
            after=waits,
        )
        self.touch(src, ids)
        self.touch(dst[src != dst], ids[src != dst])
        found = np.full(there.shape, -1)
        found[there] = ids
        return found

    def touch(self, rank: Ints, ops: Ints) -> None:
        """Let the end of the stage on each rank wait for an operation there."""
        self._touched.append((rank.reshape(-1), ops.reshape(-1)))

    def close(self) -> None:
        """End a stage: what comes next on a rank waits for all that the stage did there."""
        self._closed = bool(self._touched)
        self.step += self._closed

    def _join(self) -> None:
        rank, op = (np.concatenate(column) for column in zip(*self._touched, strict=True))
        self._touched, self._closed = [], False
        order = np.argsort(rank, kind="stable")
        who, degree = np.unique(rank, return_counts=True)
        ptr = np.concatenate([[0], np.cumsum(degree)])
        add = self.builder.add
        step = self.step - 1
        self._ready[who] = add(step, who, who, 0, 0, 0, kind=JOIN, after=(ptr, op[order]))
