"""How a schedule is put together: operations, added block by block."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.after import waits
from ubnet.compressed_rows import pointers
from ubnet.errors import ScheduleError
from ubnet.operation import COPY, INPUT, JOIN, OUTPUT
from ubnet.schedule import Schedule

Ints = NDArray[np.int64]


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
