"""Drives the tables: makes room in them, and hands them to the kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.column import BEHAVED
from ubnet.errors import FlowError
from ubnet.jit import hand_over
from ubnet.posted_flows import PostedFlows

from . import loop, posting, row_regime, tables
from .equals import room_to_compare
from .rows import DENSE_ROWS, Dense
from .state import ENGINE_ROWS, F8, PLACES, ROOMS, Engine

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

    engine: Engine
    clock: NDArray[np.int64]
    reported: NDArray[np.int64]
    _dense: Dense
    _where: Any
    _where_dense: Any

    def __init__(self, capacity: F8, tolerance: float) -> None:
        self._take_dense(NO_DENSE)
        self._take(tables.fresh_engine(capacity, tolerance))

    def __getstate__(self) -> tuple[Engine, Dense]:
        """Return what a copy is made of: its kernels must look for tables where its own lie."""
        return self.engine, self._dense

    def __setstate__(self, state: tuple[Engine, Dense]) -> None:
        """Begin with copies of another one's tables.

        Kernels write wherever these lie, also to what may only be read (a file that is mapped, a
        pickle's own bytes): of such tables copies are made.

        Raises
        ------
        FlowError
            For tables of another version of ubnet, whose rows are others.
        """
        engine, dense = state
        if _rows_of(engine) != ENGINE_ROWS or _rows_of(dense) != DENSE_ROWS:
            raise FlowError(
                "this copy of a simulation is of another version of ubnet, whose tables have other "
                "columns; post its flows to a FlowSim of this version"
            )
        self._take_dense(Dense(*map(_to_write, dense)))
        self._take(Engine(*map(_to_write, engine)))

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
        """Take new tables; note where they lie, how long they are, and what is read of them.

        All at once, and their lengths last: an interrupt from the keyboard must leave no kernel to
        look for tables where there are none any more.
        """
        vars(self).update(
            engine=engine,
            clock=engine.clock.view(np.int64, np.ndarray),
            reported=np.asarray(engine.lists.reported),
            _where=hand_over(engine),
        )
        for table, room in ROOMS.items():
            engine.clock[0][room] = len(getattr(engine, table))

    def _take_dense(self, dense: Dense) -> None:
        """Take new tables of the dense regime, and note where they lie, at once as well."""
        vars(self).update(_dense=dense, _where_dense=hand_over(dense))


def _rows_of(given: Engine | Dense) -> tuple[Any, ...]:
    """Return what a row of each table is."""
    return tuple(table.dtype for table in given)


def _to_write(table: Any) -> Any:
    """Return a table, or a copy of one that must not be written to where it lies."""
    return np.require(table, requirements=BEHAVED)
