"""Collective operations on buffers: the methods in capital letters that move elements.

Data is moved as bytes, so that ranks may describe the same elements by different types. The time of
a call is that of the schedule of `ubnet.collectives` that it runs.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.message import Collective, Pending

from . import schedules
from .buffers import read_blocks, read_even, read_spec, read_typed_blocks
from .call import Call, forms
from .communicator import CommHandle, Communicator
from .constants import PROC_NULL, in_place
from .datatype import Datatype
from .element_kind import ElementKind
from .exception import ERR_TRUNCATE
from .exception import Exception as MPIException
from .spec import Blocks, Spec

Array = NDArray[Any]


class BufferCollectives(CommHandle):
    """Collective operations whose elements stand in buffers."""

    __slots__ = ()

    def _Barrier(self) -> Call:
        """Wait until every member has come."""
        return barrier(self._here)

    def _Bcast(self, buf: Any, root: int = 0) -> Call:
        """Send the root's elements to every member."""
        here = self._here
        mine = here.check_root(root) == here.rank
        spec = read_spec(buf, writable=not mine)
        landed = Landing.of(None if mine else spec)
        maker = partial(schedules.even, operation="broadcast", count=spec.nbytes, root=root)
        agree = (*_alike(spec.datatype, spec.nbytes), ("root", root))
        source = spec.octets() if mine else None
        return Call(collective(here, agree, maker, source, landed.array), landed.finish)

    def _Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
        """Collect a block of every member at the root, in their order."""
        here = self._here
        mine = here.check_root(root) == here.rank
        blocks = read_even(recvbuf, writable=True, rank=0 if mine else PROC_NULL, blocks=here.size)
        if mine:
            source, datatype = _own_block(blocks, here, sendbuf), blocks.datatype
            _check_equal(len(source), int(blocks.nbytes[0]), "Gather")
        else:
            spec = read_spec(sendbuf, writable=False)
            source, datatype = spec.octets(), spec.datatype
        landed = Landing.of_blocks(blocks if mine else None)
        maker = partial(schedules.even, operation="gather", count=len(source), root=root)
        agree = (*_alike(datatype, len(source)), ("root", root))
        return Call(collective(here, agree, maker, source, landed.array), landed.finish)

    def _Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
        """Send block r of the root to member r."""
        here = self._here
        mine = here.check_root(root) == here.rank
        blocks = read_even(sendbuf, writable=False, rank=0 if mine else PROC_NULL, blocks=here.size)
        spec = None if mine and in_place(recvbuf) else read_spec(recvbuf, writable=True)
        nbytes = int(blocks.nbytes[0]) if mine or spec is None else spec.nbytes
        if spec is not None:
            _check_equal(nbytes, spec.nbytes, "Scatter")
        landed = Landing.of(spec)
        maker = partial(schedules.even, operation="scatter", count=nbytes, root=root)
        datatype = blocks.datatype if mine or spec is None else spec.datatype
        agree = (*_alike(datatype, nbytes), ("root", root))
        source = blocks.wire() if mine else None
        return Call(collective(here, agree, maker, source, landed.array), landed.finish)

    def _Allgather(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Collect a block of every member at every member, in their order."""
        here = self._here
        blocks = read_even(recvbuf, writable=True, rank=0, blocks=here.size)
        source = _own_block(blocks, here, sendbuf)
        _check_equal(len(source), int(blocks.nbytes[0]), "Allgather")
        landed = Landing.of_blocks(blocks)
        maker = partial(schedules.even, operation="all_gather", count=len(source))
        agree = _alike(blocks.datatype, len(source))
        return Call(collective(here, agree, maker, source, landed.array), landed.finish)

    def _Alltoall(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Send block r to member r, and receive a block of every member."""
        here = self._here
        received = read_even(recvbuf, writable=True, rank=0, blocks=here.size)
        sent = received
        if not in_place(sendbuf):
            sent = read_even(sendbuf, writable=False, rank=0, blocks=here.size)
        nbytes = int(received.nbytes[0])
        _check_equal(int(sent.nbytes[0]), nbytes, "Alltoall")
        landed = Landing.of_blocks(received)
        maker = partial(schedules.even, operation="all_to_all", count=nbytes)
        agree = _alike(received.datatype, nbytes)
        return Call(collective(here, agree, maker, sent.wire(), landed.array), landed.finish)

    def _Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
        """Collect uneven blocks at the root."""
        here = self._here
        mine = here.check_root(root) == here.rank
        received = read_blocks(
            recvbuf, writable=True, rank=0 if mine else PROC_NULL, blocks=here.size
        )
        source = None if mine and in_place(sendbuf) else _source(sendbuf)
        counts = np.zeros(here.size, dtype=np.int64)
        counts[root] = 0 if source is None else len(source)
        expected = received.nbytes.copy()
        if source is None:
            expected[root] = 0
        part = schedules.columns(counts, np.zeros_like(counts), expected, received.starts)
        landed = Landing.of_blocks(received if mine else None)
        return _uneven(here, "Gatherv", part, source, landed, root)

    def _Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Call:
        """Send uneven blocks of the root to the members."""
        here = self._here
        mine = here.check_root(root) == here.rank
        sent = read_blocks(sendbuf, writable=False, rank=0 if mine else PROC_NULL, blocks=here.size)
        spec = None if mine and in_place(recvbuf) else read_spec(recvbuf, writable=True)
        counts = sent.nbytes.copy()
        if spec is None:
            counts[root] = 0
        expected = np.zeros_like(counts)
        expected[root] = 0 if spec is None else spec.nbytes
        part = schedules.columns(counts, sent.starts, expected, np.zeros_like(counts))
        source = sent.wire() if mine else None
        return _uneven(here, "Scatterv", part, source, Landing.of(spec), root)

    def _Allgatherv(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Collect uneven blocks at every member."""
        here = self._here
        received = read_blocks(recvbuf, writable=True, rank=0, blocks=here.size)
        source = _own_block(received, here, sendbuf)
        counts = np.full(here.size, len(source))
        part = schedules.columns(counts, np.zeros_like(counts), received.nbytes, received.starts)
        return _uneven(here, "Allgatherv", part, source, Landing.of_blocks(received))

    def _Alltoallv(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Exchange uneven blocks of all members with all."""
        here = self._here
        received = read_blocks(recvbuf, writable=True, rank=0, blocks=here.size)
        sent = received
        if not in_place(sendbuf):
            sent = read_blocks(sendbuf, writable=False, rank=0, blocks=here.size)
        part = schedules.columns(sent.nbytes, sent.starts, received.nbytes, received.starts)
        return _uneven(here, "Alltoallv", part, sent.wire(), Landing.of_blocks(received))

    def _Alltoallw(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Exchange uneven blocks, each of its own type, of all members with all."""
        here = self._here
        received = read_typed_blocks(recvbuf, writable=True, blocks=here.size)
        sent = received
        if not in_place(sendbuf):
            sent = read_typed_blocks(sendbuf, writable=False, blocks=here.size)
        part = schedules.columns(sent.nbytes, sent.starts, received.nbytes, received.starts)
        return _uneven(here, "Alltoallw", part, sent.wire(), Landing.of_blocks(received))

    Barrier, Ibarrier, Barrier_init = forms(_Barrier)
    Bcast, Ibcast, Bcast_init = forms(_Bcast)
    Gather, Igather, Gather_init = forms(_Gather)
    Scatter, Iscatter, Scatter_init = forms(_Scatter)
    Allgather, Iallgather, Allgather_init = forms(_Allgather)
    Alltoall, Ialltoall, Alltoall_init = forms(_Alltoall)
    Gatherv, Igatherv, Gatherv_init = forms(_Gatherv)
    Scatterv, Iscatterv, Scatterv_init = forms(_Scatterv)
    Allgatherv, Iallgatherv, Allgatherv_init = forms(_Allgatherv)
    Alltoallv, Ialltoallv, Alltoallv_init = forms(_Alltoallv)
    Alltoallw, Ialltoallw, Alltoallw_init = forms(_Alltoallw)


class Landing:
    """Where a rank receives: an array for the world, and what puts its bytes in their places."""

    def __init__(self, array: Array | None, unpack: Callable[[], None] | None) -> None:
        self.array = array
        self._unpack = unpack

    @property
    def finish(self) -> Callable[[Pending], None] | None:
        """What is left to do at the end of a call, if anything."""
        unpack = self._unpack
        return None if unpack is None else lambda pending: unpack()

    @classmethod
    def of(cls, spec: Spec | None) -> "Landing":
        """Return the landing of one run of elements, of none where the rank receives nothing."""
        if spec is None:
            return cls(None, None)
        into, unpack = spec.land()
        array = np.frombuffer(into, np.uint8) if spec.nbytes else np.empty(0, dtype=np.uint8)
        return cls(array, None if unpack is None else partial(unpack, spec.nbytes))

    @classmethod
    def of_blocks(cls, blocks: Blocks | None) -> "Landing":
        """Return the landing of a block for each rank."""
        return cls(None, None) if blocks is None else cls(*blocks.land())


def barrier(here: Communicator) -> Call:
    """Return the call of a barrier."""
    maker = partial(schedules.even, operation="barrier")
    return Call(collective(here, (), maker))


def collective(
    here: Communicator,
    agree: tuple[tuple[str, Hashable], ...],
    maker: Any,
    source: Array | None = None,
    output: Array | None = None,
    *,
    part: Any = None,
    reduce: Any = None,
) -> Collective:
    """Return this rank's part of an operation, as the world takes it."""
    array = source if source is not None else output
    itemsize = 1 if array is None else array.itemsize
    return Collective(
        here.context, here.everybody, "", agree, maker, part, itemsize, source, output, reduce
    )


def _alike(datatype: Datatype, nbytes: int) -> tuple[tuple[str, Hashable], ...]:
    """Return what all members must give alike: bytes of a block, and of which elements."""
    return ("bytes", nbytes), ("datatype", ElementKind.of(datatype, nbytes))


def _uneven(
    here: Communicator,
    call: str,
    part: bytes,
    source: Array | None,
    landed: Landing,
    root: int | None = None,
) -> Call:
    maker = partial(schedules.uneven, call=call)
    agree = () if root is None else (("root", root),)
    made = collective(here, agree, maker, source, landed.array, part=part)
    return Call(made, landed.finish)


def _source(sendbuf: Any) -> Array:
    return read_spec(sendbuf, writable=False).octets()


def _own_block(blocks: Blocks, here: Communicator, sendbuf: Any) -> Array:
    """Return what a rank sends: its buffer, or in place its block of what it receives."""
    if in_place(sendbuf):
        return blocks.block(here.rank).octets().copy()
    return _source(sendbuf)


def _check_equal(sent: int, received: int, call: str) -> None:
    if sent != received:
        raise MPIException(
            ERR_TRUNCATE,
            f"{call}: a block of {sent} bytes is sent and one of {received} bytes is received; "
            "both must be equal",
        )
