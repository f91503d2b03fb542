"""Drives the tables: makes room in them, and hands them to the loop that is due.

There are two loops, the one of `loop` and that of the dense regime in `row_loop`; each says when
the other pays.
"""

import numpy as np
from numpy.typing import NDArray

from ubnet.posted_flows import PostedFlows

from . import loop, posting, row_loop, tables
from .equals import room_to_compare
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
        room = room_to_compare(flows.size)
        if not posting.enqueue(self._tables, *flows, *room):
            self._make_room(flows)
            posting.enqueue(self._tables, *flows, *room)

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

    def _make_room(self, flows: PostedFlows) -> None:
        """Clear out the rows of ended flows, or at least double a table, where one is too small."""
        engine = tables.with_room(self.engine, flows)
        if self.clock[PLACES["dense"]] != 0:
            cells = tables.longer(self._dense.cells, len(engine.hops))
            self._dense = self._dense._replace(cells=cells)
        self._take(engine)

    def _take(self, engine: Engine) -> None:
        """Take new tables, and keep at hand what every post and advance needs of them."""
        self.engine = engine
        engine.clock.level_room = len(engine.levels)
        self.clock: NDArray[np.int64] = engine.clock.view(np.int64, np.ndarray)
        self.reported: NDArray[np.int64] = np.asarray(engine.lists.reported)
        self._tables = tuple(engine)
