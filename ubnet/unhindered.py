"""Flows that nothing holds back, timed without the flow engine.

As long as the links carry every flow at the rate that it would have alone, these rates are the
max-min fair ones: no flow can have more, and none needs to give way. The end of each is then known
when it starts. `Unhindered` takes flows for as long as this holds.
"""

from typing import Generic, Protocol, TypeVar

from ubnet.fabric import Floats
from ubnet.passage import Passage

NEARLY_FULL = 1 - 1e-9
"""Flows that share a link must leave this little of it: whether it is full is for the engine."""


class Passing(Protocol):
    """What goes through the network on a passage."""

    passage: Passage


T = TypeVar("T", bound=Passing)


class Unhindered(Generic[T]):
    """The flows under way that have their links' capacity to themselves.

    Parameters
    ----------
    capacity : ndarray of float64
        Bytes/s of every resource.

    Attributes
    ----------
    carried : list of float
        Bytes, times shares, that each resource has carried for flows that have ended here.
    since : dict
        When each flow under way has started.
    """

    def __init__(self, capacity: Floats) -> None:
        self._room: list[float] = (capacity * NEARLY_FULL).tolist()
        self._crowd = [0] * len(capacity)
        self._used = [0.0] * len(capacity)
        self.carried = [0.0] * len(capacity)
        self.since: dict[T, int] = {}

    def start(self, flow: T, now_ps: int) -> bool:
        """Let a flow start; say no, and change nothing, if it might hold others back."""
        passage = flow.passage
        crowd, used, room = self._crowd, self._used, self._room
        if passage.alone_ps < 0:
            return False
        for link, load, _ in passage.loads:
            if crowd[link] and used[link] + load > room[link]:
                return False
        for link, load, _ in passage.loads:
            used[link] = used[link] + load if crowd[link] else load
            crowd[link] += 1
        self.since[flow] = now_ps
        return True

    def end(self, flow: T) -> None:
        """Take the end of a flow."""
        crowd, used, carried = self._crowd, self._used, self.carried
        for link, load, nbytes in flow.passage.loads:
            crowd[link] -= 1
            used[link] -= load
            carried[link] += nbytes
        del self.since[flow]

    def give_up(self) -> dict[T, int]:
        """Forget the flows under way, and return when each has started."""
        since, self.since = self.since, {}
        for flow in since:
            for link, _, _ in flow.passage.loads:
                self._crowd[link] = 0
        return since
