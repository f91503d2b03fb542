"""The memory pool: DRAM of all CPUs as one store of blocks, with an SSD tier behind it.

A block's home is found by consistent hashing of its content; a client asks the owner of its key
where it is (a message of 64 bytes) and then reads the home's DRAM by itself. What DRAM cannot
keep goes to SSD, the block used longest ago first, and comes back when it is asked for. Where
blocks are is kept by every node (assumed), so a node's death loses bytes but no knowledge of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from ubnet.errors import Deadlock, OptionError
from ubnet.kv.carrier import Carrier
from ubnet.kv.job import Job
from ubnet.kv.plan import plan_bytes
from ubnet.kv.status import Status
from ubnet.transport import READ, WRITE, Transport

from .block import Block, Bytes, Tier
from .block_key import content_key
from .client import PoolClient
from .directory import Directory
from .request import Outcome, PoolRequest
from .tiers import Tiers, intact

LOOKUP_BYTES = 64
"""What the owner of a key answers (assumed)."""

DRAM_BYTES = 256 << 30
"""What a CPU gives to the pool (assumed)."""

SHARING = ("tenant", "pool")


@dataclass(eq=False)
class MemoryPool:
    """The DRAM of CPU endpoints as one store of blocks.

    Parameters
    ----------
    carrier : Carrier
        Fabric and clock.
    dram_bytes : int
        What each CPU gives.
    ssd_bytes : int or None
        What the SSD tier keeps; None = everything. What it cannot keep is forgotten.
    transport : str
        How blocks travel between clients and the pool.
    lookup : str or None
        How lookups do; default: ``aiv`` where blocks travel over UB, else as blocks.
    cpus : sequence of int, optional
        Endpoints that take part; default all CPUs.
    share : {"tenant", "pool"}
        Whether equal blocks are kept once per tenant, or once for all: the latter saves memory,
        and lets a tenant learn from the time of a put what others have.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> pool = MemoryPool(Carrier(load_fabric("cloudmatrix64")))
    >>> pool.create_namespace("chat", tenant="alice")
    >>> client = pool.client("alice", "node03.npu0.die0")
    >>> block = np.arange(1000, dtype=np.uint8)
    >>> str(pool.wait(client.put("chat", b"key", block)))
    'stored'
    >>> got = client.get("chat", b"key")
    >>> str(pool.wait(got)), bool((got.data == block).all())
    ('found', True)
    """

    carrier: Carrier
    dram_bytes: int = DRAM_BYTES
    ssd_bytes: int | None = None
    transport: str = "sdma"
    lookup: str | None = None
    cpus: Sequence[int] | None = None
    share: str = "tenant"
    tiers: Tiers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        fabric = self.carrier.fabric
        if self.share not in SHARING or self.dram_bytes < 1:
            raise OptionError(
                f"share is {self.share!r} (allowed: {', '.join(SHARING)}) and dram_bytes "
                f"{self.dram_bytes} (1 or more)"
            )
        cpus = fabric.of_kind("cpu").tolist() if self.cpus is None else list(self.cpus)
        if not cpus:
            raise OptionError(f"fabric {fabric.name} has no CPU endpoint: name some with cpus=")
        self._way = fabric.transport(self.transport)
        direct = "aiv" if "aiv" in fabric.transports and self._way.plane == "ub" else None
        self._ask = fabric.transport(self.lookup or direct or self.transport)
        self._directory = Directory(lambda block: self.tiers.forget(block))
        drop = self._directory.drop
        self.tiers = Tiers(self.carrier, cpus, self.dram_bytes, self.ssd_bytes, drop)

    @property
    def used_bytes(self) -> int:
        """Bytes of DRAM that hold blocks."""
        return sum(shelf.used for shelf in self.tiers.shelves.values())

    @property
    def ssd_used_bytes(self) -> int:
        """Bytes in the SSD tier."""
        return self.tiers.ssd_used

    def create_namespace(self, name: str, tenant: str) -> None:
        """Make a namespace that belongs to a tenant, who alone may put and get in it."""
        self._directory.create_namespace(name, tenant)

    def client(self, tenant: str, endpoint: str | int, way: Transport | None = None) -> PoolClient:
        """Return what a tenant's process on an endpoint puts and gets with.

        `way` is how its blocks travel, where it is another way than the pool's.
        """
        return PoolClient(self, tenant, self.carrier.number_of(endpoint), way or self._way)

    def tier_of(self, namespace: str, key: bytes) -> Tier | None:
        """Return where the block of a key is, None where there is none; takes no time."""
        block = self._directory.find(namespace, key)
        return block.tier if block is not None else None

    def home_of(self, namespace: str, key: bytes) -> int | None:
        """Return the endpoint that is home to the block of a key; takes no time."""
        block = self._directory.find(namespace, key)
        return block.home if block is not None else None

    def wait(self, request: PoolRequest) -> Outcome:
        """Go on until a request has ended and return how."""
        while not request.done:
            if not self.carrier.advance() and not request.done:
                raise Deadlock(f"nothing on the fabric is left that could end {request}")
        return request.outcome

    def kill(self, node: int) -> int:
        """Let a node die; return how many blocks are lost with it.

        Its CPUs leave the ring, what they had in DRAM is lost, what was on its way from or to the
        node fails. Blocks on SSD stay.
        """
        fabric = self.carrier.fabric
        members = np.flatnonzero(fabric.node_of == node).tolist()
        if not members:
            raise OptionError(f"fabric {fabric.name} has no node {node}")
        gone = (Tier.DRAM, Tier.EVICTING)
        lost = sum(b.home in members and b.tier in gone for b in self._directory.blocks.values())
        self.tiers.kill(members, f"node {node} is dead")
        return lost

    def check_access(self, namespace: str, tenant: str) -> None:
        """Raise `AccessRefused` where a namespace is not the tenant's."""
        self._directory.check_access(namespace, tenant)

    def check_alive(self, endpoint: int) -> None:
        """Raise `OptionError` where an endpoint's node is dead."""
        if endpoint in self.tiers.dead:
            name = self.carrier.fabric.endpoints[endpoint].name
            raise OptionError(f"{name} is on a dead node: ask from another one")

    def put(self, request: PoolRequest, data: Bytes | int, client: PoolClient) -> None:
        """Start a put; `PoolClient.put` is the call."""
        block, known = self._block_of(request, data, client.tenant)
        request.nbytes = block.nbytes
        if known:
            self._directory.enter(request.namespace, request.key, block)
            self._look_up(request, lambda: self._await_written(request, block))
            return
        if block.nbytes > self.dram_bytes:
            self.tiers.shelves[block.home].make_room(block.nbytes)
        self._directory.enter(request.namespace, request.key, block)
        source = data if isinstance(data, np.ndarray) else None

        def written(job: Job) -> None:
            good = job.status is Status.DONE and intact(block)
            self.tiers.settle(block, Tier.DRAM if good else Tier.LOST)
            # Whoever waited for room may have sent it on to SSD by now, which is no loss.
            lost = block.tier is Tier.LOST
            request.end(Outcome.LOST if lost else Outcome.STORED, self.carrier.now_ps)

        def write() -> None:
            plan = self.tiers.plan(source, block.data, block.nbytes)
            self.tiers.submit(request.endpoint, block.home, plan, client.way, WRITE, written)

        def abandoned() -> None:
            self.tiers.settle(block, Tier.LOST)

        self.tiers.admit(block, lambda: self._look_up(request, write, abandoned))

    def get(self, request: PoolRequest, into: Bytes | None, way: Transport) -> None:
        """Start a get; `PoolClient.get` is the call."""
        self._look_up(request, lambda: self._serve(request, into, way))

    def delete(self, namespace: str, key: bytes) -> bool:
        """Forget a key; the bytes go with the last one that leads to them."""
        return self._directory.delete(namespace, key)

    def _block_of(self, request: PoolRequest, data: Bytes | int, tenant: str) -> tuple[Block, bool]:
        """Return the block for what is put, and whether the pool has it already."""
        salt = tenant.encode() if self.share == "tenant" else b""
        if isinstance(data, np.ndarray):
            content, nbytes, checksum = content_key(data, salt), len(data), crc32(data.data)
            room = np.zeros(nbytes, dtype=np.uint8)
        else:
            # Of a block of size alone the key is all that there is to tell it by.
            content = content_key(np.frombuffer(request.key, np.uint8), salt)
            nbytes, checksum, room = int(data), 0, None
        known = self._directory.whole(content)
        if known is not None:
            return known, True
        return Block(content, nbytes, self.tiers.ring.owner(content), room, checksum), False

    def _look_up(
        self,
        request: PoolRequest,
        found: Callable[[], None],
        abandoned: Callable[[], None] | None = None,
    ) -> None:
        """Ask the owner of a key; a new one, where it dies on the way.

        `abandoned` is called where it is the client that died.
        """
        owner = self.tiers.ring.owner(request.key)

        def answered(job: Job) -> None:
            if job.status is Status.DONE:
                request.lookup_ps = self.carrier.now_ps
                found()
            elif request.endpoint in self.tiers.dead:
                if abandoned is not None:
                    abandoned()
                request.end(Outcome.LOST, self.carrier.now_ps)
            else:
                self._look_up(request, found, abandoned)

        plan = plan_bytes(LOOKUP_BYTES)
        self.tiers.submit(owner, request.endpoint, plan, self._ask, READ, answered)

    def _await_written(self, request: PoolRequest, block: Block) -> None:
        """End the put of a block that the pool has, once it is whole."""
        if block.tier is Tier.WRITING:
            block.waiting.append(lambda: self._await_written(request, block))
        else:
            lost = block.tier is Tier.LOST
            request.end(Outcome.LOST if lost else Outcome.KNOWN, self.carrier.now_ps)

    def _serve(self, request: PoolRequest, into: Bytes | None, way: Transport) -> None:
        """Bring the block of a get to its reader, through the DRAM of its home."""
        block = self._directory.find(request.namespace, request.key)
        if block is None or block.tier is Tier.WRITING:
            request.end(Outcome.MISSING, self.carrier.now_ps)
        elif block.tier is Tier.LOST:
            request.end(Outcome.LOST, self.carrier.now_ps)
        elif block.tier is Tier.DRAM:
            request.tier = request.tier or "dram"
            self._read(request, block, into, way)
        else:
            request.tier = "ssd"
            block.waiting.append(lambda: self._serve(request, into, way))
            if block.tier is Tier.SSD:
                self.tiers.load(block)

    def _read(self, request: PoolRequest, block: Block, into: Bytes | None, way: Transport) -> None:
        self.tiers.shelves[block.home].touch(block.content)
        request.nbytes = block.nbytes
        found = None
        if block.data is not None:
            found = np.zeros(block.nbytes, np.uint8) if into is None else into
            if len(found) != block.nbytes:
                raise OptionError(
                    f"a block of {block.nbytes} bytes was asked into {len(found)} bytes"
                )

        def arrived(job: Job) -> None:
            whole = job.status is Status.DONE
            if whole and found is not None:
                whole = crc32(found.data) == block.checksum
            request.data = found if whole else None
            request.end(Outcome.FOUND if whole else Outcome.LOST, self.carrier.now_ps)

        plan = self.tiers.plan(block.data, found, block.nbytes)
        self.tiers.submit(block.home, request.endpoint, plan, way, READ, arrived)
