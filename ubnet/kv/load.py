"""How far a transfer loads its resources, and the least time that they would allow."""

from dataclasses import dataclass

from ubnet.fabric import Fabric
from ubnet.flow_kinds import FlowKinds
from ubnet.timing import lower_bound
from ubnet.transport import FlowColumns
from ubnet.units import PS_PER_S


@dataclass(frozen=True, slots=True)
class Load:
    """The fullest resource of a transfer.

    Attributes
    ----------
    busiest : str
        The name of the resource that needs longest for its bytes; empty where none is used.
    utilisation : float
        Its bytes times share over what it could have carried in the whole time.
    lower_bound_ps : int
        What it needs and one start-up, or what the slowest flow needs at its own rate cap, as in
        `ubnet.timing.lower_bound`.
    efficiency : float
        The lower bound over the time; 1 where nothing was moved.
    """

    busiest: str
    utilisation: float
    lower_bound_ps: int
    efficiency: float


def load_of(fabric: Fabric, columns: FlowColumns, time_ps: int) -> Load:
    """Return the load of flows that start together and take `time_ps` in all."""
    carried = FlowKinds.each(columns).resource_bytes(len(fabric.capacity))
    bound_ps, busiest = lower_bound(columns, carried, fabric.capacity)
    efficiency = bound_ps / time_ps if time_ps else 1.0
    if busiest < 0:
        return Load("", 0.0, bound_ps, efficiency)
    used = carried[busiest] / fabric.capacity[busiest] * PS_PER_S / time_ps
    return Load(fabric.resource_names[busiest], float(used), bound_ps, efficiency)
