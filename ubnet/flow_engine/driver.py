"""Drives the tables: makes room in them, and hands them to the loop that is due.

There are two loops, the one of `loop` and that of the dense regime in `row_loop`; each says when
the other pays.
"""

import numpy as np
from numpy.typing import NDArray

from ubnet.posted_flows import PostedFlows

from . import loop, posting, row_loop, tables
from .state import F8, PLACES, Engine


class Driver:
    """The tables of a simulation, which grow, and its clock.

    Attributes
    ----------
    engine : Engine
        The tables as they are now.
    clock : array of int64
        What the places of `ubnet.flow_engine.state` say; the same array all along.
    reported : array of int64
        The numbers of flows whose ends the last `work` reports.
    """

    def __init__(self, capacity: F8, tolerance: float) -> None:
        self._dense = tables.dense_tables(0, 0, 0)
        self._take(tables.fresh_engine(capacity, tolerance))

    def post(self, flows: PostedFlows) -> None:
        """Write flows, which were checked, behind the others."""
        self._make_room(flows.size, flows.hops, len(flows.dep))
        posting.enqueue(self._tables, *flows)

    def work(self, limit_ps: int, until: int) -> int:
        """Work off events up to a time, as far as ``until`` says; return when the next is due."""
        clock, engine = self.clock, self._tables
        while True:
            if clock[PLACES["dense"]] == 0 and clock[PLACES["wanted"]] == 0:
                following = int(loop.work(engine, limit_ps, until))
                if clock[PLACES["wanted"]] == 0:
                    return following
                self._dense = tables.dense_tables(
                    int(clock[PLACES["wanted"]]), int(clock[PLACES["hops"]]), len(self.engine.hops)
                )
            following = int(row_loop.work_dense(engine, tuple(self._dense), limit_ps, until))
            if clock[PLACES["dense"]] != 0:
                return following
            self._dense = tables.dense_tables(0, 0, 0)

    def settle(self) -> None:
        """Write each flow's rate and bytes left, which the dense regime keeps, in its own row."""
        if self.clock[PLACES["dense"]] != 0:
            row_loop.settle_dense(self._tables, tuple(self._dense))

    def _make_room(self, n_flows: int, n_hops: int, n_edges: int) -> None:
        """Clear out the rows of ended flows, or at least double a table, where one is too small."""
        rows = int(self.clock[PLACES["rows"]])
        for_flows, for_hops, for_edges, for_ends = self._room
        if (
            rows + n_flows < for_flows
            and self._first_hop[rows] + n_hops <= for_hops
            and self.clock[PLACES["edges_used"]] + n_edges <= for_edges
            and self.clock[PLACES["posted"]] + n_flows <= for_ends
        ):
            return
        engine = tables.with_room(self.engine, n_flows, n_hops, n_edges)
        if self.clock[PLACES["dense"]] != 0:
            cells = tables.longer(self._dense.cells, len(engine.hops))
            self._dense = self._dense._replace(cells=cells)
        self._take(engine)

    def _take(self, engine: Engine) -> None:
        """Take new tables, and keep at hand what every post and advance needs of them."""
        self.engine = engine
        self.clock = engine.clock
        self.reported: NDArray[np.int64] = np.asarray(engine.lists.reported)
        self._tables = tuple(engine)
        self._first_hop = np.asarray(engine.flows.first_hop)
        self._room = (len(engine.flows), len(engine.hops), len(engine.edges), len(engine.ends))
