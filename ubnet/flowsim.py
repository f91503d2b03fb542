"""The flow engine: flows share links in weighted max-min fairness, in virtual time.

`simulate_flows` answers for a whole set of flows at once; `FlowSim` is the same engine by steps.
Its loop: take all events of this instant, apply them, re-allocate once, find the next finish.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet import allocator
from ubnet.allocator import NEVER, Dense, Engine
from ubnet.errors import FlowError
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

CACHE_LINE = 64
ROOM = 256  # flows that fresh tables take: clearing out what has ended pays for itself then
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


class Active(NamedTuple):
    """Flows that move bytes; their routes are ragged rows, as in `simulate_flows`."""

    flow: NDArray[np.int64]  # ids
    rate: NDArray[np.float64]  # bytes/s
    weight: NDArray[np.float64]
    stopped_by: NDArray[np.int64]  # the full link that holds the flow back, -1: its own cap
    hop_ptr: NDArray[np.int64]
    link: NDArray[np.int64]
    share: NDArray[np.float64]


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
        n = len(rates)
        engine = Engine(
            clock=np.zeros(allocator.CLOCK_FIELDS, np.int64),
            flows=_rows(allocator.FLOWS, ROOM + 1),
            hops=_rows(allocator.HOPS_OF_FLOWS, 4 * ROOM),
            edges=_rows(allocator.EDGES, ROOM),
            links=_rows(allocator.LINKS, n + 1),
            lists=_rows(allocator.LISTS, ROOM + 1),
            levels=_rows(allocator.LEVELS, 2 * (n + ROOM)),
            recent=_rows(allocator.RECENT_INSTANTS, allocator.RECENT),
            blocks=_rows(allocator.BLOCKS, (ROOM >> allocator.BLOCK_BITS) + 1),
            ends=np.zeros(ROOM, np.int64),
        )
        self._capacity = rates
        self._take(engine)
        self._engine.links.capacity[:n] = rates
        self._engine.links.first_hop[:] = -1
        self._engine.recent.bucket[:] = -1
        self._engine.clock[allocator.NEXT_END] = NEVER
        self._engine.clock[allocator.REGION] = 1
        self._engine.clock[allocator.SUMS] = 1
        self._engine.clock[allocator.TOLERANCE] = round(tolerance * 1e9)
        self._seen = np.zeros(n, np.int64)
        self._checked = 1
        self._dense = _matrix(0, 0, 0)

    def __repr__(self) -> str:
        return (
            f"FlowSim({len(self._capacity)} links): now {self.now_ps} ps, "
            f"{self.size} flows, {self.counters['unfinished']} unfinished"
        )

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return int(self._clock[allocator.NOW])

    @property
    def size(self) -> int:
        """How many flows were posted, which is the id of the next."""
        return int(self._clock[allocator.SIZE])

    @property
    def finish_ps(self) -> NDArray[np.int64]:
        """When each flow ended, int64 of shape (size,); -1 where it has not."""
        return self._engine.ends[: self.size].copy()

    @property
    def counters(self) -> dict[str, int]:
        """How much work was done: the same figures on every machine.

        ``flows`` posted, ``groups`` (equal flows of one post count once), ``unfinished`` flows,
        ``events`` (a flow that starts to move bytes or ends), ``reallocations``, ``regions``
        (those that were done in a part of the network) and flows ``touched`` by all of them.
        """
        clock = self._clock
        return {
            "flows": self.size,
            "groups": self.size - int(clock[allocator.GROUPED]),
            "unfinished": int(clock[allocator.UNFINISHED]),
            "events": int(clock[allocator.EVENTS]),
            "reallocations": int(clock[allocator.REALLOCATIONS]),
            "regions": int(clock[allocator.REGIONS]),
            "touched": int(clock[allocator.TOUCHED]),
        }

    @property
    def held_back(self) -> tuple[int, int]:
        """How many flows a tolerance made wait, and the longest of these waits in picoseconds."""
        clock = self._clock
        return int(clock[allocator.HELD_BACK]), int(clock[allocator.LONGEST_HELD])

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
        allocator.enqueue(self._tables, *columns, gates, kind_of, watched)
        return first

    def run(self) -> int:
        """Run until nothing is left; return the time of the last event in picoseconds."""
        self._refuse_endless(self._work(NEVER, allocator.ALL_EVENTS))
        return self.now_ps

    def run_until(self, t_ps: int) -> None:
        """Work off the events up to and including ``t_ps``, which is now afterwards.

        Raises
        ------
        FlowError
            For a time before now.
        """
        self._refuse_past(t_ps)
        self._work(int(t_ps), allocator.ALL_EVENTS)
        self._clock[allocator.NOW] = t_ps

    def next_event(self) -> int | None:
        """Return the time of the next event in picoseconds, None where nothing is left."""
        first = self._work(NEVER, allocator.NO_EVENT)
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
            self._refuse_endless(self._work(NEVER, allocator.WATCHED_END))
        else:
            self._work(int(limit_ps), allocator.WATCHED_END)
        n = self._clock[allocator.REPORTED]
        if limit_ps is not None and n == 0:
            self._clock[allocator.NOW] = limit_ps
        ended: NDArray[np.int64] = self._reported[:n].copy()
        if n > 1:
            ended.sort()
        return ended

    def unwatch(self) -> None:
        """Watch no flow any more of those that were posted so far."""
        self._engine.flows.watch[: self._clock[allocator.ROWS]] = 0

    def link_rate(self) -> NDArray[np.float64]:
        """Return what each link carries now, in bytes/s, shares counted; shape (links,)."""
        self.next_event()
        hop, flow = self._active_hops()
        return self._spread(hop, self._engine.flows.rate[flow])

    def link_bytes(self) -> NDArray[np.float64]:
        """Return what each link has carried so far, in bytes times share; shape (links,)."""
        self.next_event()
        hop, flow = self._active_hops()
        elapsed = (self.now_ps - self._engine.flows.since_ps[flow]) / allocator.PS_PER_S
        left = self._engine.flows.left[flow] - self._engine.flows.rate[flow] * elapsed
        carried = self._spread(hop, self._engine.flows.volume[flow] - np.maximum(left, 0.0))
        total: NDArray[np.float64] = carried + self._engine.links.bytes[:-1]
        return total

    def active(self) -> "Active":
        """Return the flows that move bytes now, with their rates and what holds each back."""
        self.next_event()
        if self._clock[allocator.DENSE] != 0:
            allocator.settle_dense(self._tables, tuple(self._dense))
        flows, hops = self._engine.flows, self._engine.hops
        first = np.sort(self._engine.lists.active[: self._clock[allocator.ACTIVE]])
        row, place = _with_equals(first, flows.equal)
        count = np.bincount(place, minlength=len(first))
        begin = flows.first_hop[first][place]
        length = flows.first_hop[first + 1][place] - begin
        hop_ptr = np.concatenate([[0], np.cumsum(length)])
        hop = np.arange(hop_ptr[-1]) + np.repeat(begin - hop_ptr[:-1], length)
        return Active(
            flow=flows.number[row],
            rate=flows.rate[first][place],
            weight=flows.weight[first][place],
            stopped_by=flows.stopped_by[first][place].astype(np.int64),
            hop_ptr=hop_ptr,
            link=hops.link[hop].astype(np.int64),
            share=hops.share[hop] / np.repeat(count[place], length),
        )

    def held_rate(self) -> NDArray[np.float64]:
        """Return the rate, in bytes/s, of the flows that each link holds back now.

        Shape (links + 1,): the last entry is that of the flows held back by caps of their own. A
        flow that shares a full link with others at one level is held back by one link alone.
        """
        self.next_event()
        if self._clock[allocator.DENSE] != 0:
            allocator.settle_dense(self._tables, tuple(self._dense))
        flows = self._engine.flows
        active = np.sort(self._engine.lists.active[: self._clock[allocator.ACTIVE]])
        by, equals = flows.stopped_by[active], np.bincount(_with_equals(active, flows.equal)[1])
        rate = flows.rate[active] * equals
        n = len(self._capacity)
        return np.bincount(np.where(by < 0, n, by), rate, n + 1).astype(np.float64, copy=False)

    def _active_hops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the hops of all active flows and the flow of each."""
        if self._engine.clock[allocator.DENSE] != 0:
            allocator.settle_dense(tuple(self._engine), tuple(self._dense))
        active = np.sort(self._engine.lists.active[: self._engine.clock[allocator.ACTIVE]])
        first = self._engine.flows.first_hop[active]
        count = self._engine.flows.first_hop[active + 1] - first
        flow = np.repeat(active, count)
        start = np.repeat(first - (np.cumsum(count) - count), count)
        return start + np.arange(len(flow)), flow.astype(np.int64)

    def _spread(self, hop: NDArray[np.int64], value: NDArray[Any]) -> NDArray[np.float64]:
        """Sum values times shares by link."""
        n = len(self._capacity)
        sums = np.bincount(
            self._engine.hops.link[hop], value * self._engine.hops.share[hop], minlength=n
        )
        return sums.astype(np.float64, copy=False)

    def _work(self, limit_ps: int, until: int) -> int:
        clock, tables = self._clock, self._tables
        while True:
            if clock[allocator.DENSE] == 0 and clock[allocator.WANTED] == 0:
                following = int(allocator.work(tables, limit_ps, until))
                if clock[allocator.WANTED] == 0:
                    return following
                self._dense = _matrix(
                    int(clock[allocator.WANTED]), int(clock[allocator.HOPS]), len(self._engine.hops)
                )
            following = int(allocator.work_dense(tables, tuple(self._dense), limit_ps, until))
            if clock[allocator.DENSE] != 0:
                return following
            self._dense = _matrix(0, 0, 0)

    def _refuse_endless(self, following: int) -> None:
        """Raise a FlowError where flows are left that no time of the clock can see end."""
        if following < NEVER or self._clock[allocator.UNFINISHED] == 0:
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
            of_kind = len(kind) and fault != WRONG_DEPENDENCY
            flow = first + (int((kind == row).argmax()) if of_kind else row)
            last = first + n - 1
            raise FlowError(fault_text(fault, flow, last, row, place, now, self._capacity, columns))
        if place and (row := flow_on_cycle(first, columns[7], columns[8])) >= 0:
            raise FlowError(
                f"flow {first + row} waits for itself through its dependencies; "
                "dependencies must not form a circle"
            )

    def _make_room(self, n_flows: int, n_hops: int, n_edges: int) -> None:
        """Clear out the rows of ended flows, or at least double what is too small."""
        engine, clock = self._engine, self._clock
        n = self.size + n_flows
        if n > len(engine.ends):
            ends = np.zeros(max(n, 2 * len(engine.ends)), np.int64)
            ends[: len(engine.ends)] = engine.ends
            engine = engine._replace(ends=ends)
        rows = int(clock[allocator.ROWS])
        if 2 * clock[allocator.UNFINISHED] < rows and clock[allocator.DENSE] == 0:
            allocator.clear_ended(tuple(engine))
        rows, hops, edges = self._used()
        if (n := rows + n_flows) >= len(engine.flows):
            room = max(n, 2 * len(engine.flows))
            engine = engine._replace(
                flows=_longer(engine.flows, room + 1, rows + 1),
                lists=_longer(engine.lists, room + 1, rows + 1),
                levels=_longer(engine.levels, 2 * (len(engine.links) + room), 0),
                blocks=_longer(engine.blocks, (room >> allocator.BLOCK_BITS) + 1),
            )
        if (n := hops + n_hops) > len(engine.hops):
            engine = engine._replace(hops=_longer(engine.hops, max(n, 2 * len(engine.hops)), hops))
        if (n := edges + n_edges) > len(engine.edges):
            room = max(n, 2 * len(engine.edges))
            engine = engine._replace(edges=_longer(engine.edges, room, edges))
        if self._clock[allocator.DENSE] != 0:
            self._dense = self._dense._replace(cells=_longer(self._dense.cells, len(engine.hops)))
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
        rows = int(self._clock[allocator.ROWS])
        return rows, int(self._first_hop[rows]), int(self._clock[allocator.EDGES_USED])


