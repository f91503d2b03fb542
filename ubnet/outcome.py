"""What the flows of a collective operation do when they have the network to themselves.

The same operation takes the same time whenever nothing else is under way: it is found out by the
flow engine once, when it happens to be so, and repeated from then on.
"""

from dataclasses import dataclass, field
from typing import Any

from ubnet.fabric import Floats
from ubnet.schedule_flows import ScheduleFlows


@dataclass(slots=True, eq=False)
class Outcome:
    """What happened, in picoseconds from the start of all flows.

    Attributes
    ----------
    flows : ScheduleFlows
        The flows.
    ends : list of (int, list of int)
        When ranks' parts end, and whose.
    over_ps : int
        When nothing was left under way.
    """

    flows: ScheduleFlows
    ends: list[tuple[int, list[int]]]
    over_ps: int

    def carried(self, resources: int) -> Floats:
        """Return what each resource carries, in bytes times share."""
        return self.flows.kinds.resource_bytes(resources)


@dataclass(slots=True)
class Repeat:
    """An operation under way that does what it did before.

    Attributes
    ----------
    outcome : Outcome
        What that is.
    start_ps : int
        When it has begun.
    events : dict of int to object
        What the end of each rank's part means, of those that have not ended.
    """

    outcome: Outcome
    start_ps: int
    events: dict[int, Any]


@dataclass(slots=True)
class Trial:
    """Flows that have begun alone, of which it is noted what they do.

    Attributes
    ----------
    flows : ScheduleFlows
        The flows.
    start_ps : int
        When they have begun.
    first_end : int
        The engine's number of the flow that ends the part of rank 0; the others' follow.
    """

    flows: ScheduleFlows
    start_ps: int
    first_end: int
    _ends: list[tuple[int, list[int]]] = field(default_factory=list)

    def note(self, now_ps: int, ended: list[int]) -> None:
        """Note which flows that end ranks' parts have ended."""
        if ended:
            ranks = [number - self.first_end for number in ended]
            self._ends.append((now_ps - self.start_ps, ranks))

    def outcome(self, now_ps: int) -> Outcome:
        """Return the outcome, now that nothing is under way any more."""
        return Outcome(self.flows, self._ends, now_ps - self.start_ps)
