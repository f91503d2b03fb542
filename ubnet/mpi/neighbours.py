"""Neighbourhood operations: every member sends to its neighbours in the topology alone."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ubnet.message import Collective

from . import schedules
from .buffer_collectives import Array, Landing, collective
from .buffers import read_blocks, read_even, read_spec, read_typed_blocks
from .call import Call, forms
from .communicator import CommHandle
from .constants import PROC_NULL
from .object_collectives import data_of
from .pickling import dump_each, framed, load_each, pickle
from .spec import Blocks
from .topology import Edges


class Neighbours(CommHandle):
    """Collective operations among neighbours."""

    __slots__ = ()

    def _Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Send the same block to all neighbours, and receive one of each."""
        received = read_even(recvbuf, writable=True, rank=0, blocks=self._degree(0))
        return self._gather(sendbuf, received, "Neighbor_allgather")

    def _Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Send the same block to all neighbours, and receive uneven ones."""
        received = read_blocks(recvbuf, writable=True, rank=0, blocks=self._degree(0))
        return self._gather(sendbuf, received, "Neighbor_allgatherv")

    def _Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Send block r to neighbour r, and receive one of each."""
        received = read_even(recvbuf, writable=True, rank=0, blocks=self._degree(0))
        sent = read_even(sendbuf, writable=False, rank=0, blocks=self._degree(1))
        return self._exchange(sent, received, "Neighbor_alltoall")

    def _Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Send uneven blocks to the neighbours, and receive uneven ones."""
        received = read_blocks(recvbuf, writable=True, rank=0, blocks=self._degree(0))
        sent = read_blocks(sendbuf, writable=False, rank=0, blocks=self._degree(1))
        return self._exchange(sent, received, "Neighbor_alltoallv")

    def _Neighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> Call:
        """Send uneven blocks, each of its own type, to the neighbours, and receive such."""
        received = read_typed_blocks(recvbuf, writable=True, blocks=self._degree(0))
        sent = read_typed_blocks(sendbuf, writable=False, blocks=self._degree(1))
        return self._exchange(sent, received, "Neighbor_alltoallw")

    Neighbor_allgather, Ineighbor_allgather, Neighbor_allgather_init = forms(_Neighbor_allgather)
    Neighbor_allgatherv, Ineighbor_allgatherv, Neighbor_allgatherv_init = forms(
        _Neighbor_allgatherv
    )
    Neighbor_alltoall, Ineighbor_alltoall, Neighbor_alltoall_init = forms(_Neighbor_alltoall)
    Neighbor_alltoallv, Ineighbor_alltoallv, Neighbor_alltoallv_init = forms(_Neighbor_alltoallv)
    Neighbor_alltoallw, Ineighbor_alltoallw, Neighbor_alltoallw_init = forms(_Neighbor_alltoallw)

    def neighbor_allgather(self, sendobj: Any) -> list[Any]:
        """Send an object to all neighbours, and return one of each; None where there is none."""
        data = framed([pickle.dumps(sendobj)])
        lengths = [len(data)] * self._degree(1)
        return self._objects(data, lengths, [0] * len(lengths), "neighbor_allgather")

    def neighbor_alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Send object r to neighbour r, and return one of each; None where there is none."""
        frames = [framed([data]) for data in dump_each(sendobj, self._degree(1))]
        lengths = [len(frame) for frame in frames]
        starts = np.cumsum([0, *lengths])[:-1].tolist()
        return self._objects(b"".join(frames), lengths, starts, "neighbor_alltoall")

    def _sides(self) -> tuple[Edges, Edges]:
        """Return who sends to this member, and to whom it sends."""
        here = self._here
        topology = here.topology
        return topology.sources(here.rank), topology.destinations(here.rank)

    def _degree(self, side: int) -> int:
        return len(self._sides()[side].peers)

    def _gather(self, sendbuf: Any, received: Blocks, call: str) -> Call:
        source = read_spec(sendbuf, writable=False).octets()
        degree = self._degree(1)
        lengths, starts = np.full(degree, len(source)), np.zeros(degree, dtype=np.int64)
        return self._call(source, (lengths, starts), received, "neighbor_all_gather", call)

    def _exchange(self, sent: Blocks, received: Blocks, call: str) -> Call:
        sizes = sent.nbytes, sent.starts
        return self._call(sent.wire(), sizes, received, "neighbor_all_to_all", call)

    def _call(
        self, source: Array, sent: tuple[Array, Array], received: Blocks, operation: str, call: str
    ) -> Call:
        inward, outward = self._sides()
        part = schedules.edges(
            (outward.peers, outward.labels, *sent),
            (inward.peers, inward.labels, received.nbytes, received.starts),
        )
        maker = partial(schedules.neighbours, operation=operation, call=call)
        landed = Landing.of_blocks(received)
        assert landed.array is not None
        source = source[: _used(outward, *sent)]
        output = landed.array[: _used(inward, received.nbytes, received.starts)]
        made = collective(self._here, (), maker, source, output, part=part)
        return Call(made, landed.finish)

    def _objects(
        self, data: bytes, lengths: Sequence[int], starts: Sequence[int], call: str
    ) -> list[Any]:
        here = self._here
        inward, outward = self._sides()
        unknown = (0,) * len(inward.peers)  # the schedule's maker finds what the others send
        part = schedules.edges(
            (outward.peers, outward.labels, lengths, starts),
            (inward.peers, inward.labels, unknown, unknown),
        )
        operation = "neighbor_all_gather" if call.endswith("gather") else "neighbor_all_to_all"
        maker = partial(schedules.neighbour_objects, operation=operation)
        used = _used(outward, np.array(lengths), np.array(starts))
        source = np.frombuffer(data[:used], dtype=np.uint8)
        made = Collective(here.context, here.group, "", (), maker, part, 1, source, keep=True)
        came = iter(load_each(Call(made, data_of).run(call)))
        return [None if peer == PROC_NULL else next(came) for peer in inward.peers]


def _used(side: Edges, lengths: Array, starts: Array) -> int:
    """Return the bytes up to the end of the last block that has a neighbour."""
    there = (np.array(side.peers, dtype=np.int64) >= 0) & (lengths > 0)
    return int((starts + lengths)[there].max(initial=0))
