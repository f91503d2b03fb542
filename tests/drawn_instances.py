"""Small instances of flows as Hypothesis draws and shrinks them, shown as the call to repeat."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

LINKS = 5
ALL_LINKS = (1 << LINKS) - 1


def one_of(*values):
    """Draw one of these; the first is the simplest, and what is listed twice comes more often."""
    return st.sampled_from(values)


class Flow(NamedTuple):
    """What is drawn of a flow; routes, waits and gates are sets, written as bits of a number."""

    route: int
    nbytes: int
    start_ps: int
    weight: float
    rate_cap: float
    startup_ps: int
    route_share: float
    waits: int
    gates: int = 0  # which of these hold back its bytes alone


FLOW = st.tuples(
    st.integers(1, ALL_LINKS),
    st.one_of(one_of(1000, 1000, 2000, 0, 3), st.integers(0, 2_000_000)),
    st.one_of(one_of(0, 0, 500_000, 1_000_000), st.integers(0, 3_000_000_000)),
    one_of(1.0, 1.0, 3.0, 0.25, 7.7),
    one_of(np.inf, np.inf, 1e8, 5e8, 123_456_789.0, 2e9),
    one_of(0, 0, 250_000, 1_000_000, 1),
    one_of(1.0, 1.0, 0.5, 0.125, 1 / 7, 137 / 135, 2.0),
    one_of(0, 0, 1, 2, 3, 5, 8, 16, 33),
    one_of(0, 0, 1, 2, 3),
)
PLAIN_FLOW = st.tuples(
    *(st.integers(1, ALL_LINKS), one_of(1000, 2000, 0, 3), one_of(0, 500_000)),
    *(st.just(value) for value in (1.0, np.inf, 0, 1.0)),
    one_of(0, 0, 1, 2, 3, 5),
)
CAPACITY = st.lists(one_of(1e9, 1e9, 2e9, 5e8, 1.37e9, 3.7e8, 4e9), min_size=LINKS, max_size=LINKS)


class Instance:
    """The arguments of a call of `simulate_flows`; columns that hold only defaults are left out.

    Every flow that is drawn stands for ``copies`` that wait for the same, each ``growth`` bytes
    larger than the one before; backwards, flows wait for later ones.
    """

    def __init__(self, capacity, drawn, backwards=False, copies=1, growth=0):
        drawn = [Flow(*flow) for flow in drawn]
        n = len(drawn)
        sizes = [f.nbytes + growth * c for f in drawn for c in range(copies)]
        flows = [f for f in drawn for _ in range(copies)]
        routes = [[k for k in range(LINKS) if f.route >> k & 1] for f in flows]
        shares = [f.route_share for f, route in zip(flows, routes, strict=True) for _ in route]
        before = [_waited_for(i, f.waits, copies) for i, f in enumerate(drawn)]
        before = [waits for waits in before for _ in range(copies)]
        if backwards:
            last = n * copies - 1
            flows, sizes, routes, shares = flows[::-1], sizes[::-1], routes[::-1], shares[::-1]
            before = [[last - k for k in waits] for waits in before[::-1]]
        self.arguments = {
            "capacity": np.array(capacity),
            "start_ps": np.array([f.start_ps for f in flows]),
            "nbytes": np.array(sizes),
            "route_ptr": pointers(routes),
            "route_link": np.array([k for route in routes for k in route]),
        }
        self._add("route_share", shares, 1.0)
        for name, default in (("weight", 1.0), ("rate_cap", np.inf), ("startup_ps", 0)):
            self._add(name, [getattr(f, name) for f in flows], default)
        if any(before):
            self.arguments["dep_ptr"] = pointers(before)
            self.arguments["dep"] = np.array([k for waits in before for k in waits])
            gates = [
                f.gates >> (k // copies) & 1 == 1
                for f, waits in zip(flows, before, strict=True)
                for k in range(len(waits))
            ]
            self._add("gate", gates, False)

    def _add(self, name, column, default):
        if any(value != default for value in column):
            self.arguments[name] = np.array(column)

    def __repr__(self):
        given = (f"{name}={column.tolist()}" for name, column in self.arguments.items())
        return f"simulate_flows({', '.join(given)})"


def pointers(rows):
    """Return where each of these rows begins, and where the last ends."""
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)


def _waited_for(i, bits, copies):
    """Return the flows that copies of the i-th wait for: all copies of those that are named."""
    named = [i - 1 - back for back in range(i) if bits >> back & 1]
    return [copies * k + c for k in named for c in range(copies)]


def instances(most=9):
    """Draw up to so many flows of all kinds, or of few kinds, so that many are equal."""
    drawn = st.one_of(
        st.lists(FLOW, min_size=1, max_size=most), st.lists(PLAIN_FLOW, min_size=1, max_size=most)
    )
    return st.builds(Instance, CAPACITY, drawn, st.booleans())


def crowds():
    """Draw flows that stand for forty each, enough for the rows of the dense regime."""
    flow = st.tuples(
        *(st.integers(1, ALL_LINKS), st.integers(0, 50_000)),
        st.one_of(st.just(0), st.integers(0, 500_000_000)),
        *(one_of(*[default] * 9, odd) for default, odd in ((1.0, 3.0), (np.inf, 1e8))),
        *(st.just(0), st.just(1.0), one_of(*[0] * 5, 1)),
    )
    drawn = st.lists(flow, min_size=4, max_size=8)
    return st.builds(Instance, CAPACITY, drawn, st.booleans(), st.just(40), one_of(1000, 0, 777))


def moments():
    """Draw flows that all move bytes from time 0 on."""
    flow = st.tuples(
        *(st.integers(1, ALL_LINKS), st.just(10**9), st.just(0)),
        *(one_of(1.0, 0.5, 3.0, 7.7), one_of(np.inf, np.inf, 1e8, 2.5e8)),
        *(st.just(0), one_of(1.0, 0.25, 1 / 7, 2.0), st.just(0)),
    )
    return st.builds(Instance, CAPACITY, st.lists(flow, min_size=1, max_size=6))
