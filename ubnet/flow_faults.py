"""What is wrong with flows that are posted, and where: a refused post changes nothing.

The kernels return the kind of the first fault and the row it is in; the sentences are made here.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import FlowError
from ubnet.jit import between, borrowing_kernel, first_row, of_row, upto
from ubnet.posted_flows import PostedFlows

I8 = NDArray[np.int64]
F8 = NDArray[np.float64]

HORIZON_PS = 1 << 60
"""The latest start and the longest start-up, 13 days: so no sum of times leaves 64 bits."""

FAULTS = {
    1: "{who} has {nbytes} bytes; sizes are integers >= 0",
    2: "{who} starts at {start_ps} ps, before now ({now_ps} ps); start it at now or later",
    3: "{who} has weight {weight}; weights lie between 1e-100 and 1e100 (default 1)",
    4: "{who} has rate cap {rate_cap}; caps are bytes/s > 0, inf for none",
    5: "{who} has a start-up of {startup_ps} ps; start-ups are integers >= 0",
    6: "{who} crosses link {link}; links here are 0 to {last_link}",
    7: "{who} has share {share} of link {link}; shares are finite and > 0 (default 1)",
    8: "{who} crosses link {link} twice; a link stands once in a route: add up its shares",
    9: "{who} waits for flow {dep}; it can wait for flows 0 to {last_flow}, itself excepted",
    10: "{who} starts at {start_ps} ps; the clock takes starts up to {horizon_ps} ps",
    11: "{who} has a start-up of {startup_ps} ps; the longest is {horizon_ps} ps, 13 days",
}
WRONG_DEPENDENCY = 9  # the one of them that a flow's own columns have no part in


def too_long(flow: int) -> FlowError:
    """Return the refusal of a flow that no time of the clock can see end."""
    return FlowError(
        f"flow {flow} would end after {HORIZON_PS} ps (13 days of virtual time): give fewer "
        "bytes, or links and caps that carry more"
    )


@borrowing_kernel
def first_fault(
    capacity: F8,
    seen: I8,
    stamp: int,
    first: int,
    now_ps: int,
    start_ps: I8,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    route_share: F8,
    weight: F8,
    rate_cap: F8,
    dep_ptr: I8,
    dep: I8,
    startup_ps: I8,
) -> tuple[int, int, int]:
    """Return (fault, row, place) of the first fault, or (0, -1, forward dependencies).

    A column of one row stands for all flows; dependencies have a row for each flow, the others may
    have one for each kind. ``seen`` keeps the stamp of the row that crossed each link last; those
    from ``stamp`` on are of this post.
    """
    n, links = len(route_ptr) - 1, len(capacity)
    begin, stop, crossed = first_row(route_ptr), first_row(route_link), first_row(seen)
    forward = 0
    for k in upto(n):
        start, startup = of_row(start_ps, k), of_row(startup_ps, k)
        if of_row(nbytes, k) < 0:
            return 1, k, 0
        if start < now_ps:
            return 2, k, 0
        if not (1e-100 < of_row(weight, k) < 1e100):
            return 3, k, 0
        if not of_row(rate_cap, k) > 0.0:
            return 4, k, 0
        if startup < 0:
            return 5, k, 0
        if start > HORIZON_PS:
            return 10, k, 0
        if startup > HORIZON_PS:
            return 11, k, 0
        for h in between(begin[k], begin[k + 1]):
            link = stop[h]
            if not 0 <= link < links:
                return 6, k, h
            if not (0.0 < of_row(route_share, h) < np.inf):
                return 7, k, h
            if crossed[link] == stamp + k:
                return 8, k, h
            crossed[link] = stamp + k
    flows, first_dep, before = len(dep_ptr) - 1, first_row(dep_ptr), first_row(dep)
    for k in upto(flows):
        for j in between(first_dep[k], first_dep[k + 1]):
            if not 0 <= before[j] < first + flows or before[j] == first + k:
                return WRONG_DEPENDENCY, k, j
            if before[j] > first + k:
                forward += 1
    return 0, -1, forward


def flow_on_cycle(first: int, dep_ptr: I8, dep: I8) -> int:
    """Return a row of this post that waits for itself in the end, or -1."""
    by_flow = [np.zeros(len(dep_ptr) - 1, np.int64) for _ in range(3)]
    by_edge = [np.zeros(len(dep) + 1, np.int64) for _ in range(2)]  # edges count from 1
    return int(_follow(first, dep_ptr, dep, *by_flow, *by_edge))


@borrowing_kernel
def _follow(
    first: int,
    dep_ptr: I8,
    dep: I8,
    pending: I8,
    edge_of: I8,
    ready: I8,
    edge_next: I8,
    waiter: I8,
) -> int:
    """Do as `flow_on_cycle` in zeros that it is given: end all that can, and look what is left."""
    n = len(dep_ptr) - 1
    for k in upto(n):
        for j in between(dep_ptr[k], dep_ptr[k + 1]):
            before = dep[j] - first
            waiter[j + 1] = k
            if before >= 0:
                pending[k] += 1
                edge_next[j + 1] = edge_of[before]
                edge_of[before] = j + 1
    count = 0
    for k in upto(n):
        if pending[k] == 0:
            ready[count] = k
            count += 1
    done = 0
    while done < count:
        j = edge_of[ready[done]]
        done += 1
        while j > 0:
            pending[waiter[j]] -= 1
            if pending[waiter[j]] == 0:
                ready[count] = waiter[j]
                count += 1
            j = edge_next[j]
    at = -1
    for k in upto(n):
        if pending[k] > 0:
            at = k
            break
    if at < 0:
        return -1
    for _ in upto(n):  # every flow left waits for one left: n steps back end on a cycle
        for j in between(dep_ptr[at], dep_ptr[at + 1]):
            before = dep[j] - first
            if before >= 0 and pending[before] > 0:
                at = before
                break
    return at


def refuse_faulty(
    flows: PostedFlows, capacity: F8, seen: I8, stamp: int, first: int, now_ps: int
) -> None:
    """Refuse flows that no run can take; the first of them gets the id ``first``.

    Raises
    ------
    FlowError
        With a sentence about the first fault, or about flows that wait for each other in a circle.
    """
    fault, row, place = first_fault(capacity, seen, stamp, first, now_ps, *flows[:10])
    if fault:
        facts = _facts(flows, fault, row, place)
        facts["who"] = _who(flows.kind, fault, row, first)
        facts["last_flow"], facts["last_link"] = first + flows.size - 1, len(capacity) - 1
        facts["now_ps"], facts["horizon_ps"] = now_ps, HORIZON_PS
        raise FlowError(FAULTS[fault].format(**facts))
    if place and (row := flow_on_cycle(first, flows.dep_ptr, flows.dep)) >= 0:
        raise FlowError(
            f"flow {first + row} waits for itself through its dependencies; "
            "dependencies must not form a circle"
        )


def _who(kind: NDArray[np.int32], fault: int, row: int, first: int) -> str:
    """Name the first flow that has a row, or the row itself where no flow has it."""
    if len(kind) == 0 or fault == WRONG_DEPENDENCY:
        return f"flow {first + row}"
    having = np.flatnonzero(kind == row)
    return f"flow {first + having[0]}" if len(having) else f"row {row} of the columns"


def _facts(flows: PostedFlows, fault: int, row: int, place: int) -> dict[str, Any]:
    """Return what the columns say there, by the names of the sentences."""
    named = {
        "start_ps": flows.start_ps,
        "nbytes": flows.nbytes,
        "weight": flows.weight,
        "rate_cap": flows.rate_cap,
        "startup_ps": flows.startup_ps,
    }
    facts = {name: column[min(row, len(column) - 1)] for name, column in named.items()}
    if fault in (6, 7, 8):
        facts["link"] = flows.route_link[place]
        facts["share"] = flows.route_share[min(place, len(flows.route_share) - 1)]
    if fault == WRONG_DEPENDENCY:
        facts["dep"] = flows.dep[place]
    return facts
