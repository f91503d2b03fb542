"""One message from a rank to another, run in a world of two: what ``--op send`` measures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.cli.options import Way
from ubnet.clock import ClockOptions
from ubnet.idle_time import choose_transport
from ubnet.message import Phantom
from ubnet.rank import Rank
from ubnet.units import PS_PER_S
from ubnet.world import World, WorldOptions

TAG = CONTEXT = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """How a message went.

    Attributes
    ----------
    time_ps : int
        From the common start to the end of the later of the two.
    transport : str
        What moved it.
    busiest : str
        The resource that was used most, empty where no bytes moved.
    utilisation : float
        What it carried over what it could have carried in that time.
    """

    time_ps: int
    transport: str
    busiest: str
    utilisation: float


def send_message(
    way: Way,
    ends: tuple[int, int],
    nbytes: int,
    source: NDArray[Any] | None = None,
    target: NDArray[Any] | None = None,
) -> Sent:
    """Send one message between two endpoints, eager or by rendezvous as its size says.

    Parameters
    ----------
    way : Way
        Fabric, plane and transport.
    ends : tuple of int
        The endpoints of the sender and the receiver.
    nbytes : int
        Bytes of the message.
    source, target : ndarray, optional
        The memory of both sides; without it only the time is taken.
    """
    fabric, (src, dst) = way.fabric, ends
    transport = way.transport
    if transport == "auto":
        transport = choose_transport(fabric, src, dst, nbytes, plane=way.plane)[0].name
    names = [fabric.endpoints[end].name for end in ends]
    options = WorldOptions(clock=ClockOptions(transport))

    def main(rank: Rank) -> None:
        if rank.number == 0:
            data = Phantom(nbytes) if source is None else source.view(np.uint8)
            rank.wait([rank.isend(1, TAG, CONTEXT, data)])
        else:
            into = Phantom(nbytes) if target is None else target.view(np.uint8)
            rank.wait([rank.irecv(0, TAG, CONTEXT, into)])

    result = World(fabric, 2, names, options).run(main)
    capacity = dict(zip(fabric.resource_names, fabric.capacity, strict=True))
    need = {name: carried / capacity[name] for name, carried in result.report.items()}
    busiest = max(need, key=lambda name: need[name], default="")
    used = need[busiest] * PS_PER_S / result.time_ps if busiest else 0.0
    return Sent(result.time_ps, transport, busiest, float(used))
