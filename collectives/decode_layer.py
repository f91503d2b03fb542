"""A decode step in tasks: attention, gate, dispatch, experts, combine, layer after layer.

A task runs in a lane (computing, network) that does one thing at a time. With several
micro-batches one computes while another one's tokens are on their way; what of a dispatch or
combine lies under computing is hidden, the rest is exposed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ubnet.errors import OptionError

COMPUTE, NETWORK = "compute", "network"


@dataclass(frozen=True, slots=True)
class Task:
    """One step of a layer: its name, its lane, and how long it takes for a micro-batch."""

    name: str
    lane: str
    duration_ps: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A task of one micro-batch in one layer, when it ran."""

    task: Task
    layer: int
    batch: int
    start_ps: int

    @property
    def end_ps(self) -> int:
        """When it ended."""
        return self.start_ps + self.task.duration_ps


@dataclass(frozen=True)
class Timeline:
    """When everything ran.

    Attributes
    ----------
    slices : tuple of Slice
        In the order in which they began.
    """

    slices: tuple[Slice, ...]

    @property
    def time_ps(self) -> int:
        """The end of the last one."""
        return max((s.end_ps for s in self.slices), default=0)

    def busy_ps(self) -> dict[str, int]:
        """Return how long each lane was busy."""
        busy: dict[str, int] = {}
        for s in self.slices:
            busy[s.task.lane] = busy.get(s.task.lane, 0) + s.task.duration_ps
        return busy

    def hidden_ps(self) -> dict[str, tuple[int, int]]:
        """Return for each operator of the network how much of it was hidden, and exposed."""
        lane = [s for s in self.slices if s.task.lane == COMPUTE and s.task.duration_ps > 0]
        computing = [(s.start_ps, s.end_ps) for s in lane]  # in no time nothing is hidden
        found: dict[str, tuple[int, int]] = {}
        first = 0
        for s in self.slices:
            if s.task.lane == COMPUTE:
                continue
            # Both lanes are in order, so that what ended before this one began never returns.
            while first < len(computing) and computing[first][1] <= s.start_ps:
                first += 1
            under = 0
            for start, end in computing[first:]:
                if start >= s.end_ps:
                    break
                under += min(end, s.end_ps) - max(start, s.start_ps)
            hidden, exposed = found.get(s.task.name, (0, 0))
            length = s.task.duration_ps
            found[s.task.name] = (hidden + under, exposed + length - under)
        return found


def decode_layer(
    attention_ps: int, gate_ps: int, experts_ps: int, dispatch_ps: int, combine_ps: int
) -> tuple[Task, ...]:
    """Return the tasks of a layer in their order, for one micro-batch."""
    return (
        Task("attention", COMPUTE, attention_ps),
        Task("gate", COMPUTE, gate_ps),
        Task("dispatch", NETWORK, dispatch_ps),
        Task("experts", COMPUTE, experts_ps),
        Task("combine", NETWORK, combine_ps),
    )


def run_layers(tasks: Sequence[Task], layers: int, batches: int) -> Timeline:
    """Run micro-batches through all layers; each task begins as soon as it may.

    A task waits for the one before it of its micro-batch and for its lane. Who could begin first
    gets the lane; at the same time the lower layer, then the shorter task (a short gate frees
    a long dispatch), then the one that is further along, then the lower micro-batch.

    Parameters
    ----------
    tasks : sequence of Task
        Those of a layer.
    layers, batches : int
        How many.

    Examples
    --------
    Two micro-batches: the second one computes while the first is on the network.

    >>> tasks = [Task("attention", COMPUTE, 10), Task("dispatch", NETWORK, 4)]
    >>> run_layers(tasks, layers=2, batches=1).time_ps, run_layers(tasks, 2, 2).time_ps
    (28, 44)

    Raises
    ------
    OptionError
        If there is nothing to run, or a task takes less than no time.
    """
    if layers < 1 or batches < 1 or not tasks or min(t.duration_ps for t in tasks) < 0:
        raise OptionError(
            f"{len(tasks)} tasks in {layers} layers for {batches} micro-batches: give 1 or more "
            "of each, with durations of 0 or more"
        )
    ready = dict.fromkeys(range(batches), 0)
    at = dict.fromkeys(range(batches), 0)
    free: dict[str, int] = {task.lane: 0 for task in tasks}
    slices = []
    while ready:
        batch = min(ready, key=lambda b: _turn(tasks, free, ready[b], at[b], b))
        layer, step = divmod(at[batch], len(tasks))
        task = tasks[step]
        start = max(ready[batch], free[task.lane])
        slices.append(Slice(task, layer, batch, start))
        ready[batch] = free[task.lane] = start + task.duration_ps
        at[batch] += 1
        if at[batch] == layers * len(tasks):
            del ready[batch]
    return Timeline(tuple(sorted(slices, key=lambda s: (s.start_ps, s.layer, s.batch))))


def _turn(
    tasks: Sequence[Task], free: Mapping[str, int], ready_ps: int, at: int, batch: int
) -> tuple[int, int, int, int, int]:
    """Return what decides who is next: when it may begin, its layer, length, step and number."""
    layer, step = divmod(at, len(tasks))
    return max(ready_ps, free[tasks[step].lane]), layer, tasks[step].duration_ps, -step, batch
