"""The flow engine: flows share links in weighted max-min fairness, in virtual time.

`simulate_flows` answers for a whole set of flows at once; `FlowSim` is the same engine by steps.
Its loop: take all events of this instant, apply them, re-allocate once, find the next finish.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet import allocator
from ubnet.allocator import NEVER, Dense, Engine
from ubnet.errors import FlowError
from ubnet.flowcheck import (
    fault_text,
    first_fault,
    flow_on_cycle,
    integers,
    pointers,
    reals,
)

CACHE_LINE = 64
# The values of fresh rows where they are not 0.
FRESH = {
    "finish_ps": -1,
    "position": -1,
    "first_edge": -1,
    "bucket": -1,
    "stopped_by": -1,
}


def simulate_flows(
    capacity: ArrayLike,
    start_ps: ArrayLike,
    nbytes: ArrayLike,
    route_ptr: ArrayLike,
    route_link: ArrayLike,
    route_share: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    rate_cap: ArrayLike | None = None,
    dep_ptr: ArrayLike | None = None,
    dep: ArrayLike | None = None,
    startup_ps: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Return when each flow ends, all sharing the links in weighted max-min fairness.

    Flow i is ready at the later of ``start_ps[i]`` and the last end of the flows it waits for;
    its bytes enter the network ``startup_ps[i]`` later and it ends when the last has arrived.

    Parameters
    ----------
    capacity : array of float, shape (links,)
        Bytes/s of each link (any resource that flows share).
    start_ps : array of int, shape (flows,), or one for all
        Picoseconds; 0 or later.
    nbytes : array of int, shape (flows,), or one for all
        A flow of zero bytes ends when it would enter the network.
    route_ptr, route_link : arrays of int
        Flow i crosses ``route_link[route_ptr[i]:route_ptr[i + 1]]``, each link once. An empty
        route takes no time, or ``nbytes / rate_cap``.
    route_share : array of float, same shape as route_link, optional
        At rate r a flow uses share times r of that link; > 0, may exceed 1, default 1.
    weight : array of float, optional
        Rates are compared divided by weights; default 1.
    rate_cap : array of float, optional
        Bytes/s; inf (the default) for none.
    dep_ptr, dep : arrays of int, optional
        Flow i waits for the flows ``dep[dep_ptr[i]:dep_ptr[i + 1]]``.
    startup_ps : array of int, optional
        Picoseconds between ready and entering the network; default 0.

    Returns
    -------
    array of int64, shape (flows,)
        The ends in picoseconds, each rounded to the nearest.

    Raises
    ------
    FlowError
        For anything outside of the above, and for flows that wait for each other in a circle.

    Examples
    --------
    Two flows of 1,000 bytes share a link of 1 GB/s; one of them is half the size:

    >>> simulate_flows([1e9], 0, [1000, 500], [0, 1, 2], [0, 0])
    array([1500000, 1000000])
    """
    sim = FlowSim(capacity)
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
    )
    sim.run()
    return sim.finish_ps


