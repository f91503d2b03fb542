"""Registered memory: the runs of bytes of one endpoint that transfers may touch."""

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import CapacityExceeded, OptionError

from .blocks import Bytes, as_bytes

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """A registered run of bytes.

    Attributes
    ----------
    address : int
        Where it begins in this process' memory, as ``array.ctypes.data`` says.
    memory : ndarray of uint8
        Its bytes.
    """

    address: int
    memory: Bytes

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + len(self.memory)


class Regions:
    """The registered memory of one endpoint's process, in order of address.

    Parameters
    ----------
    owner : str
        Whose memory it is, for messages.

    Examples
    --------
    >>> regions, memory = Regions("node00.npu0.die0"), np.zeros(8, dtype=np.float32)
    >>> region = regions.add(memory)
    >>> len(region.memory), regions.locate([memory.ctypes.data + 28], [4]).tolist()
    (32, [0])
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._regions: list[Region] = []
        self._start = np.zeros(0, dtype=np.int64)
        self._end = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._regions)

    def __getitem__(self, number: int) -> Region:
        return self._regions[number]

    def memories(self) -> tuple[Bytes, ...]:
        """Return the bytes of each region, in their order."""
        return tuple(region.memory for region in self._regions)

    def add(self, memory: NDArray[np.generic]) -> Region:
        """Register a contiguous array, which is kept alive until it is removed.

        Raises
        ------
        OptionError
            If it is not contiguous, or a part of it is registered already.
        """
        return self._add(Region(memory.ctypes.data, as_bytes(memory)))

    def add_address(self, address: int, nbytes: int) -> Region:
        """Register memory by address, which the caller keeps alive, as Mooncake does."""
        if address <= 0 or nbytes < 0:
            raise OptionError(
                f"memory is registered by an address above 0 and 0 bytes or more, not address "
                f"{address} and {nbytes} bytes; pass array.ctypes.data and array.nbytes"
            )
        raw = (ctypes.c_uint8 * nbytes).from_address(address)
        return self._add(Region(address, np.ctypeslib.as_array(raw)))

    def remove(self, address: int) -> None:
        """Forget the region that begins at an address, or raise `OptionError`."""
        kept = [r for r in self._regions if r.address != address]
        if len(kept) == len(self._regions):
            raise OptionError(
                f"no memory of {self.owner} is registered at address {address}; registered are "
                f"{self._shown()}"
            )
        self._set(kept)

    def locate(self, address: NDArray[np.generic] | list[int], length: Ints | list[int]) -> Ints:
        """Return the number of the region that holds each run of bytes.

        Raises
        ------
        CapacityExceeded
            If one lies in none; the message names it.
        """
        begin = np.asarray(address, dtype=np.int64)
        size = np.asarray(length, dtype=np.int64)
        number = np.searchsorted(self._start, begin, side="right") - 1
        inside = number >= 0
        if len(self._regions):
            inside &= begin + size <= self._end[number]
        if not inside.all():
            i = int(np.flatnonzero(~inside)[0])
            raise CapacityExceeded(
                f"descriptor {i} (address {begin[i]}, {size[i]} bytes) is not inside registered "
                f"memory of {self.owner}: register it first; registered are {self._shown()}"
            )
        return number

    def _add(self, region: Region) -> Region:
        at = int(np.searchsorted(self._start, region.address, side="right"))
        before = self._regions[at - 1] if at else None
        after = self._regions[at] if at < len(self._regions) else None
        if (before and before.end > region.address) or (after and after.address < region.end):
            raise OptionError(
                f"{len(region.memory)} bytes at address {region.address} are registered by "
                f"{self.owner} already, at least in part: unregister first"
            )
        self._set([*self._regions[:at], region, *self._regions[at:]])
        return region

    def _set(self, regions: list[Region]) -> None:
        self._regions = regions
        self._start = np.array([r.address for r in regions], dtype=np.int64)
        self._end = np.array([r.end for r in regions], dtype=np.int64)

    def _shown(self) -> str:
        shown = [f"{r.address} ({len(r.memory)} bytes)" for r in self._regions[:4]]
        return ", ".join(shown) + (" ..." if len(self) > 4 else "") if shown else "none"
