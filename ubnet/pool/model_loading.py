"""Models on their way into the dies: from an object store or SSD, through local or pooled DRAM.

Section 6 of [P] compares three ways to serve models of 671 GB by eight instances. Every figure
here is the end of simulated transfers. Two of the model's rates are fitted to the table, what the
bucket really delivers and what one instance draws from DRAM; all others follow.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ubnet.errors import OptionError
from ubnet.fabric import Fabric, Ints
from ubnet.kv.carrier import Carrier
from ubnet.kv.job import Job
from ubnet.kv.plan import plan_bytes
from ubnet.transport import READ

from .client import PoolClient
from .limited import limited
from .memory_pool import MemoryPool
from .outside import STREAMS, outside
from .request import PoolRequest

MODEL_BYTES = 671 * 10**9
"""DeepSeek-R1 in INT8 [P, section 6]."""

BUCKET_RATE = 2.5e9
"""What the object store promises, in bytes/s [P, section 6]."""

BUCKET_FRACTION = 0.839
"""What it delivers of that: fitted to 320 s for one model (671 GB / 2.5 GB/s would be 268 s)."""

DRAW_RATE = 134.5e9
"""What one instance draws from DRAM, in bytes/s: fitted to 5 s for a warm start."""

INSTANCE_DIES = 32
"""Dies of an instance: two nodes, a prefill instance of [P] (assumed for the table)."""

CACHES = ("none", "local", "pool")
SOURCES = ("bucket", "ssd")
TENANT = "models"


@dataclass(frozen=True, slots=True)
class LoadingSetup:
    """Who loads how much from where.

    Attributes
    ----------
    instances, dies : int
        How many, and the dies of each.
    model_bytes : int
        Of one model.
    source : {"bucket", "ssd"}
        Where models come from.
    bucket_rate : float
        What the bucket delivers, in bytes/s.
    draw_rate : float
        What one instance draws from DRAM, in bytes/s.
    shards : int
        Parts that a model is loaded in; die ``d`` of an instance gets every part whose number
        modulo the dies is ``d``.
    """

    instances: int = 8
    dies: int = INSTANCE_DIES
    model_bytes: int = MODEL_BYTES
    source: str = "bucket"
    bucket_rate: float = BUCKET_RATE * BUCKET_FRACTION
    draw_rate: float = DRAW_RATE
    shards: int = 32

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise OptionError(f"source is {self.source!r}; allowed: {', '.join(SOURCES)}")
        if min(self.instances, self.dies, self.shards, self.model_bytes) < 1:
            raise OptionError(
                f"{self.instances} instances of {self.dies} dies load {self.model_bytes} bytes in "
                f"{self.shards} shards: give 1 or more of each"
            )
        if min(self.bucket_rate, self.draw_rate) <= 0:
            raise OptionError("the bucket's rate and what an instance draws are above 0 bytes/s")


@dataclass(eq=False)
class ModelSite:
    """Instances that load models, and what keeps models in DRAM for them.

    Parameters
    ----------
    fabric : Fabric
        Where they are: instance ``i`` on dies ``32 i`` to ``32 i + 31``.
    cache : {"none", "local", "pool"}
        No model stays in DRAM; each instance keeps the last one it used in the DRAM of its own
        nodes; all share the memory pool.
    setup : LoadingSetup
        Who loads how much from where.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> site = ModelSite(load_fabric("cloudmatrix384"), "pool", LoadingSetup(instances=2))
    >>> cold, warm = site.load([0, 1], model=0), site.load([0, 1], model=0)
    >>> round(cold / 1e12), round(warm / 1e12), site.dram_bytes / MODEL_BYTES
    (325, 5, 1.0)
    """

    fabric: Fabric
    cache: str = "pool"
    setup: LoadingSetup = LoadingSetup()
    carrier: Carrier = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.cache not in CACHES:
            raise OptionError(f"cache is {self.cache!r}; allowed: {', '.join(CACHES)}")
        setup, dies = self.setup, self.fabric.of_kind("die")
        if setup.instances * setup.dies > len(dies):
            raise OptionError(
                f"{setup.instances} instances of {setup.dies} dies: fabric {self.fabric.name} has "
                f"{len(dies)} dies"
            )
        draws = {f"draw of instance {i}": self.setup.draw_rate for i in range(self.setup.instances)}
        self.carrier = Carrier(self.fabric, extra={"bucket": self.setup.bucket_rate, **draws})
        bucket = self.carrier.resource("bucket") if self.setup.source == "bucket" else -1
        self._outside = outside(self.fabric, self.setup.source, streams=STREAMS, resource=bucket)
        self._dies = dies[: self.setup.instances * self.setup.dies].reshape(
            self.setup.instances, self.setup.dies
        )
        self._size = -(-self.setup.model_bytes // self.setup.shards)
        self._pools = self._make_pools()
        self._held: dict[int, int] = {}

    @property
    def dram_bytes(self) -> int:
        """Bytes of DRAM that hold models."""
        return sum(pool.used_bytes for pool in self._pools)

    def holds(self, instance: int, model: int) -> bool:
        """Return whether an instance finds a model in DRAM."""
        keys = [_key(model, shard) for shard in range(self.setup.shards)]
        return bool(self._pools) and (
            self._client(instance, self._dies[instance, 0]).match(TENANT, keys) == self.setup.shards
        )

    def load(self, instances: list[int], model: int) -> int:
        """Load a model into instances, all at once; return picoseconds until the last has it.

        It stays in DRAM as the cache says; a local one lets the model before it go.
        """
        start = self.carrier.now_ps
        waiting: dict[tuple[int, int], list[Callable[[], object]]] = {}
        queues: dict[int, deque[tuple[int, int]]] = {}
        for instance in instances:
            self._make_way(instance, model)
        for instance in instances:
            hit = self.holds(instance, model)
            for shard in range(self.setup.shards):
                die = int(self._dies[instance, shard % self.setup.dies])
                if hit:
                    self._client(instance, die).get(TENANT, _key(model, shard))
                    continue
                group = instance if self.cache != "pool" else 0
                if (group, shard) not in waiting:
                    waiting[group, shard] = []
                    loader = self._loader(instance, shard)
                    queues.setdefault(loader, deque()).append((group, shard))
                ready = partial(self._read, instance, die, _key(model, shard))
                waiting[group, shard].append(ready)
        for loader, queue in queues.items():
            self._next(loader, queue, model, waiting)
        self.carrier.run()
        return self.carrier.now_ps - start

    def _next(
        self,
        loader: int,
        queue: deque[tuple[int, int]],
        model: int,
        waiting: dict[tuple[int, int], list[Callable[[], object]]],
    ) -> None:
        """Let a loader fetch its next shard from outside; it has one on its way at a time."""
        if not queue:
            return
        group, shard = queue.popleft()

        def fetched(_: Job) -> None:
            self._next(loader, queue, model, waiting)
            if self._pools:
                client = self._pools[group].client(TENANT, loader)
                put = client.put(TENANT, _key(model, shard), self._part(shard))
                put.then = lambda _: _call_all(waiting[group, shard])

        plan = plan_bytes(self._part(shard))
        self.carrier.submit(loader, loader, plan, transport=self._outside, op=READ, then=fetched)

    def _read(self, instance: int, die: int, key: bytes) -> PoolRequest:
        return self._client(instance, die).get(TENANT, key)

    def _part(self, shard: int) -> int:
        return max(min(self._size, self.setup.model_bytes - shard * self._size), 0)

    def _loader(self, instance: int, shard: int) -> int:
        """Return who fetches a shard: the die that needs it, or a CPU that keeps it for others."""
        if not self._pools:
            return int(self._dies[instance, shard % self.setup.dies])
        pool = self._pools[instance if self.cache == "local" else 0]
        cpus = list(pool.tiers.shelves)
        return cpus[shard % len(cpus)]

    def _client(self, instance: int, die: int | Ints) -> PoolClient:
        pool = self._pools[instance if self.cache == "local" else 0]
        draw = self.carrier.resource(f"draw of instance {instance}")
        return pool.client(TENANT, int(die), limited(self.fabric.transport("sdma"), draw))

    def _make_way(self, instance: int, model: int) -> None:
        """Let the model go that a local cache holds, where another one is to come."""
        before = self._held.get(instance, model)
        self._held[instance] = model
        if self.cache == "local" and before != model:
            client = self._client(instance, self._dies[instance, 0])
            for shard in range(self.setup.shards):
                client.delete(TENANT, _key(before, shard))

    def _make_pools(self) -> list[MemoryPool]:
        if self.cache == "none":
            return []
        cpus = self.fabric.of_kind("cpu")
        parts = [cpus.tolist()]
        if self.cache == "local":
            nodes = [self.fabric.node_of[dies] for dies in self._dies]
            parts = [cpus[np.isin(self.fabric.node_of[cpus], node)].tolist() for node in nodes]
        # Room for anything: what stays is decided by model here, not by block.
        pools = [MemoryPool(self.carrier, dram_bytes=1 << 50, cpus=part) for part in parts]
        for pool in pools:
            pool.create_namespace(TENANT, TENANT)
        return pools


def _key(model: int, shard: int) -> bytes:
    return b"model %d, shard %d" % (model, shard)


def _call_all(calls: list[Callable[[], object]]) -> None:
    for call in calls:
        call()
