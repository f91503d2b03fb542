"""How long one transfer takes on an idle fabric, and which transport is then the fastest."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ubnet.compressed_rows import owners
from ubnet.errors import NoRoute
from ubnet.fabric import Fabric, Floats, Ints
from ubnet.transport import WRITE, FlowColumns, Transport
from ubnet.units import PS_PER_S, format_size, format_time

ROUND_UP = 0.5 + 3.1e-4
"""How the flow engine rounds an end to whole picoseconds (`ubnet.flow_engine.state.ROUND_UP`)."""


def idle_rates(fabric: Fabric, columns: FlowColumns) -> Floats:
    """Return the rate of each flow with the fabric to itself, in bytes/s; inf on no route."""
    rate = columns.rate_cap.copy()
    limits = fabric.capacity[columns.route_link] / columns.route_share
    np.minimum.at(rate, owners(columns.route_ptr), limits)
    return rate


def idle_times(
    fabric: Fabric,
    transport: Transport,
    src: ArrayLike,
    dst: ArrayLike,
    nbytes: ArrayLike,
    op: str = WRITE,
) -> Ints:
    """Return how long each of some transfers takes alone, in picoseconds.

    Start-up with switches and cables, then bytes at the least of capacity over share on the way:
    what the flow engine answers for a single flow.

    Parameters
    ----------
    fabric : Fabric
        Where.
    transport : Transport
        How.
    src, dst : array_like of int
        Endpoint numbers.
    nbytes : array_like of int
        Bytes of each.
    op : {"write", "read"}
        Who drives, the source or the destination.

    Raises
    ------
    NoRoute
        If the transport does not join a pair.
    """
    columns = transport.flows(fabric, op, src, dst, nbytes)
    duration = columns.nbytes / idle_rates(fabric, columns) * PS_PER_S
    whole: Ints = np.floor(duration + ROUND_UP).astype(np.int64)
    return columns.startup_ps + whole


def times_by_transport(
    fabric: Fabric, src: int, dst: int, nbytes: int, op: str = WRITE, plane: str = "ub"
) -> dict[str, int]:
    """Return how long each transport takes that ``auto`` may choose, in picoseconds.

    Raises
    ------
    NoRoute
        If none does.
    """
    times: dict[str, int] = {}
    refused: list[NoRoute] = []
    for transport in fabric.automatic_transports(plane):
        try:
            times[transport.name] = int(idle_times(fabric, transport, src, dst, nbytes, op)[0])
        except NoRoute as error:
            refused.append(error)
    if refused and not times:
        raise refused[0]
    return times


def choose_transport(
    fabric: Fabric, src: int, dst: int, nbytes: int, op: str = WRITE, plane: str = "ub"
) -> tuple[Transport, str]:
    """Return the transport of a plane that moves bytes fastest on the idle fabric, and why.

    Ties go to the first in the fabric's order.

    Raises
    ------
    NoRoute
        If no transport of the plane joins the two.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> fabric = load_fabric("cloudmatrix384", aiv_cores=8)
    >>> choose_transport(fabric, 0, 767, 512)[1]
    'aiv: 512B in 2.076 us (sdma 11.15 us)'
    >>> choose_transport(fabric, 0, 767, 64 << 20)[0].name
    'sdma'
    """
    times = times_by_transport(fabric, src, dst, nbytes, op, plane)
    best = min(times, key=lambda name: times[name])
    return fabric.transports[best], _reason(best, nbytes, times)


def _reason(best: str, nbytes: int, times: dict[str, int]) -> str:
    """Say how long the chosen transport takes, and the others."""
    others: Sequence[str] = [f"{n} {format_time(t)}" for n, t in times.items() if n != best]
    rest = f" ({', '.join(others)})" if others else ""
    return f"{best}: {format_size(nbytes)} in {format_time(times[best])}{rest}"
