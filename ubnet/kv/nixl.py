"""NIXL's agent: its calls, on numpy memory and virtual time.

Descriptors are arrays of shape (n, 3) with address, length and device, lists of such tuples,
`Strided` runs, or numpy arrays by themselves. A prepared list is checked once; transfers made of
it take any of its rows by index.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import OptionError, did_you_mean
from ubnet.transport import READ, WRITE
from ubnet.units import PS_PER_US

from .carrier import Carrier
from .descriptors import Ints, Strided, arrays_among, as_descriptors, pair_rows
from .job import Job
from .nixl_handle import PreparedList, Telemetry, TransferHandle
from .plan import plan_rows
from .segment import Segment
from .status import Status

Descriptors = ArrayLike | Strided | list[Strided] | list[NDArray[Any]]
LOCAL = ("", "NIXL_INIT_AGENT")
OPERATIONS = {"READ": READ, "WRITE": WRITE}


@dataclass(eq=False)
class Agent:
    """A process that reads and writes the memory of other agents.

    Parameters
    ----------
    name : str
        Its name.
    carrier : Carrier
        What joins the agents.
    endpoint : str or int
        Where it runs.
    backend : str
        The transport of its transfers.

    Examples
    --------
    >>> import numpy as np
    >>> from ubnet.fabrics import load_fabric
    >>> carrier = Carrier(load_fabric("cloudmatrix64"))
    >>> prefill = Agent("prefill", carrier, "node00.npu0.die0")
    >>> decode = Agent("decode", carrier, "node03.npu0.die0")
    >>> cache, into = np.arange(1000), np.zeros(1000, dtype=int)
    >>> here, there = prefill.register_memory([cache]), decode.register_memory([into])
    >>> prefill.add_remote_agent(decode.get_agent_metadata())
    'decode'
    >>> handle = prefill.initialize_xfer("WRITE", here, there, "decode", b"request 7")
    >>> prefill.transfer(handle)
    'PROC'
    >>> while prefill.check_xfer_state(handle) == "PROC":
    ...     pass
    >>> prefill.check_xfer_state(handle), bool((into == cache).all()), decode.get_new_notifs()
    ('DONE', True, {'prefill': [b'request 7']})
    >>> prefill.get_xfer_telemetry(handle).totalBytes
    8000
    """

    name: str
    carrier: Carrier
    endpoint: str | int
    backend: str = "roce"
    timeout_ps: int | None = None
    _remotes: dict[str, Segment] = field(init=False, repr=False, default_factory=dict)
    _notes: dict[str, list[bytes]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.carrier.fabric.transport(self.backend)
        self._segment = self.carrier.join(self.name, self.endpoint)
        self.carrier.mailboxes[self.name] = self._notes

    def register_memory(self, reg_list: Descriptors) -> Ints:
        """Register memory; arrays are kept alive, descriptors name memory that the caller keeps.

        Returns
        -------
        ndarray of int64, shape (n, 3)
            The descriptors, as `get_xfer_descs` would return them.
        """
        arrays = arrays_among(reg_list)
        for array in arrays or []:
            self._segment.regions.add(array)
        rows = self.get_xfer_descs(reg_list)
        if arrays is None:
            for address, length, _ in rows.tolist():
                self._segment.regions.add_address(address, length)
        return rows

    def deregister_memory(self, dereg_list: Descriptors) -> None:
        """Forget registered memory; every descriptor is one that was registered."""
        for address in self.get_xfer_descs(dereg_list)[:, 0].tolist():
            self._segment.regions.remove(address)

    def get_xfer_descs(self, descs: Descriptors, mem_type: str | None = None) -> Ints:
        """Return descriptors as an array of shape (n, 3): address, length, device."""
        arrays = arrays_among(descs)
        if arrays is not None:
            return as_descriptors(np.array([(a.ctypes.data, a.nbytes, 0) for a in arrays]))
        return as_descriptors(descs)

    def get_reg_descs(self, descs: Descriptors, mem_type: str | None = None) -> Ints:
        """Return the same array as `get_xfer_descs`."""
        return self.get_xfer_descs(descs, mem_type)

    def get_agent_metadata(self) -> bytes:
        """Return what another agent needs to find this one."""
        return self.name.encode()

    def add_remote_agent(self, metadata: bytes) -> str:
        """Make another agent known and return its name."""
        name = metadata.decode()
        if name not in self.carrier.segments:
            raise OptionError(
                f"no agent {name!r} takes part; {did_you_mean(name, self.carrier.segments)}"
            )
        self._remotes[name] = self.carrier.segments[name]
        return name

    def remove_remote_agent(self, agent: str) -> None:
        """Forget another agent."""
        self._remote(agent)
        del self._remotes[agent]

    def prep_xfer_dlist(
        self, agent_name: str, xfer_list: Descriptors, mem_type: str | None = None
    ) -> PreparedList:
        """Check descriptors once, to be used in many transfers.

        Parameters
        ----------
        agent_name : str
            Whose memory it is; ``""`` or ``NIXL_INIT_AGENT`` for one's own.
        xfer_list : descriptors
            They must lie in registered memory.
        """
        segment = self._segment if agent_name in LOCAL else self._remote(agent_name)
        rows = self.get_xfer_descs(xfer_list, mem_type)
        segment.regions.locate(rows[:, 0], rows[:, 1])
        return PreparedList(segment.name, rows)

    def make_prepped_xfer(
        self,
        operation: str,
        local_xfer_side: PreparedList,
        local_indices: Sequence[int] | Ints,
        remote_xfer_side: PreparedList,
        remote_indices: Sequence[int] | Ints,
        notif_msg: bytes = b"",
        skip_desc_merge: bool = False,
    ) -> TransferHandle:
        """Make a transfer of rows of two prepared lists."""
        if local_xfer_side.agent != self.name:
            raise OptionError(
                f"the local list was prepared for {local_xfer_side.agent}: prepare one with "
                'prep_xfer_dlist("", ...)'
            )
        local = local_xfer_side.chosen(local_indices, "local")
        remote = remote_xfer_side.chosen(remote_indices, "remote")
        return self._handle(
            operation, local, remote, remote_xfer_side.agent, notif_msg, not skip_desc_merge
        )

    def initialize_xfer(
        self,
        operation: str,
        local_descs: Descriptors,
        remote_descs: Descriptors,
        remote_agent: str,
        notif_msg: bytes = b"",
    ) -> TransferHandle:
        """Make a transfer of two lists of descriptors; neighbours become one message."""
        local, remote = self.get_xfer_descs(local_descs), self.get_xfer_descs(remote_descs)
        return self._handle(operation, local, remote, remote_agent, notif_msg, True)

    def transfer(self, handle: TransferHandle, notif_msg: bytes = b"") -> str:
        """Post a transfer; return ``PROC``. Refused while the same one is on its way."""
        if handle.job is not None and handle.job.status is Status.RUNNING:
            raise OptionError("this transfer is on its way: wait until its state is not PROC")
        message = notif_msg or handle.notification
        remote = self._remote(handle.remote)
        own, op = self._segment, OPERATIONS[handle.operation]
        source, target = (own, remote) if op == WRITE else (remote, own)

        def tell(job: Job) -> None:
            if message and job.status is Status.DONE:
                self._tell(remote, message, written=op == WRITE)

        handle.job = self.carrier.submit(
            source.endpoint,
            target.endpoint,
            handle.plan,
            transport=self.backend,
            op=op,
            timeout_ps=self.timeout_ps,
            then=tell,
        )
        return handle.job.status.nixl

    def check_xfer_state(self, handle: TransferHandle) -> str:
        """Return ``DONE``, ``PROC`` or ``ERR``; `get_xfer_error` says more.

        Asked in vain, the clock goes on by the carrier's ``poll_ps``.
        """
        return self.carrier.poll(self._posted(handle)).nixl

    def get_xfer_error(self, handle: TransferHandle) -> str:
        """Return in a sentence why a transfer did not arrive; empty where it did."""
        job = self._posted(handle)
        return f"{job.status}: {job.reason}" if job.reason else ""

    def release_xfer_handle(self, handle: TransferHandle) -> None:
        """Give a handle back; a transfer on its way is stopped, and quiet when this returns."""
        if handle.job is not None and handle.job.status is Status.RUNNING:
            self.carrier.cancel(handle.job, "its handle was released")

    def get_xfer_telemetry(self, handle: TransferHandle) -> Telemetry:
        """Return what a transfer that has ended took."""
        job = self._posted(handle)
        if job.status is Status.RUNNING:
            raise OptionError("telemetry is there when a transfer has ended: it is on its way")
        return Telemetry(
            startTime=job.start_ps / PS_PER_US,
            postDuration=job.messages * job.post_ps / PS_PER_US,
            xferDuration=(job.end_ps - job.start_ps) / PS_PER_US,
            totalBytes=job.arrived,
            descCount=job.descriptors,
            messages=job.messages,
            chunks=job.posted,
        )

    def send_notif(self, remote_agent_name: str, notif_msg: bytes) -> None:
        """Send a message by itself."""
        self._tell(self._remote(remote_agent_name), notif_msg, written=False)

    def get_new_notifs(self) -> dict[str, list[bytes]]:
        """Return what has come from each agent since this was asked last."""
        new = dict(self._notes)
        self._notes.clear()
        return new

    def check_remote_xfer_done(self, remote_agent_name: str, lookup_tag: bytes) -> bool:
        """Say whether a message that begins with a tag has come; it is taken out then."""
        waiting = self._notes.get(remote_agent_name, [])
        found = next((note for note in waiting if note.startswith(lookup_tag)), None)
        if found is None:
            return False
        waiting.remove(found)
        return True

    def _handle(
        self, operation: str, local: Ints, remote: Ints, agent: str, note: bytes, merge: bool
    ) -> TransferHandle:
        if operation not in OPERATIONS:
            raise OptionError(f"operation is {operation!r}; allowed: READ, WRITE")
        mine, theirs = (self._segment.regions, local), (self._remote(agent).regions, remote)
        source, target = (mine, theirs) if operation == "WRITE" else (theirs, mine)
        plan = plan_rows(
            pair_rows(source[1], target[1]),
            source[0],
            target[0],
            chunk_bytes=self.carrier.chunk_bytes,
            merge=merge,
        )
        return TransferHandle(operation, agent, plan, note)

    def _tell(self, remote: Segment, message: bytes, *, written: bool) -> None:
        """Bring a message: with the last byte of a write, else as a message of its own."""
        box = self.carrier.mailboxes[remote.name]

        def put(_: Job | None = None) -> None:
            box.setdefault(self.name, []).append(message)

        if written:
            put()
        else:
            self.carrier.submit(
                self._segment.endpoint, remote.endpoint, 0, transport=self.backend, then=put
            )

    def _remote(self, name: str) -> Segment:
        if name not in self._remotes:
            raise OptionError(
                f"agent {self.name} does not know {name!r}: call "
                f"add_remote_agent(other.get_agent_metadata()) first"
            )
        return self._remotes[name]

    def _posted(self, handle: TransferHandle) -> Job:
        if handle.job is None:
            raise OptionError("this transfer was not posted yet: call transfer(handle) first")
        return handle.job
