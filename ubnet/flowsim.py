"""The flow engine by steps: flows share links in weighted max-min fairness, in virtual time.

Its loop: take all events of this instant, apply them, re-allocate once, find the next finish.
"""

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.column import BEHAVED, capacities
from ubnet.errors import FlowError
from ubnet.flow_engine import moving, state
from ubnet.flow_engine.driver import Driver
from ubnet.flow_engine.moving import Active
from ubnet.flow_engine.state import NEVER, PLACES, Engine
from ubnet.flow_faults import HORIZON_PS, refuse_faulty, too_long
from ubnet.posted_flows import PostedFlows


class FlowSim:
    """Flows on shared links, in virtual time, by steps.

    Parameters
    ----------
    capacity : array of float, shape (links,)
        Bytes/s of each link (any resource that flows share).
    tolerance : float, optional
        0 (the default) is exact. With 1e-3, flows that would end within a thousandth of the time
        so far after the first end of an instant end with the last of them, so that rates are
        allocated anew much less often. What starts meanwhile still starts at its own time. There
        is no proven bound on the error; `held_back` says what was done.

    Raises
    ------
    FlowError
        For capacities that are not finite and > 0, and for a tolerance outside of 0 to 0.1.

    Notes
    -----
    The clock is an integer of picoseconds. Starts, start-ups and limits are 0 to 2**60 of them, 13
    days of virtual time; ends later than that are not promised, and refused where the clock cannot
    hold them. Weights lie between 1e-100 and 1e100, caps are > 0, shares finite and > 0.

    `copy.copy`, `copy.deepcopy` and pickle give one that goes on by itself, within a run as well.

    Examples
    --------
    >>> sim = FlowSim([1e9])
    >>> sim.post([1000], [0, 1], [0])
    0
    >>> sim.run_until(500_000)
    >>> sim.post([1000], [0, 1], [0])
    1
    >>> sim.next_event(), sim.run()
    (500000, 2000000)
    >>> sim.finish_ps
    array([1500000, 2000000])
    """

    def __init__(self, capacity: "ArrayLike", tolerance: float = 0.0) -> None:
        if not isinstance(tolerance, (int, float, np.floating)) or not 0.0 <= tolerance <= 0.1:
            raise FlowError(
                f"tolerance {tolerance!r} is not a fraction from 0 (exact) to 0.1; "
                "FlowSim(capacity, tolerance=1e-3) lets ends within a thousandth wait"
            )
        self._capacity = capacities(capacity)
        self._driver = Driver(self._capacity, tolerance)
        self._seen = np.zeros(len(self._capacity), np.int64)
        self._checked = 1

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin as a copy of another one.

        Kernels write to arrays, or are compiled for those that could be written to.
        """
        self.__dict__.update(state)
        self._capacity = np.require(self._capacity, requirements=BEHAVED)
        self._seen = np.require(self._seen, requirements=BEHAVED)

    def __copy__(self) -> "FlowSim":
        """Return a simulation that goes on by itself: two cannot share tables."""
        return copy.deepcopy(self)

    @property
    def _clock(self) -> NDArray[np.int64]:
        return self._driver.clock

    def __repr__(self) -> str:
        return (
            f"FlowSim({len(self._capacity)} links): now {self.now_ps} ps, "
            f"{self.size} flows, {self.counters['unfinished']} unfinished"
        )

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return int(self._clock[PLACES["now"]])

    @property
    def size(self) -> int:
        """How many flows were posted, which is the id of the next."""
        return int(self._clock[PLACES["posted"]])

    @property
    def finish_ps(self) -> NDArray[np.int64]:
        """When each flow ended, int64 of shape (size,); -1 where it has not."""
        ends: NDArray[np.int64] = self._driver.engine.ends
        return ends[: self.size].copy()

    @property
    def counters(self) -> dict[str, int]:
        """How much work was done: the same figures on every machine.

        ``flows`` posted, ``groups`` (equal flows of one post count once), ``unfinished`` flows,
        ``events`` (a flow that starts to move bytes or ends), ``reallocations``, ``sweeps``
        (those that were done in a part of the network) and flows ``touched`` by all of them.
        """
        clock = self._clock
        return {
            "flows": self.size,
            "groups": self.size - int(clock[PLACES["grouped"]]),
            "unfinished": int(clock[PLACES["unfinished"]]),
            "events": int(clock[PLACES["events"]]),
            "reallocations": int(clock[PLACES["reallocations"]]),
            "sweeps": int(clock[PLACES["sweeps"]]),
            "touched": int(clock[PLACES["touched"]]),
        }

    @property
    def held_back(self) -> tuple[int, int]:
        """How many flows a tolerance made wait, and the longest of these waits in picoseconds."""
        clock = self._clock
        return int(clock[PLACES["held_back"]]), int(clock[PLACES["longest_held"]])

    def post(
        self,
        nbytes: "ArrayLike",
        route_ptr: "ArrayLike",
        route_link: "ArrayLike",
        route_share: "ArrayLike | None" = None,
        *,
        start_ps: "ArrayLike | None" = None,
        weight: "ArrayLike | None" = None,
        rate_cap: "ArrayLike | None" = None,
        dep_ptr: "ArrayLike | None" = None,
        dep: "ArrayLike | None" = None,
        startup_ps: "ArrayLike | None" = None,
        gate: "ArrayLike | None" = None,
        kind: "ArrayLike | None" = None,
        watch: "ArrayLike | None" = None,
    ) -> int:
        """Add flows; the parameters are those of `simulate_flows`, and some more.

        Parameters
        ----------
        nbytes, route_ptr, route_link, route_share, weight, rate_cap, startup_ps : arrays
            As in `simulate_flows`; ``route_ptr`` says how many flows there are.
        start_ps : array of int, optional
            Now or later; default now.
        dep_ptr, dep : arrays of int, optional
            Ids of flows to wait for: of any posted before, ended ones too, or of this post, where
            row i has the id ``size + i``.
        gate : array of bool, optional
            As in `simulate_flows`.
        kind : array of int, shape (flows,), optional
            Where many flows are alike: which row of the columns above, ``start_ps`` included, each
            flow has. What it waits for and ``watch`` have a row for each flow in any case.
        watch : array of bool, optional
            The flows whose ends `advance` reports; default none.

        Returns
        -------
        int
            The id of the first flow; the others follow it.

        Raises
        ------
        FlowError
            For flows that are refused; nothing is changed then.
        """
        now = self.now_ps
        flows = PostedFlows.read(
            start_ps,
            nbytes,
            route_ptr,
            route_link,
            route_share,
            weight,
            rate_cap,
            dep_ptr,
            dep,
            startup_ps,
            gate,
            kind,
            watch,
            now,
        )
        first = self.size
        stamp, self._checked = self._checked, self._checked + len(flows.route_ptr)
        refuse_faulty(flows, self._capacity, self._seen, stamp, first, now)
        self._driver.post(flows)
        return first

    def run(self) -> int:
        """Run until nothing is left; return the time of the last event in picoseconds.

        Raises
        ------
        FlowError
            For a flow that would end later than the clock can say.
        """
        self._refuse_endless(self._driver.work(NEVER, state.ALL_EVENTS))
        return self.now_ps

    def run_until(self, t_ps: int) -> None:
        """Work off the events up to and including ``t_ps``, which is now afterwards.

        Raises
        ------
        FlowError
            For a time before now.
        """
        self._refuse_past(t_ps)
        self._driver.work(int(t_ps), state.ALL_EVENTS)
        self._clock[PLACES["now"]] = t_ps

    def next_event(self) -> int | None:
        """Return the time of the next event in picoseconds, None where nothing is left."""
        first = self._driver.work(NEVER, state.NO_EVENT)
        self._refuse_endless(first)
        return None if first == NEVER else first

    def advance(self, limit_ps: int | None = None) -> NDArray[np.int64]:
        """Run to the first instant at which watched flows end.

        Parameters
        ----------
        limit_ps : int, optional
            Go no further than this; default: no limit.

        Returns
        -------
        array of int64
            The ids of all watched flows that end at that instant, ascending; ``now_ps`` is that
            instant. Empty where none was found: ``now_ps`` is then the limit, or the time of the
            last event where there is no limit. Flows may be posted at that same instant; one of
            which the new rates leave under half a picosecond ends in it, too, in the next call.

        Raises
        ------
        FlowError
            For a limit before now.
        """
        if limit_ps is not None:
            self._refuse_past(limit_ps)
        if limit_ps is None:
            self._refuse_endless(self._driver.work(NEVER, state.WATCHED_END))
        else:
            self._driver.work(int(limit_ps), state.WATCHED_END)
        n = self._clock[PLACES["reported"]]
        if limit_ps is not None and n == 0:
            self._clock[PLACES["now"]] = limit_ps
        ended: NDArray[np.int64] = self._driver.reported[:n].copy()
        if n > 1:
            ended.sort()
        return ended

    def unwatch(self) -> None:
        """Watch no flow any more of those that were posted so far."""
        self._driver.engine.posted.watch[: self._clock[PLACES["rows"]]] = 0

    def link_rate(self) -> NDArray[np.float64]:
        """Return what each link carries now, in bytes/s, shares counted; shape (links,)."""
        return moving.link_rate(self._settled())

    def link_bytes(self) -> NDArray[np.float64]:
        """Return what each link has carried so far, in bytes times share; shape (links,)."""
        return moving.link_bytes(self._settled())

    def active(self) -> Active:
        """Return the flows that move bytes now, with their rates and what holds each back."""
        return moving.active_flows(self._settled())

    def held_rate(self) -> NDArray[np.float64]:
        """Return the rate, in bytes/s, of the flows that each link holds back now.

        Shape (links + 1,): the last entry is that of the flows held back by caps of their own. A
        flow that shares a full link with others at one level is held back by one link alone.
        """
        return moving.held_rate(self._settled())

    def _settled(self) -> Engine:
        """Return the tables with rates allocated, each flow's in its own row."""
        self.next_event()
        self._driver.settle()
        return self._driver.engine

    def _refuse_endless(self, following: int) -> None:
        """Raise a FlowError where flows are left that no time of the clock can see end."""
        if following < NEVER or self._clock[PLACES["unfinished"]] == 0:
            return
        raise too_long(int(np.flatnonzero(self.finish_ps < 0)[0]))

    def _refuse_past(self, t_ps: int) -> None:
        if not 0 <= t_ps <= HORIZON_PS:
            raise FlowError(f"{t_ps} is no time here: give 0 to {HORIZON_PS} picoseconds")
        if t_ps < self.now_ps:
            raise FlowError(f"{t_ps} ps is before now ({self.now_ps} ps); time only goes on")
