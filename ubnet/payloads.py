"""What ranks send, kept until it is received: small messages copied, larger ones where they are."""

from typing import Any

from ubnet.errors import Truncated
from ubnet.message import Buffer, Completion, Pending, Phantom, octets
from ubnet.processes import Processes

LOCAL, PHANTOM = -1, -2
"""Wire numbers of payloads that stay in the process, and of those that are size only."""


class Payloads:
    """The payloads of what the ranks of one process send.

    Parameters
    ----------
    ranks : range
        Those that this process hosts.
    processes : Processes or None
        The processes of the world, None if this one is alone.
    eager_bytes : int
        Messages up to this size are copied when they are sent.
    """

    def __init__(self, ranks: range, processes: Processes | None, eager_bytes: int) -> None:
        self._here = frozenset(ranks)
        self._processes = processes
        self._eager_bytes = eager_bytes
        self._kept: dict[tuple[int, int] | None, Any] = {}

    def keep(
        self, rank: int, number: int, dest: int, data: Buffer | Phantom, mode: str
    ) -> tuple[int, int]:
        """Keep or send on what a rank sends; return its bytes and its wire number."""
        elsewhere = dest not in self._here
        if type(data) is Phantom:
            if elsewhere:
                return data.nbytes, PHANTOM
            self._kept[rank, number] = data
            return data.nbytes, LOCAL
        view = memoryview(data)
        nbytes = view.nbytes
        if elsewhere:
            assert self._processes is not None
            there = int(self._processes.process_of[dest])
            return nbytes, self._processes.send_payload(there, view.tobytes())
        copied = mode == "buffered" or nbytes <= self._eager_bytes
        self._kept[rank, number] = view.tobytes() if copied else octets(view)
        return nbytes, LOCAL

    def release(self, rank: int, number: int, nbytes: int) -> None:
        """Let the sender change its buffer from now on: keep a copy if nobody has taken it."""
        if nbytes <= self._eager_bytes:
            return
        payload = self._kept.get((rank, number))
        if isinstance(payload, memoryview):
            self._kept[rank, number] = bytes(payload)

    def receive(self, pending: Pending, done: Completion) -> None:
        """End a receive: what was sent is in its buffer, or in its ``data``, afterwards."""
        _, _, source, tag, nbytes, key, wire, outcome = done
        pending.source, pending.tag, pending.nbytes = source, tag, nbytes
        payload = self._kept.pop(key) if wire == LOCAL else self._fetch(source, nbytes, wire)
        into = pending.data
        if outcome == "truncated":
            pending.error = Truncated(
                f"a message of {nbytes} bytes from rank {source} (tag {tag}) does "
                f"not fit into the {into.nbytes} bytes of the receive: give a buffer that "
                "is large enough"
            )
        elif into is None:
            pending.data = payload if type(payload) is Phantom else bytes(payload)
        elif nbytes and type(payload) is not Phantom and type(into) is not Phantom:
            into[:nbytes] = payload

    def _fetch(self, source: int, nbytes: int, wire: int) -> Any:
        if wire == PHANTOM:
            return Phantom(nbytes)
        assert self._processes is not None
        return self._processes.receive_payload(source, wire)
