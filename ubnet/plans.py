"""Schedules that were made, with their flows, kept for the next call of the same kind."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import Fabric, Ints
from ubnet.message import Maker
from ubnet.outcome import Outcome
from ubnet.readiness import ready_flows
from ubnet.schedule import Schedule
from ubnet.schedule_flows import ScheduleFlows, schedule_flows
from ubnet.stage import Stages
from ubnet.timing import pick_transport
from ubnet.transport import Transport

KEPT_OPERATIONS = 4_000_000
"""Operations of all kept schedules together: a bound on memory, some 1 GB."""


@dataclass(slots=True)
class Plan:
    """A schedule on its place in the fabric.

    A maker may return one itself, where an operator takes other time than its transfers alone.
    """

    schedule: Schedule
    flows: ScheduleFlows
    outcome: Outcome | None = None
    """What happens when it has the network to itself, once that is known."""

    def ready(self, here: NDArray[np.bool_], posted: NDArray[np.bool_]) -> Ints:
        """Return the flows that can start with these members here, ascending."""
        flows = self.flows
        mask = ready_flows(flows.dep_ptr, flows.dep, flows.flow_ranks, here, posted)
        return np.flatnonzero(mask)


class Plans:
    """Makes schedules and their flows, and keeps them for the next call of the same kind.

    A rank's own part is compared, too, if it can be hashed.

    Parameters
    ----------
    fabric : Fabric
        Where they run.
    endpoints : ndarray of int64
        Endpoint of each rank of the world.
    transport : str
        The transport of every transfer, or ``auto``.

    Attributes
    ----------
    stages : Stages
        Where the bytes of schedules move.
    """

    def __init__(self, fabric: Fabric, endpoints: Ints, transport: str) -> None:
        self._fabric = fabric
        self._endpoints = endpoints
        self._transport = transport
        self._kept: dict[Any, Plan] = {}
        self.stages = Stages()
        self._operations = 0

    def plan(self, maker: Maker, parts: list[Any], group: tuple[int, ...], itemsize: int) -> Plan:
        """Return the plan of a collective call.

        Parameters
        ----------
        maker : callable
            Makes the schedule, or the whole plan; two makers that are equal make equal schedules.
        parts : list
            The members' own parts; a list of None where there are none.
        group : tuple of int
            World ranks of the members.
        itemsize : int
            Bytes of an element.
        """
        key = _key(maker, parts, group, itemsize)
        plan = self._kept.get(key) if key is not None else None
        if plan is None:
            places = self._endpoints[list(group)]
            made = maker(parts, self._fabric, places)
            plan = made if isinstance(made, Plan) else self._timed(made, places, itemsize)
            if key is not None:
                self._keep(key, plan)
        return plan

    def _timed(self, schedule: Schedule, places: Ints, itemsize: int) -> Plan:
        chosen = self._choose(schedule, places, itemsize)
        return Plan(schedule, schedule_flows(schedule, self._fabric, places, itemsize, chosen))

    def _choose(self, schedule: Schedule, places: Ints, itemsize: int) -> Transport:
        if self._transport != "auto":
            return self._fabric.transport(self._transport)
        plane = next(iter(self._fabric.planes))
        return pick_transport(schedule, self._fabric, places, itemsize, plane)[0]

    def _keep(self, key: Any, plan: Plan) -> None:
        self._operations += len(plan.schedule)
        while self._kept and self._operations > KEPT_OPERATIONS:
            oldest = next(iter(self._kept))
            self._operations -= len(self._kept.pop(oldest).schedule)
        self._kept[key] = plan


def _key(maker: Maker, parts: list[Any], group: tuple[int, ...], itemsize: int) -> Any:
    """Return what tells this plan from others; None if the parts cannot be compared."""
    given = () if all(part is None for part in parts) else tuple(parts)
    key = _identity(maker), given, group, itemsize
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _identity(maker: Maker) -> Any:
    if isinstance(maker, partial):
        return maker.func, maker.args, tuple(sorted(maker.keywords.items()))
    return maker
