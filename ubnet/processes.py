"""The processes of a world under mpirun: who hosts which rank, and what travels between them.

Process 0 holds the clock. There is one exchange per step in which ranks wake: the processes that
were told to go on send their posts, and are told what follows. Payloads go straight from process
to process. Whoever waits sleeps between looks, so that waiting processes do not burn the cores.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.access import Effect
from ubnet.errors import OptionError
from ubnet.fabric import Ints
from ubnet.message import Completion, Delivery, Post, Replay
from ubnet.parcel import pack_delivery, pack_posts, unpack_delivery, unpack_posts
from ubnet.real_mpi import load_real_mpi

HOLDER = 0
ANSWER = 0
"""The tag of results of accesses, which is no wire number."""

SPINS = 250
LONGEST_NAP_S = 0.0002
"""Naps that grow to this cost a waiting process some hundredth of a core; longer ones cost all of
them time at every exchange."""

PIECE_BYTES = 1 << 30
"""A real message's count is a 32-bit number in Open MPI: larger payloads go in pieces."""

SWEEP_AT = 64
"""Sends under way at which those that are done are first looked for."""

Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class _Kept:
    """What a process is told of next time."""

    completions: list[Completion] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    values: dict[tuple[int, int], Sequence[Any]] = field(default_factory=dict)


