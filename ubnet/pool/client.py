"""What a tenant's process puts and gets with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError
from ubnet.transport import Transport

from .block import Bytes, Tier
from .request import PoolRequest

if TYPE_CHECKING:
    from .memory_pool import MemoryPool


@dataclass(frozen=True, eq=False, slots=True)
class PoolClient:
    """A tenant's process on an endpoint; `MemoryPool.client` makes it.

    Attributes
    ----------
    pool : MemoryPool
        What it uses.
    tenant : str
        Whose it is.
    endpoint : int
        Where it runs.
    way : Transport
        How its blocks travel.
    """

    pool: "MemoryPool"
    tenant: str
    endpoint: int
    way: Transport

    def put(self, namespace: str, key: bytes, data: NDArray[np.generic] | int) -> PoolRequest:
        """Start to put a block; the clock does not move.

        Parameters
        ----------
        namespace, key
            Under what; what was there before is replaced.
        data : ndarray or int
            The block, not to be changed until the request has ended; or its size alone.

        Raises
        ------
        AccessRefused
            If the namespace belongs to another tenant.
        CapacityExceeded
            If the block is larger than what a CPU gives to the pool.
        """
        request = self._request(namespace, key)
        given: Bytes | int
        if isinstance(data, np.ndarray):
            given = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        else:
            given = int(data)
        self.pool.put(request, given, self)
        return request

    def get(self, namespace: str, key: bytes, into: NDArray[np.uint8] | None = None) -> PoolRequest:
        """Start to get a block; the clock does not move.

        Parameters
        ----------
        namespace, key
            Which.
        into : ndarray of uint8, optional
            Where to; default: a new array.

        Raises
        ------
        AccessRefused
            If the namespace belongs to another tenant.
        """
        request = self._request(namespace, key)
        self.pool.get(request, into, self.way)
        return request

    def delete(self, namespace: str, key: bytes) -> bool:
        """Forget a key; return whether there was one. Takes no time."""
        self.pool.check_access(namespace, self.tenant)
        return self.pool.delete(namespace, key)

    def match(self, namespace: str, keys: Sequence[bytes]) -> int:
        """Return how many of a prompt's keys, from the first one on, lead to blocks to be had."""
        self.pool.check_access(namespace, self.tenant)
        usable = (Tier.DRAM, Tier.EVICTING, Tier.SSD, Tier.LOADING)
        for count, key in enumerate(keys):
            if self.pool.tier_of(namespace, key) not in usable:
                return count
        return len(keys)

    def _request(self, namespace: str, key: bytes) -> PoolRequest:
        self.pool.check_access(namespace, self.tenant)
        self.pool.check_alive(self.endpoint)
        if not key:
            raise OptionError("a key has 1 byte or more, such as those of prefix_keys(tokens)")
        return PoolRequest(namespace, bytes(key), self.endpoint, self.pool.carrier.now_ps)
