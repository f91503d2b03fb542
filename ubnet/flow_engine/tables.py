"""The flow engine's tables, as numpy makes them, and makes them longer."""

from typing import Any

import numpy as np

from ubnet.posted_flows import PostedFlows

from . import clearing, state
from .blocks import BITS
from .free_rows import ROOM_A_HOP
from .rows import CELLS, ROWS, SLOTS, SPARE_SLOTS, STEPS, STRIDE, Dense
from .state import F8, Engine

CACHE_LINE = 64
ROOM = 256  # flows that fresh tables take: clearing out what has ended pays for itself then


def fresh_engine(capacity: F8, tolerance: float) -> Engine:
    """Return the tables of a simulation without flows."""
    n = len(capacity)
    engine = Engine(
        clock=_rows(state.CLOCK, 1),
        posted=_rows(state.POSTED, ROOM),
        kinds=_rows(state.KINDS, ROOM),
        routes=_rows(state.ROUTES, 4 * ROOM),
        flows=_rows(state.FLOWS, 2 * state.SIZES_OF_ROOM),
        hops=_rows(state.HOPS_OF_FLOWS, ROOM),
        edges=_rows(state.EDGES, ROOM),
        links=_rows(state.LINKS, n + 1),
        lists=_rows(state.LISTS, ROOM + 1),
        levels=_rows(state.LEVELS, 2 * (n + ROOM)),
        recent=_rows(state.RECENT_INSTANTS, state.RECENT),
        due_ps=np.zeros(ROOM + 1, np.int64),
        first_ps=np.zeros(ROOM + 1, np.int64),
        unknown=np.zeros(ROOM + 1, np.int64),
        ends=np.zeros(ROOM, np.int64),
    )
    engine.links.capacity[:n] = capacity
    engine.links.first_hop[:] = -1
    engine.recent.bucket[:] = -1
    engine.clock.links = n
    engine.clock.next_end = state.NEVER
    engine.clock.sweep = 1
    engine.clock.sums = 1
    engine.clock.tolerance = round(tolerance * 1e9)
    return engine


def with_room(engine: Engine, posted: PostedFlows) -> Engine:
    """Clear out what is over, and at least double each table that is too small for more flows."""
    clock, n_flows = engine.clock[0], posted.size
    # Most flows have ended, or most kinds are of none: columns that a post had more of than flows.
    if 2 * clock.unfinished < clock.rows or 2 * clock.rows < clock.kind_rows:
        clearing.clear_ended(engine)
    needed = {  # rows in use, and how many more there must be
        "posted": (clock.rows, n_flows),
        "kinds": (clock.kind_rows, len(posted.route_ptr) - 1),
        "routes": (clock.route_rows, len(posted.route_link)),
        "edges": (clock.edges_used, len(posted.dep)),
        "flows": (clock.flow_rows, clock.to_come + n_flows),
        "hops": (clock.hop_rows, clock.hops_to_come + n_flows + ROOM_A_HOP * posted.hops),
        "ends": (clock.posted, n_flows),
    }
    for name, (used, more) in needed.items():
        table = getattr(engine, name)
        if used + more > len(table):
            room = max(int(used + more), 2 * len(table))
            used = max(int(used), state.SIZES_OF_ROOM)  # rows that are free hang on the first ones
            engine = engine._replace(**{name: longer(table, room, used)})
    least = max(len(engine.posted), len(engine.flows)) + 1
    if least > len(engine.lists):
        blocks = (int(clock.active) >> BITS) + 1
        engine = engine._replace(
            lists=longer(engine.lists, least, int(clock.rows)),
            levels=longer(engine.levels, 2 * (len(engine.links) + least), 0),
            due_ps=longer(engine.due_ps, least, int(clock.active)),
            first_ps=longer(engine.first_ps, least, blocks),
            unknown=longer(engine.unknown, least, int(clock.unknown_blocks)),
        )
    return engine


def dense_tables(n: int, active_hops: int, hops: int) -> Dense:
    """Return the tables of the dense regime for n links, hops under way and rows of hops."""
    snapshots = n // STRIDE + 2
    slots = active_hops + active_hops // 2 + SPARE_SLOTS * n
    return Dense(
        matrix=np.zeros((n, n), np.int16),
        free=np.zeros(n),
        rising=np.zeros(n, np.int32),
        slack=np.zeros(n),
        rows=_rows(ROWS, n + 1),
        place=np.zeros(n + 1, np.int32),
        steps=_rows(STEPS, n + 1),
        free_then=np.zeros((snapshots, n)),
        rising_then=np.zeros((snapshots, n), np.int32),
        slots=_rows(SLOTS, slots),
        cells=_rows(CELLS, hops),
    )


def longer(table: Any, n: int, used: int | None = None) -> Any:
    """Return a copy of a table, or of the rows that are used, with room for n rows."""
    more = np.zeros(n, table.dtype) if table.dtype.names is None else _rows(table.dtype, n)
    more[: len(table)][:used] = table[:used]
    return more


def _rows(columns: Any, n: int) -> Any:
    """Return a fresh table of n rows."""
    kind = np.dtype(columns, align=True)
    raw = np.zeros(n * kind.itemsize + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE  # no row spans more cache lines than it must
    return raw[first : first + n * kind.itemsize].view(kind).view(np.recarray)
