"""How far a transfer loads its resources, and the least time that they would allow."""

from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Fabric
from ubnet.transport import FlowColumns


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
        What it needs, or what the slowest flow needs at its own rate cap, and one start-up.
    efficiency : float
        The lower bound over the time; 1 where nothing was moved.
    """

    busiest: str
    utilisation: float
    lower_bound_ps: int
    efficiency: float


def load_of(fabric: Fabric, columns: FlowColumns, time_ps: int) -> Load:
    """Return the load of flows that start together and take `time_ps` in all."""
    if not len(columns.nbytes):
        return Load("", 0.0, 0, 1.0)
    flow = np.repeat(np.arange(len(columns.nbytes)), np.diff(columns.route_ptr))
    carried = columns.nbytes[flow] * columns.route_share
    load = np.bincount(columns.route_link, carried, minlength=len(fabric.capacity))
    need = load / fabric.capacity
    fullest = int(need.argmax())
    least = max(need[fullest], float((columns.nbytes / columns.rate_cap).max()))
    bound = round(least * 1e12) + int(columns.startup_ps.min())
    if not need[fullest]:
        return Load("", 0.0, bound, bound / time_ps if time_ps else 1.0)
    name = fabric.resource_names[fullest]
    return Load(name, float(need[fullest] / (time_ps * 1e-12)), bound, bound / time_ps)
