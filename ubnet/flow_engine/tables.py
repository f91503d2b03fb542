"""The flow engine's tables, as numpy makes them, and makes them longer."""

from typing import Any

import numpy as np

from . import clearing, state
from .rows import CELLS, ROWS, SLOTS, SPARE_SLOTS, STEPS, STRIDE, Dense
from .state import F8, PLACES, Engine

CACHE_LINE = 64
ROOM = 256  # flows that fresh tables take: clearing out what has ended pays for itself then


def fresh_engine(capacity: F8, tolerance: float) -> Engine:
    """Return the tables of a simulation without flows."""
    n = len(capacity)
    engine = Engine(
        clock=np.zeros(len(state.CLOCK), np.int64),
        flows=_rows(state.FLOWS, ROOM + 1),
        hops=_rows(state.HOPS_OF_FLOWS, 4 * ROOM),
        edges=_rows(state.EDGES, ROOM),
        links=_rows(state.LINKS, n + 1),
        lists=_rows(state.LISTS, ROOM + 1),
        levels=_rows(state.LEVELS, 2 * (n + ROOM)),
        recent=_rows(state.RECENT_INSTANTS, state.RECENT),
        blocks=_rows(state.BLOCKS, (ROOM >> state.BLOCK_BITS) + 1),
        ends=np.zeros(ROOM, np.int64),
    )
    engine.links.capacity[:n] = capacity
    engine.links.first_hop[:] = -1
    engine.recent.bucket[:] = -1
    engine.clock[PLACES["next_end"]] = state.NEVER
    engine.clock[PLACES["sweep"]] = 1
    engine.clock[PLACES["sums"]] = 1
    engine.clock[PLACES["tolerance"]] = round(tolerance * 1e9)
    return engine


def used_rows(engine: Engine) -> tuple[int, int, int]:
    """Return how many rows of flows, of hops and of edges are in use."""
    rows = int(engine.clock[PLACES["rows"]])
    return rows, int(engine.flows.first_hop[rows]), int(engine.clock[PLACES["edges_used"]])


def with_room(engine: Engine, n_flows: int, n_hops: int, n_edges: int) -> Engine:
    """Clear out the rows of ended flows, or at least double what is too small for so many more."""
    clock = engine.clock
    if (n := int(clock[PLACES["posted"]]) + n_flows) > len(engine.ends):
        ends = np.zeros(max(n, 2 * len(engine.ends)), np.int64)
        ends[: len(engine.ends)] = engine.ends
        engine = engine._replace(ends=ends)
    if 2 * clock[PLACES["unfinished"]] < clock[PLACES["rows"]] and clock[PLACES["dense"]] == 0:
        clearing.clear_ended(tuple(engine))
    rows, hops, edges = used_rows(engine)
    if (n := rows + n_flows) >= len(engine.flows):
        room = max(n, 2 * len(engine.flows))
        engine = engine._replace(
            flows=longer(engine.flows, room + 1, rows + 1),
            lists=longer(engine.lists, room + 1, rows + 1),
            levels=longer(engine.levels, 2 * (len(engine.links) + room), 0),
            blocks=longer(engine.blocks, (room >> state.BLOCK_BITS) + 1),
        )
    if (n := hops + n_hops) > len(engine.hops):
        engine = engine._replace(hops=longer(engine.hops, max(n, 2 * len(engine.hops)), hops))
    if (n := edges + n_edges) > len(engine.edges):
        engine = engine._replace(edges=longer(engine.edges, max(n, 2 * len(engine.edges)), edges))
    return engine


def dense_tables(n: int, active_hops: int, hops: int) -> Dense:
    """Return the tables of the dense regime for n links, and hops that are under way and in all."""
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
    more = _rows([(name, table.dtype[name].str) for name in table.dtype.names], n)
    more[: len(table)][:used] = table[:used]
    return more


def _rows(columns: list[tuple[str, str]], n: int) -> Any:
    """Return a fresh table of n rows."""
    kind = np.dtype(columns, align=True)
    raw = np.zeros(n * kind.itemsize + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE  # no row spans more cache lines than it must
    return raw[first : first + n * kind.itemsize].view(kind).view(np.recarray)
