"""Memory as a resource of the flow engine: what an endpoint reduces shares its memory's rate.

The engine gets the fabric's resources and, behind them, one for every endpoint whose memory has a
finite rate (`ubnet.fabric.Fabric.memory_rate`).
"""

import numpy as np

from ubnet.fabric import Fabric, Floats, Ints


def capacity_with_memory(fabric: Fabric) -> Floats:
    """Return the capacity of every resource, in bytes/s: the fabric's, then the memories'.

    What is timed with reductions runs on a ``FlowSim(capacity_with_memory(fabric))``.
    """
    rates = fabric.memory_rate
    return np.concatenate([fabric.capacity, rates[np.isfinite(rates)]])


def memory_resources(fabric: Fabric) -> Ints:
    """Return the resource of every endpoint's memory, -1 where it costs no time."""
    finite = np.isfinite(fabric.memory_rate)
    resource = np.full(len(finite), -1)
    resource[finite] = len(fabric.capacity) + np.arange(finite.sum())
    return resource


def resource_name(fabric: Fabric, resource: int) -> str:
    """Return a resource's name, such as ``node03.uplink`` or ``node03.npu5.die1.memory``."""
    if resource < len(fabric.capacity):
        return fabric.resource_names[resource]
    endpoint = int(np.flatnonzero(memory_resources(fabric) == resource)[0])
    return f"{fabric.endpoints[endpoint].name}.memory"
