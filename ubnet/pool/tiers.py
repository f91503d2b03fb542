"""The tiers of the pool: blocks in the DRAM of their homes, on SSD, and on the way between them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from ubnet.errors import CapacityExceeded, OptionError
from ubnet.kv.carrier import Carrier
from ubnet.kv.job import Job
from ubnet.kv.plan import Plan, plan_bytes, plan_rows
from ubnet.kv.regions import Regions
from ubnet.kv.status import Status
from ubnet.transport import READ, WRITE, Transport

from .block import IN_DRAM, Block, Bytes, Tier
from .hash_ring import HashRing
from .outside import STREAMS, outside
from .shelf import Shelf


@dataclass(eq=False)
class Tiers:
    """Moves blocks between DRAM and SSD, and knows which nodes are dead.

    Parameters
    ----------
    carrier : Carrier
        Fabric and clock.
    cpus : sequence of int
        Endpoints that give DRAM.
    dram_bytes : int
        What each gives.
    ssd_bytes : int or None
        What the SSD tier keeps; None = everything.
    forgotten : callable
        Called with a block that not even SSD keeps.
    """

    carrier: Carrier
    cpus: Sequence[int]
    dram_bytes: int
    ssd_bytes: int | None
    forgotten: Callable[[Block], None]
    ring: HashRing = field(init=False)
    shelves: dict[int, Shelf] = field(init=False)
    dead: set[int] = field(init=False, default_factory=set)
    ssd_used: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        names = self.carrier.fabric.endpoints
        self.ring = HashRing(self.cpus)
        self.shelves = {cpu: Shelf(names[cpu].name, self.dram_bytes) for cpu in self.cpus}
        self._way = outside(self.carrier.fabric, "ssd", streams=STREAMS)
        self._ssd: OrderedDict[bytes, Block] = OrderedDict()

    def admit(self, block: Block, then: Callable[[], None]) -> None:
        """Give a block room in its home's DRAM, what was used longest ago going to SSD first.

        Where all that is there is on its way, this waits for it.

        Raises
        ------
        CapacityExceeded
            If the block is larger than what its home gives.
        """
        if not block.names:
            then()
            return
        if block.home not in self.shelves:
            block.home = self.ring.owner(block.content)
        shelf = self.shelves[block.home]
        try:
            evicted = shelf.make_room(block.nbytes)
        except CapacityExceeded:
            if block.nbytes > shelf.capacity:
                raise
            moving = next(b for b in shelf.blocks() if b.tier is not Tier.DRAM)
            moving.waiting.append(lambda: self.admit(block, then))
            return
        shelf.put(block)
        self._evict(evicted, then)

    def load(self, block: Block) -> None:
        """Bring a block back from SSD into the DRAM of its home."""
        block.home, block.tier = self.ring.owner(block.content), Tier.LOADING
        copy = None if block.data is None else np.zeros(block.nbytes, np.uint8)

        def back(job: Job) -> None:
            if job.status is not Status.DONE:
                self.settle(block, Tier.SSD)
                return
            block.data = copy
            self._leave_ssd(block)
            self.settle(block, Tier.DRAM if intact(block) else Tier.LOST)

        def read() -> None:
            plan = self.plan(block.data, copy, block.nbytes)
            self.submit(block.home, block.home, plan, self._way, READ, back)

        self.admit(block, read)

    def settle(self, block: Block, tier: Tier) -> None:
        """Let a block enter a tier and wake who waits; it is lost where its home died meanwhile."""
        if tier is Tier.DRAM and block.home not in self.shelves:
            tier = Tier.LOST
        if tier in (Tier.LOST, Tier.SSD) and block.home in self.shelves:
            self.shelves[block.home].drop(block)
        if tier is Tier.LOST:
            block.data = None
        block.settle(tier)

    def forget(self, block: Block) -> None:
        """Take a block out of wherever it is."""
        if block.tier in IN_DRAM and block.home in self.shelves:
            self.shelves[block.home].drop(block)
        self._leave_ssd(block)

    def kill(self, members: Sequence[int], why: str) -> None:
        """Let endpoints die: what they had in DRAM is lost, what is on its way fails."""
        hit = [cpu for cpu in members if cpu in self.shelves]
        if len(hit) == len(self.shelves):
            raise OptionError(f"{why}, and it is the last one of the pool: nothing would be left")
        self.dead.update(members)
        held = [block for cpu in hit for block in self.shelves[cpu].blocks()]
        for cpu in hit:
            self.ring.remove(cpu)
            del self.shelves[cpu]
        for block in held:
            if block.tier is Tier.DRAM:
                self.settle(block, Tier.LOST)
        for member in members:
            self.carrier.fail(member, why)

    def submit(
        self,
        src: int,
        dst: int,
        plan: Plan,
        way: Transport,
        op: str,
        then: Callable[[Job], None],
    ) -> None:
        """Submit a transfer; one from or to the dead fails when it would have ended its chunk."""
        job = self.carrier.submit(src, dst, plan, transport=way, op=op, then=then)
        if src in self.dead or dst in self.dead:
            job.close(Status.FAILED, "its node is dead")
            job.lost = True

    def plan(self, source: Bytes | None, target: Bytes | None, nbytes: int) -> Plan:
        """Plan a copy of a whole block; of a size alone where there are no bytes."""
        if source is None or target is None or not nbytes:
            return plan_bytes(nbytes)
        sides = (Regions("a client of the pool"), Regions("a client of the pool"))
        for regions, array in zip(sides, (source, target), strict=True):
            regions.add(array)
        row = np.array([[source.ctypes.data, target.ctypes.data, nbytes]], dtype=np.int64)
        return plan_rows(row, *sides, chunk_bytes=self.carrier.chunk_bytes)

    def _evict(self, blocks: Sequence[Block], then: Callable[[], None]) -> None:
        """Send blocks out to SSD, and go on when the last one is there."""
        left = [len(blocks)]
        if not blocks:
            then()
        for block in blocks:
            block.tier = Tier.EVICTING
            copy = None if block.data is None else np.zeros(block.nbytes, np.uint8)
            plan = self.plan(block.data, copy, block.nbytes)
            out = self._evicted(block, copy, left, then)
            self.submit(block.home, block.home, plan, self._way, WRITE, out)

    def _evicted(
        self, block: Block, copy: Bytes | None, left: list[int], then: Callable[[], None]
    ) -> Callable[[Job], None]:
        """Return what is to be done when a block has gone out."""

        def out(job: Job) -> None:
            if job.status is Status.DONE and block.names:
                block.data = copy
                self._ssd[block.content] = block
                self.ssd_used += block.nbytes
                self.settle(block, Tier.SSD)
                self._trim_ssd()
            else:
                self.settle(block, Tier.LOST)
            left[0] -= 1
            if not left[0]:
                then()

        return out

    def _trim_ssd(self) -> None:
        """Forget what SSD cannot keep, the block that came first; none that is being read."""
        while self.ssd_bytes is not None and self.ssd_used > self.ssd_bytes:
            first = next((b for b in self._ssd.values() if b.tier is Tier.SSD), None)
            if first is None:
                return
            self._leave_ssd(first)
            self.forgotten(first)

    def _leave_ssd(self, block: Block) -> None:
        if self._ssd.get(block.content) is block:
            del self._ssd[block.content]
            self.ssd_used -= block.nbytes


def intact(block: Block) -> bool:
    """Return whether a block's bytes have the checksum that they were put with."""
    return block.data is None or crc32(block.data.data) == block.checksum
