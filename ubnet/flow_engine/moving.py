"""What moves at an instant: the active flows, their rates and what holds them back."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import state
from .state import I8, Engine


class Active(NamedTuple):
    """Flows that move bytes; their routes are ragged rows, as in `ubnet.simulate_flows`."""

    flow: NDArray[np.int64]  # ids
    rate: NDArray[np.float64]  # bytes/s
    weight: NDArray[np.float64]
    stopped_by: NDArray[np.int64]  # the full link that holds the flow back, -1: its own cap
    hop_ptr: NDArray[np.int64]
    link: NDArray[np.int64]
    share: NDArray[np.float64]


def active_flows(engine: Engine) -> Active:
    """Return all active flows, those that another one stands for as well."""
    flows, hops = engine.flows, engine.hops
    first = _active_rows(engine)
    row, place = _with_equals(flows.posted[first], engine.posted.equal)
    count = np.bincount(place, minlength=len(first))
    begin = flows.first_hop[first][place]
    length = flows.end_hop[first][place] - begin
    hop_ptr = np.concatenate([[0], np.cumsum(length)])
    hop = np.arange(hop_ptr[-1]) + np.repeat(begin - hop_ptr[:-1], length)
    return Active(
        flow=engine.posted.number[row],
        rate=flows.rate[first][place],
        weight=flows.weight[first][place],
        stopped_by=flows.stopped_by[first][place].astype(np.int64),
        hop_ptr=hop_ptr,
        link=hops.link[hop].astype(np.int64),
        share=hops.share[hop] / np.repeat(count[place], length),
    )


def held_rate(engine: Engine) -> NDArray[np.float64]:
    """Return the rate of the flows that each link holds back, last of those that caps hold back."""
    flows, n = engine.flows, len(engine.links) - 1
    active = _active_rows(engine)
    by, rows = flows.stopped_by[active], flows.posted[active]
    rate = flows.rate[active] * np.bincount(_with_equals(rows, engine.posted.equal)[1])
    return np.bincount(np.where(by < 0, n, by), rate, n + 1).astype(np.float64, copy=False)


def link_rate(engine: Engine) -> NDArray[np.float64]:
    """Return what each link carries, in bytes/s, shares counted."""
    hop, flow = _active_hops(engine)
    return _spread(engine, hop, engine.flows.rate[flow])


def link_bytes(engine: Engine) -> NDArray[np.float64]:
    """Return what each link has carried so far, in bytes times share."""
    flows = engine.flows
    hop, flow = _active_hops(engine)
    elapsed = (engine.clock[0].now - flows.since_ps[flow]) / state.PS_PER_S
    left = flows.left[flow] - flows.rate[flow] * elapsed
    carried = _spread(engine, hop, flows.volume[flow] - np.maximum(left, 0.0))
    total: NDArray[np.float64] = carried + engine.links.bytes[:-1]
    return total


def _active_rows(engine: Engine) -> Any:
    """Return the active flows in the order of their numbers."""
    active = engine.lists.active[: engine.clock[0].active]
    return active[np.argsort(engine.flows.posted[active])]


def _active_hops(engine: Engine) -> tuple[I8, I8]:
    """Return the hops of all active flows and the flow of each."""
    active = _active_rows(engine)
    first = engine.flows.first_hop[active]
    count = engine.flows.end_hop[active] - first
    flow = np.repeat(active, count)
    start = np.repeat(first - (np.cumsum(count) - count), count)
    return start + np.arange(len(flow)), flow.astype(np.int64)


def _spread(engine: Engine, hop: I8, value: NDArray[Any]) -> NDArray[np.float64]:
    """Sum values times shares by link."""
    sums = np.bincount(
        engine.hops.link[hop], value * engine.hops.share[hop], minlength=len(engine.links) - 1
    )
    return sums.astype(np.float64, copy=False)


def _with_equals(first: NDArray[np.integer[Any]], next_equal: NDArray[np.int32]) -> tuple[I8, I8]:
    """Return flows and those that they stand for, and the place in ``first`` of each."""
    at, place = first.astype(np.int64), np.arange(len(first))
    rows, places = [at], [place]
    while len(at):
        at = next_equal[at].astype(np.int64)
        at, place = at[at >= 0], place[at >= 0]
        rows.append(at)
        places.append(place)
    return np.concatenate(rows), np.concatenate(places)
