"""The flow engine: flows share links in weighted max-min fairness, in virtual time.

`simulate_flows` answers for a whole set of flows at once; `FlowSim` is the same engine by steps.
Its loop: take all events of this instant, apply them, re-allocate once, find the next finish.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import FlowError
from ubnet.flow_engine import loop, moving, posting, row_loop, state, tables
from ubnet.flow_engine.moving import Active
from ubnet.flow_engine.state import NEVER, Engine
from ubnet.flowcheck import (
    HORIZON_PS,
    WRONG_DEPENDENCY,
    fault_text,
    first_fault,
    flow_on_cycle,
    integers,
    kinds,
    numbers,
    pointers,
    reals,
    truths,
)

# Columns of one row stand for all flows; made once, because most posts take most of them.
NONE = np.zeros(0, np.int64)
ITS_OWN = np.zeros(0, np.int32)  # kinds: each flow has its own row
ZERO = np.zeros(1, np.int64)
ONE = np.ones(1)
NO_CAP = np.full(1, np.inf)
FALSE = np.zeros(1, np.bool_)


def simulate_flows(
    capacity: "ArrayLike",
    start_ps: "ArrayLike",
    nbytes: "ArrayLike",
    route_ptr: "ArrayLike",
    route_link: "ArrayLike",
    route_share: "ArrayLike | None" = None,
    weight: "ArrayLike | None" = None,
    rate_cap: "ArrayLike | None" = None,
    dep_ptr: "ArrayLike | None" = None,
    dep: "ArrayLike | None" = None,
    startup_ps: "ArrayLike | None" = None,
    *,
    gate: "ArrayLike | None" = None,
    tolerance: float = 0.0,
) -> NDArray[np.int64]:
    """Return when each flow ends, all sharing the links in weighted max-min fairness.

    Flow i is ready at the later of ``start_ps[i]`` and the last end of the flows it waits for;
    its bytes enter the network ``startup_ps[i]`` later and it ends when the last has arrived.

    Parameters
    ----------
    capacity : array of float, shape (links,)
        Bytes/s of each link (any resource that flows share).
    start_ps : array of int, shape (flows,), or one for all
        Picoseconds; 0 to 2**60, which is 13 days.
    nbytes : array of int, shape (flows,), or one for all
        A flow of zero bytes ends when it would enter the network.
    route_ptr, route_link : arrays of int
        Flow i crosses ``route_link[route_ptr[i]:route_ptr[i + 1]]``, each link once. An empty
        route takes no time, or ``nbytes / rate_cap``.
    route_share : array of float, same shape as route_link, optional
        At rate r a flow uses share times r of that link; > 0, may exceed 1, default 1.
    weight : array of float, optional
        Rates are compared divided by weights, between 1e-100 and 1e100; default 1.
    rate_cap : array of float, optional
        Bytes/s; inf (the default) for none.
    dep_ptr, dep : arrays of int, optional
        Flow i waits for the flows ``dep[dep_ptr[i]:dep_ptr[i + 1]]``.
    startup_ps : array of int, optional
        Picoseconds between ready and entering the network, at most 2**60; default 0.
    gate : array of bool, shape of ``dep``, or one for all, optional
        True: what is waited for holds back the bytes alone, while the start-up goes on: they
        enter the network when both are over. Default False.
    tolerance : float, optional
        0 (the default) is exact; see `FlowSim`.

    Returns
    -------
    array of int64, shape (flows,)
        The ends in picoseconds, each rounded to the nearest.

    Raises
    ------
    FlowError
        For anything outside of the above, for flows that wait for each other in a circle, and for
        flows that would end after 2**60 ps.

    Examples
    --------
    Two flows of 1,000 bytes share a link of 1 GB/s; one of them is half the size:

    >>> simulate_flows([1e9], 0, [1000, 500], [0, 1, 2], [0, 0])
    array([1500000, 1000000])
    """
    sim = FlowSim(capacity, tolerance)
    sim.post(
        nbytes,
        route_ptr,
        route_link,
        route_share,
        start_ps=start_ps,
        weight=weight,
        rate_cap=rate_cap,
        dep_ptr=dep_ptr,
        dep=dep,
        startup_ps=startup_ps,
        gate=gate,
    )
    sim.run()
    return sim.finish_ps


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
        rates = np.atleast_1d(numbers("capacity", capacity)).copy()
        if rates.ndim != 1 or not (np.isfinite(rates) & (rates > 0)).all():
            raise FlowError("capacity must be a row of finite bytes/s > 0, one for each link")
        self._capacity = rates
        self._take(tables.fresh_engine(rates, tolerance))
        self._seen = np.zeros(len(rates), np.int64)
        self._checked = 1
        self._dense = tables.dense_tables(0, 0, 0)

    def __repr__(self) -> str:
        return (
            f"FlowSim({len(self._capacity)} links): now {self.now_ps} ps, "
            f"{self.size} flows, {self.counters['unfinished']} unfinished"
        )

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return int(self._clock[state.NOW])

    @property
    def size(self) -> int:
        """How many flows were posted, which is the id of the next."""
        return int(self._clock[state.SIZE])

    @property
    def finish_ps(self) -> NDArray[np.int64]:
        """When each flow ended, int64 of shape (size,); -1 where it has not."""
        return self._engine.ends[: self.size].copy()

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
            "groups": self.size - int(clock[state.GROUPED]),
            "unfinished": int(clock[state.UNFINISHED]),
            "events": int(clock[state.EVENTS]),
            "reallocations": int(clock[state.REALLOCATIONS]),
            "sweeps": int(clock[state.SWEEPS]),
            "touched": int(clock[state.TOUCHED]),
        }

    @property
    def held_back(self) -> tuple[int, int]:
        """How many flows a tolerance made wait, and the longest of these waits in picoseconds."""
        clock = self._clock
        return int(clock[state.HELD_BACK]), int(clock[state.LONGEST_HELD])

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
        links = integers("route_link", route_link)
        ptr = pointers("route_ptr", route_ptr, None, len(links))
        rows, now = len(ptr) - 1, self.now_ps
        kind_of = ITS_OWN if kind is None else kinds(kind, rows)
        n = rows if kind is None else len(kind_of)
        hops = len(links) if kind is None else int(np.diff(ptr)[kind_of].sum())
        deps = NONE if dep is None else integers("dep", dep)
        columns = (
            np.array([now]) if start_ps is None else integers("start_ps", start_ps, rows),
            integers("nbytes", nbytes, rows),
            ptr,
            links,
            ONE if route_share is None else reals("route_share", route_share, len(links)),
            ONE if weight is None else reals("weight", weight, rows),
            NO_CAP if rate_cap is None else reals("rate_cap", rate_cap, rows),
            NONE if dep_ptr is None else pointers("dep_ptr", dep_ptr, n, len(deps)),
            deps,
            ZERO if startup_ps is None else integers("startup_ps", startup_ps, rows),
        )
        if dep_ptr is None and len(deps):
            raise FlowError(f"dep has {len(deps)} entries but dep_ptr is not given; give both")
        gates = FALSE if gate is None else truths("gate", gate, len(deps))
        watched = FALSE if watch is None else truths("watch", watch, n)
        first = self.size
        self._refuse(first, n, kind_of, columns)
        used = self._used()
        if (
            used[0] + n >= self._room[0]
            or used[1] + hops > self._room[1]
            or used[2] + len(deps) > self._room[2]
            or first + n > self._room[3]
        ):
            self._make_room(n, hops, len(deps))
        posting.enqueue(self._tables, *columns, gates, kind_of, watched)
        return first

    def run(self) -> int:
        """Run until nothing is left; return the time of the last event in picoseconds."""
        self._refuse_endless(self._work(NEVER, state.ALL_EVENTS))
        return self.now_ps

    def run_until(self, t_ps: int) -> None:
        """Work off the events up to and including ``t_ps``, which is now afterwards.

        Raises
        ------
        FlowError
            For a time before now.
        """
        self._refuse_past(t_ps)
        self._work(int(t_ps), state.ALL_EVENTS)
        self._clock[state.NOW] = t_ps

    def next_event(self) -> int | None:
        """Return the time of the next event in picoseconds, None where nothing is left."""
        first = self._work(NEVER, state.NO_EVENT)
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
            self._refuse_endless(self._work(NEVER, state.WATCHED_END))
        else:
            self._work(int(limit_ps), state.WATCHED_END)
        n = self._clock[state.REPORTED]
        if limit_ps is not None and n == 0:
            self._clock[state.NOW] = limit_ps
        ended: NDArray[np.int64] = self._reported[:n].copy()
        if n > 1:
            ended.sort()
        return ended

    def unwatch(self) -> None:
        """Watch no flow any more of those that were posted so far."""
        self._engine.flows.watch[: self._clock[state.ROWS]] = 0

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
        if self._clock[state.DENSE] != 0:
            row_loop.settle_dense(self._tables, tuple(self._dense))
        return self._engine

    def _work(self, limit_ps: int, until: int) -> int:
        clock, engine = self._clock, self._tables
        while True:
            if clock[state.DENSE] == 0 and clock[state.WANTED] == 0:
                following = int(loop.work(engine, limit_ps, until))
                if clock[state.WANTED] == 0:
                    return following
                self._dense = tables.dense_tables(
                    int(clock[state.WANTED]), int(clock[state.HOPS]), len(self._engine.hops)
                )
            following = int(row_loop.work_dense(engine, tuple(self._dense), limit_ps, until))
            if clock[state.DENSE] != 0:
                return following
            self._dense = tables.dense_tables(0, 0, 0)

    def _refuse_endless(self, following: int) -> None:
        """Raise a FlowError where flows are left that no time of the clock can see end."""
        if following < NEVER or self._clock[state.UNFINISHED] == 0:
            return
        first = int(np.flatnonzero(self.finish_ps < 0)[0])
        raise FlowError(
            f"flow {first} would end after {HORIZON_PS} ps (13 days of virtual time): give fewer "
            "bytes, or links and caps that carry more"
        )

    def _refuse_past(self, t_ps: int) -> None:
        if not 0 <= t_ps <= HORIZON_PS:
            raise FlowError(f"{t_ps} is no time here: give 0 to {HORIZON_PS} picoseconds")
        if t_ps < self.now_ps:
            raise FlowError(f"{t_ps} ps is before now ({self.now_ps} ps); time only goes on")

    def _refuse(
        self, first: int, n: int, kind: NDArray[np.int32], columns: tuple[NDArray[Any], ...]
    ) -> None:
        """Raise a FlowError where a post of n flows is faulty."""
        stamp, self._checked = self._checked, self._checked + len(columns[2])
        now = self.now_ps
        fault, row, place = first_fault(self._capacity, self._seen, stamp, first, now, *columns)
        if fault:
            flow, last = first + row, first + n - 1
            if kind is not ITS_OWN and fault != WRONG_DEPENDENCY:
                having = np.flatnonzero(kind == row)
                flow = first + int(having[0]) if len(having) else -1
            raise FlowError(fault_text(fault, flow, last, row, place, now, self._capacity, columns))
        if place and (row := flow_on_cycle(first, columns[7], columns[8])) >= 0:
            raise FlowError(
                f"flow {first + row} waits for itself through its dependencies; "
                "dependencies must not form a circle"
            )

    def _make_room(self, n_flows: int, n_hops: int, n_edges: int) -> None:
        """Clear out the rows of ended flows, or at least double what is too small."""
        engine = tables.with_room(self._engine, n_flows, n_hops, n_edges)
        if self._clock[state.DENSE] != 0:
            cells = tables.longer(self._dense.cells, len(engine.hops))
            self._dense = self._dense._replace(cells=cells)
        self._take(engine)

    def _take(self, engine: Engine) -> None:
        """Take new tables, and keep at hand what every post and advance needs of them."""
        self._engine = engine
        self._tables = tuple(engine)
        self._clock = engine.clock
        self._reported = np.asarray(engine.lists.reported)
        self._first_hop = np.asarray(engine.flows.first_hop)
        self._room = (len(engine.flows), len(engine.hops), len(engine.edges), len(engine.ends))

    def _used(self) -> tuple[int, int, int]:
        """Return how many rows of flows, of hops and of edges are in use."""
        rows = int(self._clock[state.ROWS])
        return rows, int(self._first_hop[rows]), int(self._clock[state.EDGES_USED])
