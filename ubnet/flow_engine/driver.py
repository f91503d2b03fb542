"""Drives the tables: makes room in them, and hands them to the kernels."""

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import hand_over
from ubnet.posted_flows import PostedFlows

from . import loop, posting, row_regime, tables
from .equals import room_to_compare
from .rows import Dense
from .state import F8, PLACES, ROOMS, Engine

NO_DENSE = tables.dense_tables(0, 0, 0)


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
        self._take_dense(NO_DENSE)
        self._take(tables.fresh_engine(capacity, tolerance))

    def __getstate__(self) -> tuple[Engine, Dense]:
        """Return what a copy is made of: its kernels must look for tables where its own lie."""
        return self.engine, self._dense

    def __setstate__(self, state: tuple[Engine, Dense]) -> None:
        """Begin with copies of another one's tables."""
        engine, dense = state
        self._take_dense(dense)
        self._take(engine)

    def post(self, flows: PostedFlows) -> None:
        """Write flows, which were checked, behind the others."""
        room = room_to_compare(flows.size)
        if not posting.enqueue(self._where, *flows, *room):
            self._make_room(flows)
            posting.enqueue(self._where, *flows, *room)

    def work(self, limit_ps: int, until: int) -> int:
        """Work off events up to a time, as far as ``until`` says; return when the next is due."""
        clock = self.clock
        while True:
            if clock[PLACES["wanted"]] != 0:
                columns, hops = int(clock[PLACES["wanted"]]), int(clock[PLACES["hops"]])
                self._take_dense(tables.dense_tables(columns, hops, len(self.engine.hops)))
            following = loop.work(self._where, self._where_dense, limit_ps, until)
            if clock[PLACES["wanted"]] == 0:
                break
        if self._dense is not NO_DENSE and clock[PLACES["dense"]] == 0:
            self._take_dense(NO_DENSE)
        return int(following)

    def settle(self) -> None:
        """Write each flow's rate and bytes left, which the dense regime keeps, in its own row."""
        if self.clock[PLACES["dense"]] != 0:
            row_regime.settle_dense(self._where, self._where_dense)

    def _make_room(self, flows: PostedFlows) -> None:
        """Clear out the rows of ended flows, or at least double a table, where one is too small."""
        engine = tables.with_room(self.engine, flows)
        if self.clock[PLACES["dense"]] != 0:
            cells = tables.longer(self._dense.cells, len(engine.hops))
            self._take_dense(self._dense._replace(cells=cells))
        self._take(engine)

    def _take(self, engine: Engine) -> None:
        """Take new tables; note where they lie, how long they are, and what is read of them."""
        self.engine = engine
        for table, room in ROOMS.items():
            engine.clock[0][room] = len(getattr(engine, table))
        self.clock: NDArray[np.int64] = engine.clock.view(np.int64, np.ndarray)
        self.reported: NDArray[np.int64] = np.asarray(engine.lists.reported)
        self._where = hand_over(engine)

    def _take_dense(self, dense: Dense) -> None:
        """Take new tables of the dense regime."""
        self._dense = dense
        self._where_dense = hand_over(dense)
