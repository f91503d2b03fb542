"""Who sends what to whom: a schedule, as columns of operations with dependencies.

One schedule serves three readers: `ubnet.replay` moves real bytes by it, `ubnet.timing` times it on
a fabric, and exporters write it down. What is timed is what was run.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.after import waits
from ubnet.compressed_rows import pointers
from ubnet.errors import ScheduleError
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
    "ScheduleBuilder",
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


class ScheduleBuilder:
    """Collects operations block by block; `build` makes the `Schedule`.

    Parameters
    ----------
    name : str
        Operation and algorithm, such as ``all_reduce ring``.
    ranks : int
        Number of ranks.
    sizes : array_like of int, shape (ranks, 3)
        Elements of input, output and scratch; anything that broadcasts, such as ``[4, 4, 0]``.
    in_order : bool
        As in `Schedule`.
    """

    def __init__(self, name: str, ranks: int, sizes: Any, *, in_order: bool = False) -> None:
        self.name = name
        self.in_order = in_order
        self.ranks = ranks
        try:
            shaped = np.broadcast_to(np.asarray(sizes, dtype=np.int64), (ranks, 3))
        except ValueError:
            raise ScheduleError(
                f"sizes of schedule {name} have shape {np.shape(sizes)}; give input, output and "
                f"scratch elements of every rank, shape ({ranks}, 3)"
            ) from None
        self.sizes = np.array(shaped)
        self._columns: list[list[NDArray[Any]]] = [[np.zeros(0, dtype=d)] for d in _DTYPES]
        self._dep_counts: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._deps: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self,
        step: Any,
        src: Any,
        dst: Any,
        src_off: Any,
        dst_off: Any,
        count: Any,
        *,
        src_buf: Any = INPUT,
        dst_buf: Any = OUTPUT,
        kind: Any = COPY,
        after: Any = None,
    ) -> Ints:
        """Add a block of operations; all arguments are broadcast against each other.

        Parameters
        ----------
        step, src, dst, src_off, dst_off, count, src_buf, dst_buf, kind : array_like of int
            The columns of `Schedule`.
        after : array_like of int or (ptr, dep), optional
            What the operations wait for. With the shape of the block: one operation each; with one
            axis more: several each; -1 means none; a block of scalars takes a list of them.
            A pair of arrays is in compressed rows.

        Returns
        -------
        ndarray of int64
            The numbers of the new operations, in the shape of the block.

        Raises
        ------
        ScheduleError
            If the shapes do not go together.
        """
        given = (kind, step, src, dst, src_buf, src_off, dst_buf, dst_off, count)
        arrays = [np.asarray(column) for column in given]
        if any(a.size and a.dtype.kind not in "iu" for a in arrays):
            raise ScheduleError(f"columns of schedule {self.name} must be whole numbers")
        try:
            shape = np.broadcast_shapes(*(a.shape for a in arrays))
        except ValueError:
            raise ScheduleError(
                f"columns of schedule {self.name} have the shapes "
                f"{', '.join(str(a.shape) for a in arrays)}, which do not broadcast"
            ) from None
        columns = tuple(
            np.ascontiguousarray(np.broadcast_to(a, shape), dtype=dtype).reshape(-1)
            for a, dtype in zip(arrays, _DTYPES, strict=True)
        )
        total = len(columns[0])
        counts, deps = waits(after, shape, self.name)
        ids = np.arange(self._count, self._count + total)
        for blocks, column in zip(self._columns, columns, strict=True):
            blocks.append(column)
        self._dep_counts.append(counts)
        self._deps.append(deps)
        self._count += total
        return ids.reshape(shape or (1,))

    def join(self, step: Any, rank: Any, after: Any) -> Ints:
        """Add operations that move nothing and wait for others, one for each rank given."""
        return self.add(step, rank, rank, 0, 0, 0, kind=JOIN, after=after)

    def build(self) -> Schedule:
        """Make the `Schedule` of all that was added."""
        columns = [_joined(blocks) for blocks in self._columns]
        ptr, dep = pointers(_joined(self._dep_counts)), _joined(self._deps)
        made = [*columns, ptr, dep]
        return Schedule(self.name, self.ranks, self.sizes, *made, self.in_order)  # type: ignore


def _joined(blocks: list[NDArray[Any]]) -> NDArray[Any]:
    """Return blocks as one, which takes their place: nothing stands twice for long."""
    blocks[:] = [np.concatenate(blocks)]
    return blocks[0]


_DTYPES = tuple(map(np.dtype, ("i1", "i4", "i8", "i8", "i1", "i8", "i1", "i8", "i8")))
