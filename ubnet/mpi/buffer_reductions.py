"""Reductions of buffers: the methods in capital letters that combine elements of all members.

The time of a call is that of the schedule of `ubnet.collectives` that it runs; an operation that
does not commute gets its operands in rank order.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache, partial
from operator import index
from typing import Any

from numpy.typing import NDArray

from ubnet.rank import current
from ubnet.schedule import Schedule

from . import schedules
from .buffer_collectives import collective
from .buffers import read_even, read_spec
from .call import Call, forms
from .communicator import CommHandle, Communicator
from .constants import PROC_NULL, in_place
from .op import OPS, Op
from .spec import Spec

SUM = OPS["SUM"]

Array = NDArray[Any]


class BufferReductions(CommHandle):
    """Reductions of elements that stand in buffers."""

    __slots__ = ()

    def _Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Call:
        """Combine the elements of all members at the root."""
        here = self._here
        mine = here.check_root(root) == here.rank
        spec = read_spec(recvbuf, writable=True, rank=0 if mine else PROC_NULL)
        source = operand(sendbuf, spec if mine else None)
        output = spec.elements() if mine else None
        return _reduction(here, "reduce", source, output, op, source.count, root=root)

    def _Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Call:
        """Combine the elements of all members at every member."""
        here = self._here
        spec = read_spec(recvbuf, writable=True)
        source = operand(sendbuf, spec)
        return _reduction(here, "all_reduce", source, spec.elements(), op, source.count)

    def _Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Call:
        """Combine the elements of all members; member r gets block r."""
        here = self._here
        replacing = in_place(sendbuf)
        blocks = here.size if replacing else 0
        spec = read_spec(recvbuf, writable=True, blocks=blocks)
        given = recvbuf if replacing else sendbuf
        source = read_even(given, writable=False, rank=0, blocks=here.size).as_one()
        if not replacing:
            _check_operands(Spec(source.memory, source.count // here.size, source.datatype), spec)
        return _reduction(here, "reduce_scatter", source, spec.elements(), op, spec.count)

    def _Reduce_scatter(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
    ) -> Call:
        """Combine the elements of all members; member r gets its block of ``recvcounts[r]``."""
        here = self._here
        spec = read_spec(recvbuf, writable=True)
        replacing = in_place(sendbuf)
        source = spec if replacing else read_spec(sendbuf, writable=False)
        if recvcounts is None and not replacing:
            recvcounts = current().exchange(
                here.context, here.group, spec.count, "Reduce_scatter counts"
            )
        counts = tuple(index(count) for count in recvcounts or ())
        if len(counts) != here.size:
            raise ValueError(f"expecting {here.size} items, got {len(counts)}")
        _check_counts(source, spec, counts, here.rank, replacing)
        output = spec.elements()[: counts[here.rank]]
        maker = partial(schedules.uneven_reduce_scatter, counts=counts)
        agree = (("counts", counts), *agreed(source, op))
        return combining(here, agree, maker, source, output, op)

    Reduce, Ireduce, Reduce_init = forms(_Reduce)
    Allreduce, Iallreduce, Allreduce_init = forms(_Allreduce)
    Reduce_scatter_block, Ireduce_scatter_block, Reduce_scatter_block_init = forms(
        _Reduce_scatter_block
    )
    Reduce_scatter, Ireduce_scatter, Reduce_scatter_init = forms(_Reduce_scatter)


def _reduction(
    here: Communicator,
    operation: str,
    source: Spec,
    output: Array | None,
    op: Op,
    count: int,
    root: int = 0,
) -> Call:
    if not isinstance(op, Op):
        raise TypeError(f"op is {op!r}; give an operation such as MPI.SUM")
    maker = _even(operation, count, root, max(source.datatype.extent, 1), op.Is_commutative())
    agree = (("count", count), ("root", root), *agreed(source, op))
    return combining(here, agree, maker, source, output, op)


@lru_cache(maxsize=256)
def _even(
    operation: str, count: int, root: int, itemsize: int, commutative: bool
) -> partial[Schedule]:
    """Return the maker of a reduction: one for all ranks, which sending it on writes once."""
    return partial(
        schedules.even,
        operation=operation,
        count=count,
        root=root,
        itemsize=itemsize,
        commutative=commutative,
    )


def combining(
    here: Communicator, agree: Any, maker: Any, source: Spec, output: Array | None, op: Op
) -> Call:
    """Return the call of a reduction."""
    combine = op._on(source.datatype)
    return Call(collective(here, agree, maker, source.elements(), output, reduce=combine))


def agreed(source: Spec, op: Op) -> tuple[tuple[str, Hashable], ...]:
    """Return what all members of a reduction must give alike."""
    return ("datatype", source.datatype.typestr), ("op", op._name or "of the program's own")


def operand(sendbuf: Any, received: Spec | None) -> Spec:
    """Return what a rank combines: its buffer, or in place what it receives into."""
    if in_place(sendbuf) and received is not None:
        return received
    source = read_spec(sendbuf, writable=False)
    if received is not None:
        _check_operands(source, received)
    return source


def _check_operands(source: Spec, received: Spec) -> None:
    if source.datatype != received.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if source.count != received.count:
        raise ValueError(
            f"mismatch in send count {source.count} and receive count {received.count}"
        )


def _check_counts(
    source: Spec, received: Spec, counts: tuple[int, ...], rank: int, replacing: bool
) -> None:
    total = sum(counts)
    if replacing:
        if received.count != total:
            raise ValueError(f"mismatch in receive count {received.count} and sum(counts) {total}")
        return
    if source.datatype != received.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if source.count != total:
        raise ValueError(f"mismatch in send count {source.count} and sum(counts) {total}")
    if received.count != counts[rank]:
        raise ValueError(
            f"mismatch in receive count {received.count} and counts[{rank}] {counts[rank]}"
        )
