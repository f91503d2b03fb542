"""What a faster tier would gain: the derivative of the makespan, and a run that checks it.

Between two events the rates gain what `ubnet.level_rise` says. Integrated over time that is what
each flow has served more; where a flow ends it moves the event, and an event that moves changes
what the others serve by the step of their rates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.bounds import lower_bounds
from ubnet.column import capacities
from ubnet.errors import FlowError
from ubnet.flow_ends import simulate_flows
from ubnet.flow_engine.moving import Active
from ubnet.flowsim import FlowSim
from ubnet.jit import kernel
from ubnet.level_rise import rate_rise
from ubnet.posted_flows import PostedFlows, check_names
from ubnet.units import PS_PER_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STEP = 0.01
"""How much faster a tier is made in the run that checks the derivative."""
AGREED = 0.1
"""Where derivative and run differ by more than this part, the bottleneck changes in between."""


@dataclass(frozen=True)
class Gain:
    """What one tier, made faster by 1 %, would gain.

    Attributes
    ----------
    percent : float
        By how much the makespan falls for each percent, by the derivative at the present speed.
    rerun_percent : float
        By how much it falls in a run with 1 % more.
    shifts : bool
        Whether they differ by more than a tenth: what holds the flows back, or the order in which
        they end, is another one before the 1 % is reached.
    """

    percent: float
    rerun_percent: float
    shifts: bool


def tier_gains(capacity: "ArrayLike", tier_of: Sequence[str], **columns: Any) -> dict[str, Gain]:
    """Return what each tier would gain if all its links were 1 % faster.

    Parameters
    ----------
    capacity : array of float, shape (links,)
        Bytes/s.
    tier_of : sequence of str, length links
        The tier of each link.
    **columns : arrays
        The flows, as in `ubnet.simulate_flows`.

    Raises
    ------
    FlowError
        As `ubnet.simulate_flows` does, and where `tier_of` has another length than `capacity`.
    TypeError
        For a name that is none of its columns, or where one is missing.

    Examples
    --------
    Two flows share the first link; the second link, of a tier of its own, is half idle:

    >>> gains = tier_gains([1e9, 1e9], ["port", "spine"], start_ps=0, nbytes=[10**6] * 2,
    ...                    route_ptr=[0, 1, 3], route_link=[0, 0, 1])
    >>> {tier: round(gain.percent, 6) for tier, gain in gains.items()}
    {'port': 1.0, 'spine': 0.0}
    """
    check_names("tier_gains", lower_bounds, columns)
    rates = capacities(capacity)
    if len(tier_of) != len(rates):
        raise FlowError(f"tier_of names {len(tier_of)} tiers for {len(rates)} links; name one each")
    names = list(dict.fromkeys(tier_of))
    is_in = np.array([[tier == name for name in names] for tier in tier_of]).reshape(-1, len(names))
    gains = {}
    makespan_ps, shift = _Sweep(rates, is_in, columns).run()
    for k, name in enumerate(names):
        faster = np.where(is_in[:, k], rates * (1 + STEP), rates)
        saved_ps = makespan_ps - int(simulate_flows(faster, **columns).max(initial=0))
        gains[name] = _gain(makespan_ps, float(-shift[k]) * PS_PER_S, saved_ps)
    return gains


def _gain(makespan_ps: int, slope_ps: float, saved_ps: int) -> Gain:
    """Compare the derivative with what a run saved; its picoseconds are whole, so +-2 is none."""
    if makespan_ps == 0:
        return Gain(0.0, 0.0, False)
    off = abs(slope_ps * STEP - saved_ps) > AGREED * abs(saved_ps) + 2
    return Gain(slope_ps / makespan_ps, saved_ps / makespan_ps / STEP, off)


class _Sweep:
    """A run that carries along, for each tier, what all served and all ends gain by its speed.

    Gains are per unit of relative speed: bytes for what is served, seconds for times.
    """

    def __init__(self, rates: Floats, is_in: NDArray[np.bool_], columns: dict[str, Any]) -> None:
        self.sim = FlowSim(rates)
        self.sim.post(**columns, watch=True)
        self.capacity = rates
        self.more = rates[:, None] * is_in
        flows, self.tiers = self.sim.size, is_in.shape[1]
        self.waits = PostedFlows.read(**columns).in_full()
        self.finish = np.full(flows, -1, np.int64)
        self.rate = np.zeros(flows)  # of the interval that ended last
        self.flowing = np.zeros(0, np.int64)  # the flows that have one
        self.moves = np.zeros(flows, np.bool_)  # it has moved bytes in an interval
        self.served = np.zeros((flows, self.tiers))
        self.end = np.full((flows, self.tiers), np.nan)  # nan: not known yet

    def run(self) -> tuple[int, Floats]:
        """Return the makespan in picoseconds and what it gains in seconds, for each tier."""
        sim = self.sim
        instant = None  # by how much the ends of the present event move
        while (event := sim.next_event()) is not None:
            active = sim.active()
            self._step(active, instant)
            seconds = (event - sim.now_ps) / PS_PER_S
            self.served[active.flow] += rate_rise(active, self.capacity, self.more) * seconds
            ended = sim.advance(event)
            self.finish[ended] = event
            instant = self._end(ended)
        last = self.finish == self.finish.max(initial=0)
        return int(self.finish.max(initial=0)), self.end[last].max(axis=0, initial=-np.inf)

    def _step(self, active: Active, instant: Floats | None) -> None:
        """Let the event that has just moved change what flows serve by the step of their rates."""
        flow = active.flow
        new = np.flatnonzero(~self.moves[flow])
        starts = self._starts(flow[new])
        if instant is None:  # nothing ended: the start-ups of flows that wait have passed
            instant = starts.max(axis=0) if len(new) else np.zeros(self.tiers)
        step = self.rate[flow] - active.rate
        served = step[:, None] * instant
        served[new] = step[new, None] * starts
        self.served[flow] += served
        self.rate[self.flowing] = 0.0
        self.rate[flow] = active.rate
        self.flowing = flow
        self.moves[flow] = True

    def _starts(self, flows: Ints) -> Floats:
        """Return by how much starts move: as the end that each waits for, where it does."""
        starts = np.zeros((len(flows), self.tiers))
        w = self.waits
        write_starts(
            flows, w.start_ps, w.startup_ps, w.dep_ptr, w.dep, w.gate, self.finish, self.end, starts
        )
        return starts

    def _end(self, ended: Ints) -> Floats | None:
        """Note by how much the ends of this instant move, and return that of the latest."""
        moved = ended[self.moves[ended]]
        self.end[moved] = -self.served[moved] / self.rate[moved][:, None]
        waiting = ended[~self.moves[ended]]  # they had nothing to move
        while len(waiting):  # for each other, perhaps
            self.end[waiting] = self._starts(waiting)
            waiting = waiting[np.isnan(self.end[waiting]).any(axis=1)]
        return self.end[ended].max(axis=0) if len(ended) else None


@kernel
def write_starts(
    flows: Ints,
    start_ps: Ints,
    startup_ps: Ints,
    dep_ptr: Ints,
    dep: Ints,
    gate: NDArray[np.bool_],
    finish: Ints,
    end: Floats,
    starts: Floats,
) -> None:
    """Write by how much the bytes' entry moves for each flow: nan where that is not known yet.

    What comes last counts: the start and the ends that are waited for, and the start-up behind
    them; or the end of a gate. Of several that come last, the one that moves most.
    """
    for k in range(len(flows)):
        flow = flows[k]
        latest = start_ps[flow] + startup_ps[flow]
        for j in range(dep_ptr[flow], dep_ptr[flow + 1]):
            done = finish[dep[j]] + (0 if gate[j] else startup_ps[flow])
            later = done > latest
            latest = max(latest, done)
            if later:
                starts[k] = end[dep[j]]
            elif done == latest:
                for tier in range(starts.shape[1]):
                    move = end[dep[j], tier]
                    if move > starts[k, tier] or np.isnan(move):  # nan stays
                        starts[k, tier] = move