class FlowSim:
    """Flows on shared links, in virtual time, by steps.

    Parameters
    ----------
    capacity : array of float, shape (links,)
        Bytes/s of each link (any resource that flows share).

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

    def __init__(self, capacity: ArrayLike) -> None:
        rates = np.array(capacity, dtype=np.float64, ndmin=1)
        if rates.ndim != 1 or not (np.isfinite(rates) & (rates > 0)).all():
            raise FlowError("capacity must be a row of finite bytes/s > 0, one for each link")
        n = len(rates)
        self._engine = Engine(
            clock=np.zeros(allocator.CLOCK_FIELDS, np.int64),
            flows=_rows(allocator.FLOWS, 17),
            hops=_rows(allocator.HOPS_OF_FLOWS, 16),
            edges=_rows(allocator.EDGES, 16),
            links=_rows(allocator.LINKS, n + 1),
            lists=_rows(allocator.LISTS, 16),
            levels=_rows(allocator.LEVELS, n + 16),
            recent=_rows(allocator.RECENT_INSTANTS, allocator.RECENT),
            blocks=_rows(allocator.BLOCKS, 1),
        )
        self._capacity = rates
        self._engine.links.capacity[:n] = rates
        self._engine.links.first_hop[:] = -1
        self._engine.clock[allocator.NEXT_END] = NEVER
        self._engine.clock[allocator.REGION] = 1
        self._edges_used = 0
        self._dense = _matrix(0)

    def __repr__(self) -> str:
        return (
            f"FlowSim({len(self._capacity)} links): now {self.now_ps} ps, "
            f"{self.size} flows, {self.counters['unfinished']} unfinished"
        )

    @property
    def now_ps(self) -> int:
        """The virtual time in picoseconds."""
        return int(self._engine.clock[allocator.NOW])

    @property
    def size(self) -> int:
        """How many flows were posted, which is the id of the next."""
        return int(self._engine.clock[allocator.SIZE])

    @property
    def finish_ps(self) -> NDArray[np.int64]:
        """When each flow ended, int64 of shape (size,); -1 where it has not."""
        ends: NDArray[np.int64] = self._engine.flows.finish_ps[: self.size].copy()
        return ends

    @property
    def counters(self) -> dict[str, int]:
        """How much work was done: the same figures on every machine.

        ``flows`` posted, ``unfinished`` ones, ``events`` (a flow that starts to move bytes or
        ends), ``reallocations``, ``regions`` (those that were done in a part of the network) and
        flows ``touched`` by all of them.
        """
        clock = self._engine.clock
        return {
            "flows": self.size,
            "unfinished": int((self._engine.flows.finish_ps[: self.size] < 0).sum()),
            "events": int(clock[allocator.EVENTS]),
            "reallocations": int(clock[allocator.REALLOCATIONS]),
            "regions": int(clock[allocator.REGIONS]),
            "touched": int(clock[allocator.TOUCHED]),
        }

    def post(
        self,
        nbytes: ArrayLike,
        route_ptr: ArrayLike,
        route_link: ArrayLike,
        route_share: ArrayLike | None = None,
        *,
        start_ps: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        rate_cap: ArrayLike | None = None,
        dep_ptr: ArrayLike | None = None,
        dep: ArrayLike | None = None,
        startup_ps: ArrayLike | None = None,
        watch: ArrayLike | None = None,
    ) -> int:
        """Add flows; the parameters are those of `simulate_flows`, and two more.

        Parameters
        ----------
        nbytes, route_ptr, route_link, route_share, weight, rate_cap, startup_ps : arrays
            As in `simulate_flows`; ``route_ptr`` says how many flows there are.
        start_ps : array of int, optional
            Now or later; default now.
        dep_ptr, dep : arrays of int, optional
            Ids of flows to wait for: of any posted before, ended ones too, or of this post, where
            row i has the id ``size + i``.
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
        links = np.asarray(route_link)
        n_hops = links.size
        ptr = pointers("route_ptr", route_ptr, None, n_hops)
        n = len(ptr) - 1
        deps = np.asarray(() if dep is None else dep)
        columns: dict[str, Any] = {
            "capacity": self._capacity,
            "first": self.size,
            "now_ps": self.now_ps,
            "start_ps": integers("start_ps", self.now_ps if start_ps is None else start_ps, n),
            "nbytes": integers("nbytes", nbytes, n),
            "route_ptr": ptr,
            "route_link": integers("route_link", links, n_hops),
            "route_share": reals(
                "route_share", 1.0 if route_share is None else route_share, n_hops
            ),
            "weight": reals("weight", 1.0 if weight is None else weight, n),
            "rate_cap": reals("rate_cap", np.inf if rate_cap is None else rate_cap, n),
            "dep_ptr": pointers(
                "dep_ptr", [0] * (n + 1) if dep_ptr is None else dep_ptr, n, deps.size
            ),
            "dep": integers("dep", deps, deps.size),
            "startup_ps": integers("startup_ps", 0 if startup_ps is None else startup_ps, n),
        }
        self._refuse(columns)
        self._store(columns, False if watch is None else watch)
        return int(columns["first"])

    def run(self) -> int:
        """Run until nothing is left; return the time of the last event in picoseconds."""
        self._work(NEVER, allocator.ALL_EVENTS)
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
        self._engine.clock[allocator.NOW] = t_ps

    def next_event(self) -> int | None:
        """Return the time of the next event in picoseconds, None where nothing is left."""
        first = self._work(NEVER, allocator.NO_EVENT)
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
        self._work(NEVER if limit_ps is None else int(limit_ps), allocator.WATCHED_END)
        if limit_ps is not None and self._engine.clock[allocator.REPORTED] == 0:
            self._engine.clock[allocator.NOW] = limit_ps
        ended = self._engine.lists.reported[: self._engine.clock[allocator.REPORTED]]
        return np.sort(ended.astype(np.int64))

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
        clock, engine = self._engine.clock, tuple(self._engine)
        while True:
            if clock[allocator.DENSE] == 0 and clock[allocator.WANTED] == 0:
                following = int(allocator.work(engine, limit_ps, until))
                if clock[allocator.WANTED] == 0:
                    return following
                self._dense = _matrix(int(clock[allocator.WANTED]))
            following = int(allocator.work_dense(engine, tuple(self._dense), limit_ps, until))
            if clock[allocator.DENSE] != 0:
                return following
            self._dense = _matrix(0)

    def _refuse_past(self, t_ps: int) -> None:
        if t_ps < self.now_ps:
            raise FlowError(f"{t_ps} ps is before now ({self.now_ps} ps); time only goes on")

    def _refuse(self, columns: dict[str, Any]) -> None:
        """Raise a FlowError where a post is faulty."""
        fault, row, place = first_fault(**columns)
        first = columns["first"]
        if fault:
            raise FlowError(fault_text(fault, first, row, place, columns))
        if place and (row := flow_on_cycle(first, columns["dep_ptr"], columns["dep"])) >= 0:
            raise FlowError(
                f"flow {first + row} waits for itself through its dependencies; "
                "dependencies must not form a circle"
            )

    def _store(self, columns: dict[str, Any], watch: ArrayLike) -> None:
        """Write the columns of a post behind the others and queue its flows."""
        first, n = columns["first"], len(columns["nbytes"])
        hop = int(self._engine.flows.first_hop[first])
        n_hops = len(columns["route_link"])
        self._grow(first + n, hop + n_hops, self._edges_used + len(columns["dep"]))
        flows, hops = self._engine.flows, self._engine.hops
        rows = slice(first, first + n)
        hops.link[hop : hop + n_hops] = columns["route_link"]
        hops.share[hop : hop + n_hops] = columns["route_share"]
        flows.first_hop[first + 1 : first + n + 1] = hop + columns["route_ptr"][1:]
        flows.volume[rows] = flows.left[rows] = columns["nbytes"]
        flows.since_ps[rows] = columns["start_ps"]
        flows.startup_ps[rows] = columns["startup_ps"]
        flows.weight[rows] = columns["weight"]
        flows.cap[rows] = columns["rate_cap"]
        flows.watch[rows] = np.asarray(watch, bool)
        used = allocator.enqueue(
            tuple(self._engine), columns["dep_ptr"], columns["dep"], self._edges_used
        )
        self._edges_used = int(used)

    def _grow(self, n_flows: int, n_hops: int, n_edges: int) -> None:
        """Make room, at least doubling what is too small."""
        engine = self._engine
        if n_flows >= len(engine.flows):
            room = max(n_flows, 2 * len(engine.flows))
            engine = engine._replace(
                flows=_longer(engine.flows, room + 1),
                lists=_longer(engine.lists, room + 1),
                levels=_longer(engine.levels, len(engine.links) + room),
                blocks=_longer(engine.blocks, (room >> allocator.BLOCK_BITS) + 1),
            )
        if n_hops > len(engine.hops):
            engine = engine._replace(hops=_longer(engine.hops, max(n_hops, 2 * len(engine.hops))))
        if n_edges > len(engine.edges):
            room = max(n_edges, 2 * len(engine.edges))
            engine = engine._replace(edges=_longer(engine.edges, room))
        self._engine = engine


def _matrix(n: int) -> Dense:
    """Return the tables of the dense regime for n links."""
    snapshots = n // allocator.STRIDE + 2
    return Dense(
        matrix=np.zeros((n, n), np.float32),
        reals=np.zeros((allocator.REALS, n)),
        whole=np.zeros((allocator.WHOLE, n + 1), np.int64),
        free=np.zeros((snapshots, n)),
        open=np.zeros((snapshots, n)),
    )


def _rows(columns: list[tuple[str, str]], n: int) -> Any:
    """Return a fresh table of n rows."""
    kind = np.dtype(columns, align=True)
    raw = np.zeros(n * kind.itemsize + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE  # no row spans more cache lines than it must
    table = raw[first : first + n * kind.itemsize].view(kind).view(np.recarray)
    for name, _ in columns:
        if name in FRESH:
            table[name] = FRESH[name]
    return table


def _longer(table: Any, n: int) -> Any:
    """Return a copy of a table with room for n rows."""
    longer = _rows([(name, table.dtype[name].str) for name in table.dtype.names], n)
    longer[: len(table)] = table
    return longer
