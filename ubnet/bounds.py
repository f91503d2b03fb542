"""What no allocation can beat: the busiest resource, and the longest chain of flows that wait.

The engine is checked against these. Ends are whole picoseconds: where flows follow each other, each
may end half a picosecond early, and a makespan lie below the bounds by that. More would be a bug.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.column import capacities
from ubnet.compressed_rows import owners
from ubnet.fabric import Floats, Ints
from ubnet.flow_faults import HORIZON_PS, refuse_faulty, too_long
from ubnet.jit import between, borrowing_kernel, greater, lesser, upto
from ubnet.posted_flows import PostedFlows
from ubnet.units import PS_PER_S

NEVER_PS = 4 * HORIZON_PS
"""Where the engine's clock ends, and with it every chain."""


class Bounds(NamedTuple):
    """Lower bounds of a makespan, in picoseconds.

    Attributes
    ----------
    busiest_ps : int
        The largest over all links: bytes times share over capacity, after the first start among
        the flows that use it.
    link : int
        That link, -1 where no bytes move.
    chain_ps : int
        The end of the longest chain of flows that wait for each other, each as fast as its own
        cap and links let it be alone.
    """

    busiest_ps: int
    link: int
    chain_ps: int

    @property
    def ps(self) -> int:
        """The larger of the two."""
        return max(self.busiest_ps, self.chain_ps)


def lower_bounds(
    capacity: "ArrayLike",
    start_ps: "ArrayLike",
    nbytes: "ArrayLike",
    route_ptr: "ArrayLike",
    route_link: "ArrayLike",
    route_share: "ArrayLike | None" = None,
    weight: "ArrayLike | None" = None,
    rate_cap: "ArrayLike | None" = None,
    dep_ptr: "ArrayLike | None" = None,
    dep: "ArrayLike | None" = None,
    startup_ps: "ArrayLike | None" = None,
    *,
    gate: "ArrayLike | None" = None,
    kind: "ArrayLike | None" = None,
) -> Bounds:
    """Return what the makespan of flows is at least; the arguments are `simulate_flows`'.

    Raises
    ------
    FlowError
        As `simulate_flows` does.

    Examples
    --------
    Two flows of 1,000 bytes on a link of 1 GB/s, the second after the first:

    >>> lower_bounds([1e9], 0, [1000, 1000], [0, 1, 2], [0, 0], dep_ptr=[0, 0, 1], dep=[0])
    Bounds(busiest_ps=2000000, link=0, chain_ps=2000000)
    """
    rates = capacities(capacity)
    flows = PostedFlows.read(
        start_ps,
        nbytes,
        route_ptr,
        route_link,
        route_share,
        weight,
        rate_cap,
        dep_ptr,
        dep,
        startup_ps,
        gate,
        kind,
    )
    refuse_faulty(flows, rates, np.zeros(len(rates), np.int64), stamp=1, first=0, now_ps=0)
    flows = flows.in_full()
    link, share, flow = flows.route_link, flows.route_share, owners(flows.route_ptr)
    alone = flows.rate_cap.copy()
    moving = np.zeros(len(alone))
    with np.errstate(over="ignore", divide="ignore"):  # what becomes endless is refused below
        np.minimum.at(alone, flow, rates[link] / share)
        np.divide(flows.nbytes, alone, out=moving, where=flows.nbytes > 0)
        moving *= PS_PER_S
    if moving.max(initial=0.0) > HORIZON_PS:
        raise too_long(int((moving > HORIZON_PS).argmax()))
    entry = flows.start_ps + flows.startup_ps
    waits = (flows.dep_ptr, flows.dep, flows.gate)
    by_flow = [np.zeros(len(entry), np.int64) for _ in range(3)]
    by_edge = [np.zeros(len(flows.dep), np.int64) for _ in range(2)]
    end = entry.copy()
    follow_chains(end, flows.startup_ps, moving, *waits, *by_flow, *by_edge)
    if end.max(initial=0) >= NEVER_PS:
        raise too_long(int((end >= NEVER_PS).argmax()))
    busiest, which = _busiest(rates, link, flow, share, flows.nbytes, entry)
    return Bounds(busiest, which, int(end.max(initial=0)))


def _busiest(
    rates: Floats, link: Ints, flow: Ints, share: Floats, size: Ints, entry: Ints
) -> tuple[int, int]:
    """Return when the link that is busy longest is done at the earliest, and the link."""
    need = np.bincount(link, size[flow] * share, len(rates)) / rates * PS_PER_S
    if not need.any():
        return 0, -1
    first = np.full(len(rates), np.iinfo(np.int64).max)
    used = size[flow] > 0
    np.minimum.at(first, link[used], entry[flow[used]])
    done = np.where(need > 0, first + need, 0.0)
    which = int((done >= done.max() * (1 - 1e-12)).argmax())
    return int(done[which]), which


@borrowing_kernel
def follow_chains(
    end: NDArray[np.int64],
    startup_ps: NDArray[np.int64],
    moving_ps: NDArray[np.float64],
    dep_ptr: NDArray[np.int64],
    dep: NDArray[np.int64],
    gate: NDArray[np.bool_],
    pending: NDArray[np.int64],
    first_waiter: NDArray[np.int64],
    order: NDArray[np.int64],
    next_waiter: NDArray[np.int64],
    waiter: NDArray[np.int64],
) -> None:
    """Find when each flow ends at the earliest, rounded down; dependencies have no circle.

    ``end`` says when each could enter the network if it waited for no other; the last five are
    zeros to work in, three of them a flow, two a dependency. All that end at `NEVER_PS` or later
    end then, lest sums leave 64 bits.
    """
    n = len(end)
    for i in upto(n):
        first_waiter[i] = -1
    for i in upto(n):
        for j in between(dep_ptr[i], dep_ptr[i + 1]):
            waiter[j] = i
            next_waiter[j] = first_waiter[dep[j]]
            first_waiter[dep[j]] = j
            pending[i] += 1
    known = 0
    for i in upto(n):
        if pending[i] == 0:
            order[known] = i
            known += 1
    at = 0
    while at < known:
        i = order[at]
        at += 1
        end[i] = lesser(end[i] + np.int64(moving_ps[i]), NEVER_PS)
        j = first_waiter[i]
        while j >= 0:
            k = waiter[j]
            end[k] = greater(end[k], end[i] if gate[j] else end[i] + startup_ps[k])
            pending[k] -= 1
            if pending[k] == 0:
                order[known] = k
                known += 1
            j = next_waiter[j]