class Processes:
    """The processes of one world.

    Parameters
    ----------
    ranks : int
        Number of ranks, dealt in blocks; the first processes get one more.

    Raises
    ------
    OptionError
        If there are fewer ranks than processes.
    """

    def __init__(self, ranks: int) -> None:
        mpi = load_real_mpi()
        self._mpi = mpi
        self._control = mpi.COMM_WORLD.Dup()
        self._payload = mpi.COMM_WORLD.Dup()
        self._bulk = mpi.COMM_WORLD.Dup()
        self.process = self._control.rank
        self.size = self._control.size
        if ranks < self.size:
            raise OptionError(
                f"{ranks} ranks on {self.size} processes: every process hosts at least one rank; "
                f"use -n {self.size} or more, or fewer processes"
            )
        blocks = np.array_split(np.arange(ranks), self.size)
        self.process_of: Ints = np.repeat(np.arange(self.size), [len(b) for b in blocks])
        self._home: list[int] = self.process_of.tolist()
        self.hosted = range(int(blocks[self.process][0]), int(blocks[self.process][-1]) + 1)
        self._wire = 0
        self._last_wire = mpi.COMM_WORLD.Get_attr(mpi.TAG_UB)
        self._sent = np.zeros(self.size, dtype=np.int64)
        self._received = np.zeros(self.size, dtype=np.int64)
        self._sending: list[Any] = []
        self._telling: list[Any] = []
        self._sweep_at = SWEEP_AT
        self._answers: dict[tuple[int, int], bytearray] = {}
        self._expected = set(range(1, self.size))
        self._kept = [_Kept() for _ in range(self.size)]

    def collect(self, posts: list[Post]) -> list[Post]:
        """At the holder: return the posts of all processes that were told to go on."""
        for process in sorted(self._expected):
            posts = posts + unpack_posts(self._take(self._control, process, 0))
        self._expected = set()
        return posts

    def split(self, delivery: Delivery) -> tuple[Delivery, dict[int, Delivery]]:
        """At the holder: split a delivery into its own and those of processes with news.

        A process without a rank to wake and without bytes to move is left alone; what has ended
        for its ranks, and what takes effect in their memory, is kept for the next time.
        """
        home, kept = self._home, self._kept
        wake: list[list[int]] = [[] for _ in range(self.size)]
        replays: list[list[Replay]] = [[] for _ in range(self.size)]
        for rank in delivery.wake:
            wake[home[rank]].append(rank)
        for replay in delivery.replays:
            for process in {home[rank] for rank in replay.group}:
                replays[process].append(replay)
        answering = {home[effect.target] for effect in delivery.effects if effect.answer}
        for effect in delivery.effects:
            kept[home[effect.target]].effects.append(effect)
        for done in delivery.completions:
            kept[home[done[0]]].completions.append(done)
        for key, values in (delivery.values or {}).items():
            kept[home[key[0]]].values[key] = values
        told: dict[int, Delivery] = {}
        for p in range(self.size):
            if p == HOLDER or p in answering or wake[p] or replays[p]:
                known, kept[p] = kept[p], _Kept()
                told[p] = Delivery(
                    delivery.now_ps,
                    known.completions,
                    wake[p],
                    known.effects,
                    replays[p],
                    known.values,
                )
        return told.pop(HOLDER), told

    def deliver(self, deliveries: Mapping[int, object]) -> None:
        """At the holder: tell other processes what follows; those report again."""
        for process, delivery in deliveries.items():
            if isinstance(delivery, Delivery):
                self._expected.add(process)
                delivery = pack_delivery(delivery)
            self._tell(delivery, process, 1)

    def report(self, posts: list[Post]) -> None:
        """At the others: send the posts to the holder."""
        self._tell(pack_posts(posts), HOLDER, 0)

    def hear(self) -> Any:
        """At the others: return what the holder says that follows."""
        told = self._take(self._control, HOLDER, 1)
        return unpack_delivery(told) if isinstance(told, tuple) else told

    def share(self, value: Any) -> list[Any]:
        """Return the values of all processes, in every process."""
        return list(self._control.allgather(value))

    def send_payload(self, process: int, data: bytes) -> int:
        """Send a payload on its way; return its wire number."""
        self._wire = self._wire % self._last_wire + 1
        self._send(process, self._wire, data)
        return self._wire

    def receive_payload(self, source_rank: int, wire: int) -> bytearray:
        """Return a payload that the process of `source_rank` has sent."""
        return self._receive(int(self.process_of[source_rank]), wire)

    def send_answer(self, process: int, key: tuple[int, int], answer: bytes) -> None:
        """Send the result of an access to the process of its origin, under its name."""
        self._send(process, ANSWER, np.array(key, dtype=np.int64).tobytes() + answer)

    def receive_answer(self, process: int, key: tuple[int, int]) -> bytearray:
        """Return the result of an access; those that others wait for are kept for them."""
        while key not in self._answers:
            data = self._receive(process, ANSWER)
            rank, number = np.frombuffer(data[:16], dtype=np.int64).tolist()
            self._answers[rank, number] = data[16:]
        return self._answers.pop(key)

    def swap(self, outgoing: Mapping[int, Bytes], incoming: Mapping[int, int]) -> dict[int, Bytes]:
        """Send `outgoing` by process; return what comes in, of the sizes `incoming`."""
        received = {p: np.empty(n, dtype=np.uint8) for p, n in incoming.items()}
        byte = self._mpi.BYTE
        requests = [
            self._bulk.Irecv([piece, byte], source=p)
            for p, array in received.items()
            for piece in _pieces(array)
        ]
        requests += [
            self._bulk.Isend([piece, byte], dest=p)
            for p, array in outgoing.items()
            for piece in _pieces(array)
        ]
        _nap_until(lambda: self._mpi.Request.Testall(requests))
        return received

    def close(self) -> None:
        """Receive the payloads that nobody asked for, and give the communicators back."""
        for process, sent in enumerate(self._control.alltoall(self._sent.tolist())):
            while self._received[process] < sent:
                self._receive_piece(process, self._mpi.ANY_TAG)
        self._mpi.Request.Waitall([*self._sending, *self._telling])
        for communicator in (self._control, self._payload, self._bulk):
            communicator.Free()

    def abort(self, status: int) -> None:
        """End all processes at once."""
        self._control.Abort(status)

    def _tell(self, value: object, process: int, tag: int) -> None:
        """Send a value without waiting: a blocking send would spin until it is received."""
        self._telling = [request for request in self._telling if not request.Test()]
        self._telling.append(self._control.isend(value, dest=process, tag=tag))

    def _send(self, process: int, tag: int, data: bytes) -> None:
        if len(self._sending) >= self._sweep_at:
            self._sending = [request for request in self._sending if not request.Test()]
            self._sweep_at = max(2 * len(self._sending), SWEEP_AT)
        for piece in _pieces(data):
            request = self._payload.Isend([piece, self._mpi.BYTE], dest=process, tag=tag)
            self._sending.append(request)
            self._sent[process] += 1

    def _receive(self, process: int, tag: int) -> bytearray:
        data = piece = self._receive_piece(process, tag)
        while len(piece) == PIECE_BYTES:
            piece = self._receive_piece(process, tag)
            data = data + piece
        return data

    def _receive_piece(self, process: int, tag: int) -> bytearray:
        status = self._mpi.Status()
        _nap_until(lambda: self._payload.Iprobe(source=process, tag=tag, status=status))
        data = bytearray(status.Get_count(self._mpi.BYTE))
        self._payload.Recv([data, self._mpi.BYTE], source=process, tag=status.Get_tag())
        self._received[process] += 1
        return data

    def _take(self, comm: Any, process: int, tag: int) -> Any:
        _nap_until(lambda: comm.Iprobe(source=process, tag=tag))
        return comm.recv(source=process, tag=tag)


def _pieces(data: Any) -> list[memoryview]:
    """Cut bytes into pieces that one real message can carry; the last one is never full."""
    view = memoryview(data)
    return [view[i : i + PIECE_BYTES] for i in range(0, len(view) + 1, PIECE_BYTES)]


def _nap_until(ready: Callable[[], bool]) -> None:
    """Look until it is ready: at first again and again, then with naps that grow."""
    nap = 20e-6
    for look in range(1 << 62):
        if ready() or ready():  # Open MPI fetches at one look what it shows at the next
            return
        if look < SPINS:
            os.sched_yield()
        else:
            time.sleep(nap)
            nap = min(2 * nap, LONGEST_NAP_S)
