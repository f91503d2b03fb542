"""The time of one transfer on an idle fabric: the shortest question another program can ask."""

from functools import lru_cache
from operator import index
from typing import SupportsIndex

from ubnet.errors import FabricError, OptionError
from ubnet.fabric import Fabric
from ubnet.fabrics import load_fabric
from ubnet.idle_time import idle_times, times_by_transport
from ubnet.units import MOST_BYTES


def transfer_time(
    src: str | SupportsIndex,
    dst: str | SupportsIndex,
    nbytes: SupportsIndex,
    *,
    op: str = "write",
    transport: str = "auto",
    fabric: str | Fabric = "cloudmatrix384",
) -> int:
    """Return how long a transfer takes on an idle fabric, in picoseconds.

    Parameters
    ----------
    src, dst : str or int
        Endpoints by name or number; the bytes go from `src` to `dst`.
    nbytes : int
        How many.
    op : {"write", "read"}
        Whether `src` pushes or `dst` pulls them.
    transport : str
        One of the fabric's transports; ``auto`` takes the fastest on the fabric's first plane.
    fabric : str or Fabric
        A fabric, its name or the path of its file; what a name stands for is built once.

    Returns
    -------
    int
        Picoseconds until the last byte has arrived: what a flow that runs alone takes.

    Raises
    ------
    FabricError
        If there is no such fabric or endpoint.
    NoRoute
        If there is no such transport, or it does not join the two.
    OptionError
        If `op` or `nbytes` is outside of what is allowed.

    Examples
    --------
    >>> transfer_time("node00.npu0.die0", "node47.npu7.die1", 512, op="read")
    1933122
    >>> transfer_time(0, 2, 64 << 20, transport="sdma")
    500245723
    """
    known = fabric if isinstance(fabric, Fabric) else _by_name(str(fabric))
    ends = (_endpoint(known, src), _endpoint(known, dst))
    return _time(known, *ends, _size(nbytes), op, transport)


@lru_cache(maxsize=8)
def _by_name(name: str) -> Fabric:
    return load_fabric(name)


@lru_cache(maxsize=1 << 16)
def _time(fabric: Fabric, src: int, dst: int, nbytes: int, op: str, transport: str) -> int:
    if transport == "auto":
        return min(
            times_by_transport(fabric, src, dst, nbytes, op, next(iter(fabric.planes))).values()
        )
    return int(idle_times(fabric, fabric.transport(transport), src, dst, nbytes, op)[0])


def _endpoint(fabric: Fabric, given: str | SupportsIndex) -> int:
    """Return the number of an endpoint."""
    if isinstance(given, str):
        return fabric.endpoint(given).index
    try:
        number = index(given)
    except TypeError:
        raise FabricError(f"{given!r} is no endpoint; give it by name or by number") from None
    if not 0 <= number < len(fabric.endpoints):
        raise FabricError(
            f"fabric {fabric.name} has no endpoint {number}; its numbers are 0 to "
            f"{len(fabric.endpoints) - 1}, or give a name such as {fabric.endpoints[0].name}"
        )
    return number


def _size(nbytes: SupportsIndex) -> int:
    """Return a size in bytes."""
    try:
        size = index(nbytes)
    except TypeError:
        size = -1
    if not 0 <= size <= MOST_BYTES:
        raise OptionError(f"nbytes is {nbytes!r}; give a whole number of bytes, 0 to {MOST_BYTES}")
    return size
