"""Mooncake's transfer engine: its calls, on numpy memory and virtual time.

A program that uses Mooncake's Python class finds the same calls here, with two differences: the
place of the metadata server is taken by the `Carrier`, and a peer's address is that of a numpy
array in the same process.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError, did_you_mean
from ubnet.transport import READ, WRITE
from ubnet.units import PS_PER_S

from .blocks import Bytes
from .carrier import Carrier
from .job import Job
from .plan import plan_rows
from .segment import Segment
from .status import Status

PROTOCOLS = {"rdma": "roce", "ascend": "sdma", "ub": "sdma", "tcp": "vpc"}
"""Mooncake's names of protocols; a transport of the fabric may be named instead."""


class TransferEngine:
    """One process of a serving engine that reads and writes the memory of others.

    Examples
    --------
    >>> import numpy as np
    >>> from ubnet.fabrics import load_fabric
    >>> carrier = Carrier(load_fabric("cloudmatrix64"))
    >>> prefill, decode = TransferEngine(), TransferEngine()
    >>> prefill.initialize("node00.npu0.die0", carrier, "rdma", "")
    0
    >>> decode.initialize("node03.npu0.die0", carrier, "rdma", "")
    0
    >>> cache, into = np.arange(1000), np.zeros(1000, dtype=int)
    >>> prefill.register_memory(cache), decode.register_memory(into)
    (0, 0)
    >>> source, target = cache.ctypes.data, into.ctypes.data
    >>> batch = prefill.transfer_submit_write("node03.npu0.die0", source, target, cache.nbytes)
    >>> prefill.transfer_check_status(batch)
    <Status.RUNNING: 0>
    >>> while prefill.transfer_check_status(batch) == 0:
    ...     pass
    >>> prefill.transfer_check_status(batch), bool((into == cache).all())
    (<Status.DONE: 1>, True)
    """

    def __init__(self) -> None:
        self._carrier: Carrier | None = None
        self._segment: Segment | None = None
        self._transport = ""
        self._jobs: dict[int, Job] = {}
        self._buffers: dict[int, Bytes] = {}
        self.timeout_s: float | None = None

    def initialize(
        self,
        local_hostname: str,
        metadata_server: Carrier,
        protocol: str = "rdma",
        device_name: str = "",
    ) -> int:
        """Take part.

        Parameters
        ----------
        local_hostname : str
            The endpoint, with ``:`` and anything behind it for several processes on one.
        metadata_server : Carrier
            What joins the engines: fabric, clock and the directory of segments.
        protocol : str
            ``rdma``, ``ascend`` or ``ub`` (both SDMA over UB), ``tcp`` (VPC), or a transport.
        device_name : str
            Mooncake's network card; a die of the fabric has one of its own, so it is not used.

        Returns
        -------
        int
            0, as Mooncake does; what is wrong is raised.
        """
        if not isinstance(metadata_server, Carrier):
            raise OptionError(
                f"metadata_server is {metadata_server!r}: pass the ubnet.kv.Carrier that joins "
                "the engines"
            )
        if self._segment is not None:
            raise OptionError(f"this engine is {self._segment.name} already: make another one")
        transport = PROTOCOLS.get(protocol, protocol)
        metadata_server.fabric.transport(transport)
        self._segment = metadata_server.join(local_hostname, local_hostname.split(":")[0])
        self._carrier, self._transport = metadata_server, transport
        return 0

    def register_memory(self, buffer: int | NDArray[Any], capacity: int | None = None) -> int:
        """Register an array, or the memory at an address; transfers touch no other."""
        regions = self._own().regions
        if isinstance(buffer, np.ndarray):
            regions.add(buffer)
        else:
            regions.add_address(int(buffer), -1 if capacity is None else int(capacity))
        return 0

    def unregister_memory(self, buffer: int | NDArray[Any]) -> int:
        """Forget registered memory, by its array or address."""
        address = buffer.ctypes.data if isinstance(buffer, np.ndarray) else int(buffer)
        self._own().regions.remove(address)
        return 0

    def batch_register_memory(self, buffers: Sequence[int], capacities: Sequence[int]) -> int:
        """Register several."""
        for buffer, capacity in zip(buffers, capacities, strict=True):
            self.register_memory(buffer, capacity)
        return 0

    def batch_unregister_memory(self, buffers: Sequence[int]) -> int:
        """Forget several."""
        for buffer in buffers:
            self.unregister_memory(buffer)
        return 0

    def allocate_managed_buffer(self, length: int) -> int:
        """Allocate and register memory of the engine's own and return its address."""
        memory = np.zeros(length, dtype=np.uint8)
        self._buffers[self._own().regions.add(memory).address] = memory
        return int(memory.ctypes.data)

    def free_managed_buffer(self, buffer: int, length: int) -> int:
        """Give such memory back."""
        self._own().regions.remove(buffer)
        del self._buffers[buffer]
        return 0

    def get_first_buffer_address(self, segment_name: str) -> int:
        """Return the lowest registered address of a peer, 0 where it has none."""
        regions = self._peer(segment_name).regions
        return regions[0].address if len(regions) else 0

    def transfer_sync_write(
        self, target_hostname: str, buffer: int, peer_buffer_address: int, length: int
    ) -> int:
        """Write to a peer and wait until it has arrived.

        Returns
        -------
        int
            0 where it has arrived, as Mooncake does; otherwise a `Status` below 0.
        """
        return self._sync(WRITE, target_hostname, [buffer], [peer_buffer_address], [length])

    def transfer_sync_read(
        self, target_hostname: str, buffer: int, peer_buffer_address: int, length: int
    ) -> int:
        """Read from a peer and wait until it has arrived."""
        return self._sync(READ, target_hostname, [buffer], [peer_buffer_address], [length])

    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
    ) -> int:
        """Write many runs of bytes as one transfer and wait; sequences or arrays of integers."""
        return self._sync(WRITE, target_hostname, buffers, peer_buffer_addresses, lengths)

    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
    ) -> int:
        """Read many runs of bytes as one transfer and wait."""
        return self._sync(READ, target_hostname, buffers, peer_buffer_addresses, lengths)

    def transfer_submit_write(
        self, target_hostname: str, buffer: int, peer_buffer_address: int, length: int
    ) -> int:
        """Start to write to a peer and return the number to ask for its status."""
        return self._submit(WRITE, target_hostname, [buffer], [peer_buffer_address], [length])

    def transfer_submit_read(
        self, target_hostname: str, buffer: int, peer_buffer_address: int, length: int
    ) -> int:
        """Start to read from a peer."""
        return self._submit(READ, target_hostname, [buffer], [peer_buffer_address], [length])

    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
    ) -> int:
        """Start to write many runs of bytes as one transfer."""
        return self._submit(WRITE, target_hostname, buffers, peer_buffer_addresses, lengths)

    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
    ) -> int:
        """Start to read many runs of bytes as one transfer."""
        return self._submit(READ, target_hostname, buffers, peer_buffer_addresses, lengths)

    def transfer_check_status(self, batch_id: int) -> Status:
        """Return how a transfer stands: DONE 1, RUNNING 0, FAILED -1, TIMED_OUT -2.

        Once it is not RUNNING, nothing of it writes any more. Asked in vain, the clock goes on by
        the carrier's ``poll_ps``.
        """
        return self._joined().poll(self.job(batch_id))

    def get_batch_transfer_status(self, batch_ids: Sequence[int]) -> int:
        """Wait for all of some transfers; 0, or how the first one that failed stands."""
        states = [self._joined().wait(self.job(batch_id)) for batch_id in batch_ids]
        return next((state for state in states if state is not Status.DONE), 0)

    def cancel(self, batch_id: int) -> Status:
        """Stop a transfer; when this returns, nothing of it writes any more."""
        return self._joined().cancel(self.job(batch_id))

    def job(self, batch_id: int) -> Job:
        """Return the transfer of a number: times, bytes, messages and the reason of a failure."""
        if batch_id not in self._jobs:
            raise OptionError(f"no transfer {batch_id} was submitted by {self._own().name}")
        return self._jobs[batch_id]

    def _sync(
        self,
        op: str,
        peer: str,
        buffers: Sequence[int],
        addresses: Sequence[int],
        lengths: Sequence[int],
    ) -> int:
        number = self._submit(op, peer, buffers, addresses, lengths)
        status = self._joined().wait(self._jobs[number])
        return 0 if status is Status.DONE else status

    def _submit(
        self,
        op: str,
        peer: str,
        buffers: Sequence[int],
        addresses: Sequence[int],
        lengths: Sequence[int],
    ) -> int:
        carrier, own, other = self._joined(), self._own(), self._peer(peer)
        if not len(buffers) == len(addresses) == len(lengths):
            raise OptionError(
                f"{len(buffers)} buffers, {len(addresses)} peer addresses and {len(lengths)} "
                "lengths: give as many of each"
            )
        source, target = (own, other) if op == WRITE else (other, own)
        rows = np.empty((len(lengths), 3), dtype=np.int64)
        rows[:, 0], rows[:, 1] = (buffers, addresses) if op == WRITE else (addresses, buffers)
        rows[:, 2] = lengths
        if (rows < 0).any():
            raise OptionError("addresses and lengths of a transfer are 0 or more")
        plan = plan_rows(rows, source.regions, target.regions, chunk_bytes=carrier.chunk_bytes)
        timeout = None if self.timeout_s is None else round(self.timeout_s * PS_PER_S)
        job = carrier.submit(
            source.endpoint,
            target.endpoint,
            plan,
            transport=self._transport,
            op=op,
            timeout_ps=timeout,
        )
        self._jobs[job.number] = job
        return job.number

    def _own(self) -> Segment:
        if self._segment is None:
            raise OptionError(
                "this engine takes no part yet: call initialize(hostname, carrier) first"
            )
        return self._segment

    def _joined(self) -> Carrier:
        self._own()
        assert self._carrier is not None
        return self._carrier

    def _peer(self, name: str) -> Segment:
        segments = self._joined().segments
        if name not in segments:
            raise OptionError(f"no segment {name!r} takes part; {did_you_mean(name, segments)}")
        return segments[name]
