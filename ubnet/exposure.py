"""The memory that ranks expose in windows: where accesses are carried out, in one process.

What an access does waits here, or comes from the process of its origin, until the clock says that
it takes effect; its result waits here, or goes to that process, until the origin is told.
"""

import pickle
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ubnet.access import Access, Effect
from ubnet.errors import OutsideWindow
from ubnet.message import Completion, Pending
from ubnet.phantom import Phantom
from ubnet.reductions import reduction

Bytes = NDArray[np.uint8]
Key = tuple[int, int]


class Exposure:
    """What one rank exposes in a window: one memory, or regions by their addresses.

    Parameters
    ----------
    memory : ndarray of uint8, Phantom or None
        The memory that offsets count from; None: regions are attached later.
    """

    def __init__(self, memory: Bytes | Phantom | None = None) -> None:
        self._regions: dict[int, Bytes | Phantom] = {} if memory is None else {0: memory}

    def attach(self, address: int, memory: Bytes) -> None:
        """Expose another region, which offsets find by its address."""
        self._regions[address] = memory

    def detach(self, address: int) -> bool:
        """Expose the region at that address no longer; return whether there was one."""
        return self._regions.pop(address, None) is not None

    def find(self, offset: int, span: int) -> Bytes | Phantom:
        """Return the bytes that an access reaches.

        Raises
        ------
        OutsideWindow
            If they are not all exposed.
        """
        if not span:
            return np.empty(0, dtype=np.uint8)
        for address, memory in self._regions.items():
            if address <= offset and offset + span <= address + memory.nbytes:
                if isinstance(memory, Phantom):
                    return Phantom(span)
                return memory[offset - address : offset - address + span]
        shown = ", ".join(f"{m.nbytes} at {a}" for a, m in list(self._regions.items())[:4])
        raise OutsideWindow(
            f"an access to {span} bytes from byte {offset} on, where the window has "
            f"{shown or 'none'}: stay inside of it"
        )


class Carrier(Protocol):
    """What carries accesses and their results between the processes of a world."""

    process: int
    process_of: NDArray[np.int64]

    def send_payload(self, process: int, data: bytes) -> int: ...  # noqa: D102

    def receive_payload(self, source_rank: int, wire: int) -> bytearray: ...  # noqa: D102

    def send_answer(self, process: int, key: Key, answer: bytes) -> None: ...  # noqa: D102

    def receive_answer(self, process: int, key: Key) -> bytearray: ...  # noqa: D102


class Exposures:
    """The windows' memory of the ranks of one process, and the accesses on their way to it.

    Parameters
    ----------
    carrier : Carrier or None
        What reaches other processes, None if this one is alone.
    """

    def __init__(self, carrier: Carrier | None) -> None:
        self._carrier = carrier
        self._memory: dict[Key, Exposure] = {}
        self._accesses: dict[Key, Access] = {}
        self._answers: dict[Key, Any] = {}

    def expose(self, window: int, rank: int, exposure: Exposure) -> None:
        """Let a window reach a rank's memory."""
        self._memory[window, rank] = exposure

    def withdraw(self, window: int, rank: int) -> None:
        """Let a window reach a rank's memory no longer."""
        self._memory.pop((window, rank), None)

    def send(self, rank: int, number: int, target: int, access: Access) -> int:
        """Keep an access, or send it on its way to the target; return its wire number."""
        there = self._elsewhere(target)
        if there is None or self._carrier is None:
            self._accesses[rank, number] = access
            return -1
        return self._carrier.send_payload(there, pickle.dumps(access))

    def carry_out(self, effect: Effect) -> None:
        """Let an access take effect in the memory of its target."""
        key = (effect.rank, effect.number)
        if effect.wire < 0:
            access = self._accesses.pop(key)
        else:
            assert self._carrier is not None
            access = pickle.loads(self._carrier.receive_payload(effect.rank, effect.wire))
        answer: bytes | Phantom | OutsideWindow | None
        try:
            exposure = self._memory[effect.window, effect.target]
            answer = _carry_out(access, exposure.find(access.offset, access.span))
        except OutsideWindow as error:
            if not effect.answer:
                raise
            answer = error
        if not effect.answer:
            return
        there = self._elsewhere(effect.rank)
        if there is None or self._carrier is None:
            self._answers[key] = answer
        else:
            self._carrier.send_answer(there, key, pickle.dumps(answer))

    def finish(self, pending: Pending, done: Completion) -> None:
        """Give the origin of an access its result, into the buffer that it gave."""
        rank, number, target, _, nbytes, *_ = done
        key = (rank, number)
        there = self._elsewhere(target)
        if there is None or self._carrier is None:
            answer = self._answers.pop(key)
        else:
            answer = pickle.loads(self._carrier.receive_answer(there, key))
        pending.source, pending.nbytes = target, nbytes
        if isinstance(answer, OutsideWindow):
            pending.error = answer
        elif pending.data is None:
            pending.data = answer
        elif isinstance(answer, bytes) and not isinstance(pending.data, Phantom) and answer:
            memoryview(pending.data).cast("B")[: len(answer)] = answer

    def _elsewhere(self, rank: int) -> int | None:
        """Return the process of a rank that this one does not host."""
        if self._carrier is None:
            return None
        there = int(self._carrier.process_of[rank])
        return None if there == self._carrier.process else there


def _carry_out(access: Access, reached: Bytes | Phantom) -> bytes | Phantom | None:
    """Do what an access does; return what it fetches."""
    if isinstance(reached, Phantom):
        return Phantom(access.touched) if access.fetch else None
    held = reached if access.places is None else reached[access.places]
    fetched = held.tobytes() if access.fetch else None
    data = access.data
    if data is None or isinstance(data, Phantom):
        return fetched
    if access.compare is not None and held.tobytes() != access.compare:
        return fetched
    stored = np.frombuffer(data, np.uint8)
    if access.combine is not None:
        combine = access.combine
        if isinstance(combine, str):
            combine = reduction(combine).combine
        dtype = np.dtype(access.dtype)
        made = combine(held.view(dtype), stored.view(dtype))
        stored = np.ascontiguousarray(made, dtype=dtype).view(np.uint8)
    if access.places is None:
        reached[: len(stored)] = stored
    else:
        reached[access.places[: len(stored)]] = stored
    return fetched
