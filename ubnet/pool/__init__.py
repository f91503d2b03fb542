"""The pooled memory of a supernode: blocks in the DRAM of all CPUs, read by NPUs over UB.

- `MemoryPool`, `PoolClient`: put and get of blocks, namespaces, tiers, the death of a node.
- `prefix_keys`: the keys of a prompt's blocks.
- `HashRing`: who keeps what.
- `ModelSite`, `loading_figures`: models on their way into the dies.
"""

from .block import Tier
from .block_key import prefix_keys
from .client import PoolClient
from .hash_ring import HashRing
from .loading_table import loading_figures
from .memory_pool import MemoryPool
from .model_loading import LoadingSetup, ModelSite
from .outside import Outside, outside
from .request import Outcome, PoolRequest

__all__ = [
    "HashRing",
    "LoadingSetup",
    "MemoryPool",
    "ModelSite",
    "Outcome",
    "Outside",
    "PoolClient",
    "PoolRequest",
    "Tier",
    "loading_figures",
    "outside",
    "prefix_keys",
]
