"""The pooled memory of a supernode: blocks in the DRAM of all CPUs, read by NPUs over UB.

- `MemoryPool`, `PoolClient`: put and get of blocks, namespaces, tiers, the death of a node.
- `prefix_keys`: the keys of a prompt's blocks.
- `HashRing`: who keeps what.
"""

from .block import Tier
from .block_key import prefix_keys
from .client import PoolClient
from .hash_ring import HashRing
from .memory_pool import MemoryPool
from .outside import Outside, outside
from .request import Outcome, PoolRequest

__all__ = [
    "HashRing",
    "MemoryPool",
    "Outcome",
    "Outside",
    "PoolClient",
    "PoolRequest",
    "Tier",
    "outside",
    "prefix_keys",
]
