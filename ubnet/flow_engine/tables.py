"""The flow engine's tables, as numpy makes them, and makes them longer."""

from typing import Any

import numpy as np

from ubnet.posted_flows import PostedFlows

from . import clearing, state
from .blocks import BITS
from .free_rows import ROOM_A_HOP
from .rows import DENSE_ROWS, SPARE_SLOTS, STRIDE, Dense
from .state import F8, Engine

CACHE_LINE = 64
ROOM = 256  # flows that fresh tables take: clearing out what has ended pays for itself then


def fresh_engine(capacity: F8, tolerance: float) -> Engine:
    """Return the tables of a simulation without flows."""
    n = len(capacity)
    lengths = Engine(
        clock=1,
        posted=ROOM,
        kinds=ROOM,
        routes=4 * ROOM,
        flows=2 * state.SIZES_OF_ROOM,
        hops=ROOM,
        edges=ROOM,
        links=n + 1,
        lists=ROOM + 1,
        levels=2 * (n + ROOM),
        recent=state.RECENT,
        due_ps=ROOM + 1,
        first_ps=ROOM + 1,
        unknown=ROOM + 1,
        ends=ROOM,
    )
    engine = Engine(*map(_rows, state.ENGINE_ROWS, lengths))
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
    lengths = Dense(
        matrix=n * n,
        free=n,
        rising=n,
        slack=n,
        rows=n + 1,
        place=n + 1,
        steps=n + 1,
        free_then=snapshots * n,
        rising_then=snapshots * n,
        slots=active_hops + active_hops // 2 + SPARE_SLOTS * n,
        cells=hops,
    )
    return Dense(*map(_rows, DENSE_ROWS, lengths))


def longer(table: Any, n: int, used: int | None = None) -> Any:
    """Return a copy of a table, or of the rows that are used, with room for n rows."""
    more = _rows(table.dtype, n)
    more[: len(table)][:used] = table[:used]
    return more


def _rows(kind: Any, n: int) -> Any:
    """Return a fresh table or column of n rows, given what a row is."""
    raw = np.zeros(n * kind.itemsize + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE  # no row spans more cache lines than it must
    rows = raw[first : first + n * kind.itemsize].view(kind)
    return rows if kind.names is None else rows.view(np.recarray)
