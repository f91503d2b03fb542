"""A program of flows and delays that wait for each other, built stage by stage and run at once."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ubnet.fabric import Floats, Ints
from ubnet.flow_ends import simulate_flows
from ubnet.flow_kinds import FlowKinds
from ubnet.schedule_flows import ScheduleFlows
from ubnet.timing import lower_bound
from ubnet.transport import FlowColumns

Group = tuple[Ints, Ints]
"""Ids that ranks wait for: the rank that waits and the id, one a row."""


class FlowProgram:
    """Collects the stages of an operator on some ranks; `run` simulates them in one call.

    Parameters
    ----------
    ranks : int
        Number of ranks.

    Examples
    --------
    Two ranks take 5 and 6 ps, then wait for each other and take 7 ps more:

    >>> program = FlowProgram(2)
    >>> first = program.meet([5, 6])
    >>> last = program.meet(7, (np.array([0, 0, 1, 1]), first[[0, 1, 0, 1]]))
    >>> program.run(np.array([1e9]))[last].tolist()
    [13, 13]
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.size = 0
        self._columns: list[FlowColumns] = []
        self._delays: list[Ints] = []
        self._weights: list[Floats] = []
        self._waits: list[Ints] = []
        self._deps: list[Ints] = []

    def send(
        self,
        columns: FlowColumns,
        rank: Ints,
        after: Ints | None = None,
        delay_ps: ArrayLike = 0,
        weight: ArrayLike = 1.0,
    ) -> Ints:
        """Add flows; those of rank r wait for ``after[r]`` and for `delay_ps` more.

        Parameters
        ----------
        columns : FlowColumns
            The flows.
        rank : ndarray of int64, shape (flows,)
            The rank that sends each.
        after : ndarray of int64, shape (ranks,), optional
            An id for every rank; default: they wait for nothing.
        delay_ps : array_like of int
            Picoseconds.
        weight : array_like of float
            Weight of each flow where it shares a resource.

        Returns
        -------
        ndarray of int64, shape (flows,)
            Their ids.
        """
        deps = np.zeros(0, dtype=np.int64) if after is None else after[rank]
        waits = np.full(len(rank), 0 if after is None else 1)
        return self._add(columns, waits, deps, delay_ps, weight)

    def meet(self, duration_ps: ArrayLike, *groups: Group) -> Ints:
        """Let every rank wait for all ids that the groups name for it, then `duration_ps` more.

        Parameters
        ----------
        duration_ps : array_like of int, shape (ranks,) or ()
            Picoseconds in which no link is used.
        *groups : pair of ndarray of int64
            The ranks that wait, and the ids that they wait for.

        Returns
        -------
        ndarray of int64, shape (ranks,)
            An id for every rank.
        """
        return self._wait(self.ranks, duration_ps, groups)

    def both(self, one: Ints, other: Ints) -> Ints:
        """Return ids that end when those of both arrays have ended, one by one."""
        each = np.arange(len(one))
        return self._wait(len(one), 0, [(each, one), (each, other)])

    def run(self, capacity: Floats) -> Ints:
        """Simulate everything from time 0 on; return the end of each id in picoseconds."""
        whole = self._whole()
        return simulate_flows(
            capacity,
            0,
            whole.nbytes,
            whole.route_ptr,
            whole.route_link,
            whole.route_share,
            weight=np.concatenate(self._weights),
            rate_cap=whole.rate_cap,
            dep_ptr=np.concatenate([[0], np.cumsum(np.concatenate(self._waits))]),
            dep=np.concatenate(self._deps),
            startup_ps=whole.startup_ps + np.concatenate(self._delays),
        )

    def schedule_flows(self, done_flow: Ints) -> ScheduleFlows:
        """Return everything as the flows of a schedule, to be posted by whoever has an engine.

        The last stage must be a `meet`: it is the end of every rank. All ranks must have arrived
        before the first flow is posted.

        Parameters
        ----------
        done_flow : ndarray of int64, shape (operations,)
            The id with which each operation of the schedule has ended.
        """
        whole, dep = self._whole(), np.concatenate(self._deps)
        nobody = np.zeros(self.size - self.ranks, dtype=np.int64)
        columns = replace(whole, startup_ps=whole.startup_ps + np.concatenate(self._delays))
        return ScheduleFlows(
            FlowKinds(columns, np.arange(self.size, dtype=np.int32), np.concatenate(self._weights)),
            np.concatenate([[0], np.cumsum(np.concatenate(self._waits))]),
            dep,
            np.zeros(len(dep), dtype=bool),
            operations=self.size - self.ranks,
            passes=0,
            done_flow=done_flow,
            op_ranks=(nobody, nobody),
            pass_rank=nobody[:0],
        )

    def loads(self, resources: int) -> Floats:
        """Return bytes times share of all stages on every resource, shape (resources,)."""
        return FlowKinds.each(self._whole()).resource_bytes(resources)

    def bound(self, capacity: Floats) -> tuple[int, int]:
        """Return the least time in picoseconds by `ubnet.timing.lower_bound`, and its resource."""
        return lower_bound(self._whole(), self.loads(len(capacity)), capacity)

    def _wait(self, count: int, duration_ps: ArrayLike, groups: Sequence[Group]) -> Ints:
        """Add waits that use no link: number i waits for what the groups name for it."""
        none = np.zeros(0, dtype=np.int64)
        owner = np.concatenate([none, *(group[0] for group in groups)])
        ids = np.concatenate([none, *(group[1] for group in groups)])
        waits = np.bincount(owner, minlength=count)
        zero, ptr = np.zeros(count, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
        idle = FlowColumns(zero, zero, ptr, none, np.zeros(0), np.full(count, np.inf), zero)
        return self._add(idle, waits, ids[np.argsort(owner, kind="stable")], duration_ps)

    def _add(
        self,
        columns: FlowColumns,
        waits: Ints,
        deps: Ints,
        delay_ps: ArrayLike,
        weight: ArrayLike = 1.0,
    ) -> Ints:
        self._columns.append(columns)
        self._weights.append(np.broadcast_to(np.asarray(weight, dtype=np.float64), len(waits)))
        self._delays.append(np.broadcast_to(np.asarray(delay_ps, dtype=np.int64), len(waits)))
        self._waits.append(waits)
        self._deps.append(deps)
        self.size += len(waits)
        return np.arange(self.size - len(waits), self.size)

    def _whole(self) -> FlowColumns:
        """Return all stages as one, put in the place of the single ones."""
        parts = self._columns
        if len(parts) > 1:
            self._columns = [FlowColumns.joined(parts)]
        return self._columns[0]
