"""The order of the steps of an MSCCL file: who comes behind whom, and whose data must have left."""

from collections.abc import Callable, Iterator, Sequence

from ubnet.msccl_step import Step
from ubnet.schedule_check import ORDER_LIMIT


def ordered(steps: Sequence[Step]) -> tuple[list[Step], Step | None]:
    """Return the steps so that each comes behind all that it needs, and none or one that cannot.

    Finds what each step overwrites, and marks as staged what steps send that would wait for each
    other otherwise.
    """
    made, stuck = _topological(steps, _precursors)
    if stuck:
        return made, stuck[0]
    _find_overwritten(made)
    while True:
        made, stuck = _topological(steps, lambda step: step.needs)
        if not stuck:
            return made, None
        if not _stage(stuck):
            return made, stuck[0]


def _precursors(step: Step) -> list[Step]:
    """Return the steps that MSCCL itself lets come before this one."""
    return step.before if step.peer_in is None else [*step.before, step.peer_in]


def _topological(
    steps: Sequence[Step], needs_of: Callable[[Step], list[Step]]
) -> tuple[list[Step], list[Step]]:
    """Return the steps in order, and those that wait for themselves by way of others."""
    needs = {step: needs_of(step) for step in steps}
    left = {step: len(before) for step, before in needs.items()}
    followers: dict[Step, list[Step]] = {step: [] for step in steps}
    for step, before in needs.items():
        for other in before:
            followers[other].append(step)
    ready = [step for step in steps if not left[step]]
    found = []
    while ready:
        step = ready.pop()
        found.append(step)
        for other in followers[step]:
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    return found, [step for step in steps if left[step]]


def _find_overwritten(made: Sequence[Step]) -> None:
    """Note for every step which ones before it send what it overwrites.

    In files of more steps than the order is checked for, what comes before is looked for on the
    step's own gpu alone.
    """
    of_gpu: dict[int, list[Step]] = {}
    for step in made:
        of_gpu.setdefault(step.gpu, []).append(step)
    few = len(made) <= ORDER_LIMIT
    earlier = _Earlier(made, _precursors) if few else None
    for steps in of_gpu.values():
        near = earlier or _Earlier(steps, lambda step: step.before)
        for writing, sending in _overlaps(steps):
            if near.precedes(sending, writing):
                writing.overwrites.append(sending)


class _Earlier:
    """All that comes before each of some steps, as bits of one whole number a step."""

    def __init__(self, steps: Sequence[Step], before: Callable[[Step], list[Step]]) -> None:
        self._number = {step: number for number, step in enumerate(steps)}
        self._bits: list[int] = []
        for step in steps:
            mine = 0
            for other in map(self._number.__getitem__, before(step)):
                mine |= self._bits[other] | 1 << other
            self._bits.append(mine)

    def precedes(self, one: Step, other: Step) -> bool:
        """Tell whether one step has ended when another begins."""
        return bool(self._bits[self._number[other]] >> self._number[one] & 1)


def _overlaps(steps: Sequence[Step]) -> Iterator[tuple[Step, Step]]:
    """Yield (writing, sending) where a step writes chunks that another one of its gpu sends."""
    accesses = []
    for number, step in enumerate(steps):
        for side, writes in ((step.sends, False), (step.writes, True)):
            if side is not None:
                accesses.append((*side, number, writes))
    running: list[tuple[int, int, int, bool]] = []
    for access in sorted(accesses):
        buf, first, number, writes = access
        running = [
            other
            for other in running
            if other[0] == buf and other[1] + steps[other[2]].count > first
        ]
        for _, _, before, wrote in running:
            if wrote != writes and before != number:
                pair = (steps[number], steps[before])
                yield pair if writes else pair[::-1]
        running.append(access)


def _stage(stuck: Sequence[Step]) -> bool:
    """Stage what is sent by steps that wait in a circle for its leaving; tell whether any is."""
    import networkx as nx

    graph = nx.DiGraph((step, other) for step in stuck for other in step.needs)
    circle = {
        step: number
        for number, steps in enumerate(nx.strongly_connected_components(graph))
        for step in steps
    }
    found = [
        other
        for step in stuck
        for other in step.gone
        if not other.staged and circle[step] == circle.get(other.peer_out)
    ]
    for step in found:
        step.staged = True
    return bool(found)
