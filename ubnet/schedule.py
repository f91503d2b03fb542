"""Who sends what to whom: a schedule, as columns of operations with dependencies.

One schedule serves three readers: `ubnet.replay` moves real bytes by it, `ubnet.timing` times it on
a fabric, and exporters write it down. What is timed is what was run.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.operation import (
    BUFFERS,
    COPY,
    INPUT,
    JOIN,
    KINDS,
    OUTPUT,
    REDUCE,
    REDUCE_LEFT,
    SCRATCH,
)
from ubnet.schedule_check import check_form, check_order, check_passes

__all__ = [
    "BUFFERS",
    "COPY",
    "INPUT",
    "JOIN",
    "KINDS",
    "OUTPUT",
    "REDUCE",
    "REDUCE_LEFT",
    "SCRATCH",
    "Schedule",
]

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Schedule:
    """A whole collective: operations in an order in which they may be run one by one.

    A ``COPY`` does ``dst.buf[dst_off:+count] = src.buf[src_off:+count]``; a ``REDUCE`` does
    ``dst = op(dst, incoming)``, a ``REDUCE_LEFT`` ``dst = op(incoming, dst)``; a ``JOIN`` moves
    nothing and only waits. An operation starts when all that it depends on has ended. With
    ``src == dst`` nothing crosses the fabric. A ``COPY`` of nothing between two ranks is a
    zero-byte message. Whoever makes one gets it checked for form; `validate` checks the order, too.

    Attributes
    ----------
    name : str
        Operation and algorithm, such as ``all_reduce ring``.
    ranks : int
        Number of ranks.
    sizes : ndarray of int64, shape (ranks, 3)
        Elements of every rank's input, output and scratch buffer.
    kind : ndarray of int8, shape (n,)
        COPY, REDUCE, REDUCE_LEFT or JOIN.
    step : ndarray of int32, shape (n,)
        Step of the algorithm. The transfers of one (source, step) are one fan-out of its engine;
        the reductions of one (destination, step) are one pass over its memory, and what depends
        on one of them waits for that pass.
    src, dst : ndarray of int64, shape (n,)
        Rank numbers.
    src_buf, dst_buf : ndarray of int8, shape (n,)
        INPUT, OUTPUT or SCRATCH.
    src_off, dst_off, count : ndarray of int64, shape (n,)
        Elements.
    dep_ptr, dep : ndarray of int64
        Operation ``i`` waits for ``dep[dep_ptr[i]:dep_ptr[i + 1]]``, all of them earlier ones.
    in_order : bool
        Whether an engine takes the transfers of one step after those of the step before, the
        start-up of the next under the bytes of the last; otherwise it shares itself out.

    Raises
    ------
    ScheduleError
        If a column has the wrong length, a rank, buffer or kind does not exist, a range leaves its
        buffer or overlaps the one it is copied to, or a dependency is not earlier.

    Examples
    --------
    >>> from ubnet.schedule_builder import ScheduleBuilder
    >>> builder = ScheduleBuilder("shift", 3, sizes=[[4, 4, 0]] * 3)
    >>> builder.add(step=0, src=[0, 1, 2], dst=[1, 2, 0], src_off=0, dst_off=0, count=4)
    array([0, 1, 2])
    >>> builder.build()
    <Schedule shift: 3 ranks, 3 operations, 1 steps>
    """

    name: str
    ranks: int
    sizes: Ints
    kind: NDArray[np.int8]
    step: NDArray[np.int32]
    src: Ints
    dst: Ints
    src_buf: NDArray[np.int8]
    src_off: Ints
    dst_buf: NDArray[np.int8]
    dst_off: Ints
    count: Ints
    dep_ptr: Ints
    dep: Ints
    in_order: bool = False

    def __post_init__(self) -> None:
        check_form(self)

    def __len__(self) -> int:
        return len(self.kind)

    def __repr__(self) -> str:
        steps = len(np.unique(self.step))
        return f"<Schedule {self.name}: {self.ranks} ranks, {len(self)} operations, {steps} steps>"

    @property
    def transfers(self) -> Mask:
        """Mask of the operations that cross the fabric, zero-byte messages included."""
        crossing: Mask = (self.src != self.dst) & (self.kind != JOIN)
        return crossing

    @property
    def reduces(self) -> Mask:
        """Mask of the operations that reduce."""
        reducing: Mask = (self.kind == REDUCE) | (self.kind == REDUCE_LEFT)
        return reducing

    def validate(self, *, ordering: bool = True) -> None:
        """Check that every order which the dependencies allow gives the same result.

        Two operations that touch the same elements, at least one of them writing, must be ordered
        by dependencies; only reductions of one step into one place need not be, since their
        order is that of their numbers.

        Parameters
        ----------
        ordering : bool
            False leaves out the check of the order, for schedules too long for it.

        Raises
        ------
        ScheduleError
            If two operations are not ordered (both are named), or if the schedule is too long for
            the order to be checked.
        """
        check_passes(self)
        if ordering:
            check_order(self)

    def describe(self, op: int) -> str:
        """Say in words what one operation does.

        >>> from ubnet.schedule_builder import ScheduleBuilder
        >>> builder = ScheduleBuilder("shift", 2, sizes=[[4, 4, 0]] * 2)
        >>> _ = builder.add(0, 0, 1, 0, 0, 4)
        >>> builder.build().describe(0)
        'op 0 (step 0: copy rank 0 input[0:4] to rank 1 output[0:4])'
        """
        kind, step, count = int(self.kind[op]), int(self.step[op]), int(self.count[op])
        if kind == JOIN:
            return f"op {op} (step {step}: join on rank {self.dst[op]})"
        ends = [
            f"rank {rank} {BUFFERS[buf]}[{off}:{off + count}]"
            for rank, buf, off in (
                (self.src[op], self.src_buf[op], self.src_off[op]),
                (self.dst[op], self.dst_buf[op], self.dst_off[op]),
            )
        ]
        return f"op {op} (step {step}: {KINDS[kind]} {ends[0]} to {ends[1]})"

    def steps_of(self, rank: int) -> NDArray[np.int32]:
        """Return the numbers of the steps in which a rank sends or receives, ascending."""
        mine = self.transfers & ((self.src == rank) | (self.dst == rank))
        return np.unique(self.step[mine])

    def bytes_sent(self, itemsize: int) -> Ints:
        """Return the bytes that every rank sends over the fabric, shape (ranks,)."""
        sent = np.zeros(self.ranks, dtype=np.int64)
        moved = self.transfers
        np.add.at(sent, self.src[moved], self.count[moved] * itemsize)
        return sent

    def level(self) -> Ints:
        """Return the longest chain of dependencies below every operation, shape (n,)."""
        from ubnet.dependency import levels

        found: Ints = levels(self.dep_ptr, self.dep)
        return found