def _with_equals(
    first: NDArray[np.integer[Any]], next_equal: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return flows and those that they stand for, and the place in ``first`` of each."""
    at, place = first.astype(np.int64), np.arange(len(first))
    rows, places = [at], [place]
    while len(at):
        at = next_equal[at].astype(np.int64)
        at, place = at[at >= 0], place[at >= 0]
        rows.append(at)
        places.append(place)
    return np.concatenate(rows), np.concatenate(places)


def _matrix(n: int, active_hops: int, hops: int) -> Dense:
    """Return the tables of the dense regime for n links, and hops that are under way and in all."""
    snapshots = n // allocator.STRIDE + 2
    slots = active_hops + active_hops // 2 + allocator.SPARE_SLOTS * n
    return Dense(
        matrix=np.zeros((n, n), np.int16),
        reals=np.zeros((allocator.REALS, n)),
        whole=np.zeros((allocator.WHOLE, n + 1), np.int64),
        free=np.zeros((snapshots, n)),
        open=np.zeros((snapshots, n)),
        slot_hop=np.zeros(slots, np.int32),
        slot_row=np.zeros(slots, np.int32),
        slot_target=np.zeros(slots),
        slot_begin=np.zeros(slots, np.int32),
        slot_stop=np.zeros(slots, np.int32),
        cells=_rows(allocator.CELLS, hops),
    )


def _rows(columns: list[tuple[str, str]], n: int) -> Any:
    """Return a fresh table of n rows."""
    kind = np.dtype(columns, align=True)
    raw = np.zeros(n * kind.itemsize + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE  # no row spans more cache lines than it must
    return raw[first : first + n * kind.itemsize].view(kind).view(np.recarray)


def _longer(table: Any, n: int, used: int | None = None) -> Any:
    """Return a copy of a table with room for n rows."""
    longer = _rows([(name, table.dtype[name].str) for name in table.dtype.names], n)
    longer[: len(table)][:used] = table[:used]
    return longer
