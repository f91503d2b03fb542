"""Collective operations between the two groups of an intercommunicator, on buffers.

Every member sends to members of the other group and receives from them. Where one side alone sends,
the root gives ROOT, the others of its group PROC_NULL, and the other group the root's rank. What is
combined is collected and combined at its receiver, in rank order, at no virtual time.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from ubnet.message import Pending
from ubnet.rank import current

from . import schedules
from .buffer_collectives import Array, Landing, collective
from .buffer_reductions import SUM
from .buffers import read_blocks, read_even, read_spec, read_typed_blocks
from .call import Call, forms
from .communicator import CommHandle, Communicator
from .constants import PROC_NULL, ROOT
from .exception import ERR_ROOT, ERR_TRUNCATE
from .exception import Exception as MPIException
from .op import Op
from .spec import Blocks, Ints, Spec

Read = Callable[..., Blocks]


class InterCollectives(CommHandle):
    """Collective operations between two groups."""

    __slots__ = ()

    def _Bcast(self, buf: Any, root: int = 0) -> Call:
        """Send the root's elements to every member of the other group."""
        here = self._here
        role = role_of(here, root)
        if role == PROC_NULL:
            return between(here, "Bcast")
        spec = read_spec(buf, writable=role != ROOT)
        if role == ROOT:
            return between(here, "Bcast", spec.octets(), _same(here, spec.nbytes))
        return between(here, "Bcast", received=_one(here, root, spec.nbytes), into=Landing.of(spec))

    def _Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
        """Collect a block of every member of the other group at the root."""
        return self._collect(sendbuf, recvbuf, root, read_even, "Gather")

    def _Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
        """Collect uneven blocks of the other group at the root."""
        return self._collect(sendbuf, recvbuf, root, read_blocks, "Gatherv")

    def _Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
        """Send block r of the root to member r of the other group."""
        return self._deal(sendbuf, recvbuf, root, read_even, "Scatter")

    def _Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
        """Send uneven blocks of the root to the other group."""
        return self._deal(sendbuf, recvbuf, root, read_blocks, "Scatterv")

    def _Allgather(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Collect a block of every member of the other group at every member."""
        return self._collect_everywhere(sendbuf, recvbuf, read_even, "Allgather")

    def _Allgatherv(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Collect uneven blocks of the other group at every member."""
        return self._collect_everywhere(sendbuf, recvbuf, read_blocks, "Allgatherv")

    def _Alltoall(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Send block r to member r of the other group, and receive one of each of its members."""
        return self._exchange(sendbuf, recvbuf, read_even, "Alltoall")

    def _Alltoallv(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Exchange uneven blocks with the other group."""
        return self._exchange(sendbuf, recvbuf, read_blocks, "Alltoallv")

    def _Alltoallw(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Exchange uneven blocks, each of its own type, with the other group."""
        count = len(self._here.peers)
        received = read_typed_blocks(recvbuf, writable=True, blocks=count)
        sent = read_typed_blocks(sendbuf, writable=False, blocks=count)
        return _blocks(self._here, "Alltoallw", sent, received)

    def _Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Call:
        """Combine the elements of the other group at the root."""
        here = self._here
        role = role_of(here, root)
        if role == PROC_NULL:
            return between(here, "Reduce")
        if role == ROOT:
            return _combining(here, "Reduce", None, read_spec(recvbuf, writable=True), op)
        source = read_spec(sendbuf, writable=False)
        sent = _one(here, root, _nbytes(source))
        return between(here, "Reduce", _memory(source), sent)

    def _Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Call:
        """Combine the elements of the other group at every member."""
        source = read_spec(sendbuf, writable=False)
        sent = _same(self._here, _nbytes(source))
        spec = read_spec(recvbuf, writable=True)
        return _combining(self._here, "Allreduce", (_memory(source), sent), spec, op)

    def _Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Call:
        """Combine the elements of the other group; member r gets block r."""
        here = self._here
        source = read_spec(sendbuf, writable=False)
        count = len(here.peers)
        if source.count % count:
            raise ValueError(f"{source.count} elements are no multiple of {count} members")
        each = np.full(count, _nbytes(source) // count)
        sent = _memory(source), (each, np.cumsum(each) - each)
        spec = read_spec(recvbuf, writable=True)
        return _combining(here, "Reduce_scatter_block", sent, spec, op)

    def _Reduce_scatter(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
    ) -> Call:
        """Combine the elements of the other group; each member gets a block of its own length."""
        here = self._here
        spec = read_spec(recvbuf, writable=True)
        mine = spec.count if recvcounts is None else index(recvcounts[here.rank])
        told = _exchange_counts(here, mine)
        source = read_spec(sendbuf, writable=False)
        if source.count != sum(told):
            raise ValueError(f"mismatch in send count {source.count} and sum(counts) {sum(told)}")
        each = np.array(told, dtype=np.int64) * max(source.datatype.extent, 1)
        sent = _memory(source), (each, np.cumsum(each) - each)
        return _combining(here, "Reduce_scatter", sent, spec, op)

    Bcast, Ibcast, Bcast_init = forms(_Bcast)
    Gather, Igather, Gather_init = forms(_Gather)
    Gatherv, Igatherv, Gatherv_init = forms(_Gatherv)
    Scatter, Iscatter, Scatter_init = forms(_Scatter)
    Scatterv, Iscatterv, Scatterv_init = forms(_Scatterv)
    Allgather, Iallgather, Allgather_init = forms(_Allgather)
    Allgatherv, Iallgatherv, Allgatherv_init = forms(_Allgatherv)
    Alltoall, Ialltoall, Alltoall_init = forms(_Alltoall)
    Alltoallv, Ialltoallv, Alltoallv_init = forms(_Alltoallv)
    Alltoallw, Ialltoallw, Alltoallw_init = forms(_Alltoallw)
    Reduce, Ireduce, Reduce_init = forms(_Reduce)
    Allreduce, Iallreduce, Allreduce_init = forms(_Allreduce)
    Reduce_scatter, Ireduce_scatter, Reduce_scatter_init = forms(_Reduce_scatter)
    Reduce_scatter_block, Ireduce_scatter_block, Reduce_scatter_block_init = forms(
        _Reduce_scatter_block
    )

    def _collect(self, sendbuf: Any, recvbuf: Any, root: int, read: Read, call: str) -> Call:
        here = self._here
        role = role_of(here, root)
        if role == PROC_NULL:
            return between(here, call)
        if role == ROOT:
            blocks = read(recvbuf, writable=True, rank=0, blocks=len(here.peers))
            return _blocks(here, call, None, blocks)
        source = read_spec(sendbuf, writable=False).octets()
        return between(here, call, source, _one(here, root, len(source)))

    def _deal(self, sendbuf: Any, recvbuf: Any, root: int, read: Read, call: str) -> Call:
        here = self._here
        role = role_of(here, root)
        if role == PROC_NULL:
            return between(here, call)
        if role == ROOT:
            blocks = read(sendbuf, writable=False, rank=0, blocks=len(here.peers))
            return _blocks(here, call, blocks, None)
        spec = read_spec(recvbuf, writable=True)
        return between(here, call, received=_one(here, root, spec.nbytes), into=Landing.of(spec))

    def _collect_everywhere(self, sendbuf: Any, recvbuf: Any, read: Read, call: str) -> Call:
        here = self._here
        source = read_spec(sendbuf, writable=False).octets()
        blocks = read(recvbuf, writable=True, rank=0, blocks=len(here.peers))
        columns = blocks.nbytes, blocks.starts
        landed = Landing.of_blocks(blocks)
        return between(here, call, source, _same(here, len(source)), columns, landed)

    def _exchange(self, sendbuf: Any, recvbuf: Any, read: Read, call: str) -> Call:
        count = len(self._here.peers)
        received = read(recvbuf, writable=True, rank=0, blocks=count)
        sent = read(sendbuf, writable=False, rank=0, blocks=count)
        return _blocks(self._here, call, sent, received)


Columns = tuple[Ints, Ints]
"""Bytes for each member of the other group, and where they stand."""

NONE: Columns = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def role_of(here: Communicator, root: int) -> int:
    """Return ROOT or PROC_NULL, or the root's rank in the other group.

    Raises
    ------
    Exception
        Of class ERR_ROOT if it is none of these.
    """
    if root in (ROOT, PROC_NULL) or 0 <= root < len(here.peers):
        return root
    raise MPIException(
        ERR_ROOT,
        f"root {root} of an intercommunicator; give ROOT, PROC_NULL, or the root's rank in the "
        f"other group of {len(here.peers)}",
    )


def between(
    here: Communicator,
    call: str,
    source: Array | None = None,
    sent: Columns = NONE,
    received: Columns = NONE,
    into: Landing | None = None,
    *,
    finish: Callable[[Pending], None] | None = None,
) -> Call:
    """Return the call in which bytes go between the groups; columns that are empty are nothing."""
    part = schedules.columns(*(whole(here, column) for column in (*sent, *received)))
    landed = Landing(None, None) if into is None else into
    if source is None:  # nothing to send is something else than bytes whose number alone counts
        source = np.empty(0, dtype=np.uint8)
    maker = partial(schedules.uneven, call=call)
    made = collective(here, (), maker, source, landed.array, part=part)
    return Call(made, finish or landed.finish)


def whole(here: Communicator, column: Any) -> Ints:
    """Return a number for everybody: those of the other group, 0 for one's own."""
    numbers = np.zeros(len(here.everybody), dtype=np.int64)
    begin = len(here.group) if here.first else 0
    numbers[begin : begin + len(column)] = column
    return numbers


def _blocks(here: Communicator, call: str, sent: Blocks | None, received: Blocks | None) -> Call:
    out = NONE if sent is None else (sent.nbytes, sent.starts)
    back = NONE if received is None else (received.nbytes, received.starts)
    source = None if sent is None else sent.wire()
    return between(here, call, source, out, back, Landing.of_blocks(received))


def _same(here: Communicator, nbytes: int) -> Columns:
    """Return the columns of the same bytes for all."""
    count = len(here.peers)
    return np.full(count, nbytes), np.zeros(count, dtype=np.int64)


def _one(here: Communicator, peer: int, nbytes: int) -> Columns:
    """Return the columns of bytes for one."""
    numbers, starts = _same(here, 0)
    numbers[peer] = nbytes
    return numbers, starts


def _nbytes(spec: Spec) -> int:
    return int(spec.elements().nbytes)


def _memory(spec: Spec) -> Array:
    return spec.elements().view(np.uint8)


def _combining(
    here: Communicator, call: str, sent: tuple[Array, Columns] | None, spec: Spec, op: Op
) -> Call:
    """Return the call that collects elements of all of the other group and combines them."""
    count, nbytes = len(here.peers), _nbytes(spec)
    held, rows = spec.elements(), np.empty(count * nbytes, dtype=np.uint8)
    combine = op._combine(spec.datatype)

    def finish(pending: Pending) -> None:
        parts = rows.view(held.dtype).reshape(count, -1) if nbytes else held[None, :]
        total = parts[0].copy()
        for part in parts[1:]:
            total = combine(total, part)
        held[...] = total

    each = np.full(count, nbytes)
    columns = each, np.cumsum(each) - each
    source, out = sent if sent is not None else (None, NONE)
    return between(here, call, source, out, columns, Landing(rows, None), finish=finish)


def _exchange_counts(here: Communicator, mine: int) -> list[int]:
    call = "Reduce_scatter counts"
    told: list[int] = current().exchange(here.context, here.everybody, mine, call)
    begin = len(here.group) if here.first else 0
    found = told[begin : begin + len(here.peers)]
    if sum(found) != sum(told) - sum(found):
        raise MPIException(ERR_TRUNCATE, "Reduce_scatter: the groups' counts differ in sum")
    return found
