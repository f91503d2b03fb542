"""When flows end that are all known from the start: the flow engine in one call."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.flowsim import FlowSim


def simulate_flows(
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
    tolerance: float = 0.0,
) -> NDArray[np.int64]:
    """Return when each flow ends, all sharing the links in weighted max-min fairness.

    Flow i is ready at the later of ``start_ps[i]`` and the last end of the flows it waits for;
    its bytes enter the network ``startup_ps[i]`` later and it ends when the last has arrived.

    Parameters
    ----------
    capacity : array of float, shape (links,)
        Bytes/s of each link (any resource that flows share).
    start_ps : array of int, shape (flows,), or one for all
        Picoseconds; 0 to 2**60, which is 13 days.
    nbytes : array of int, shape (flows,), or one for all
        A flow of zero bytes ends when it would enter the network.
    route_ptr, route_link : arrays of int
        Flow i crosses ``route_link[route_ptr[i]:route_ptr[i + 1]]``, each link once. An empty
        route takes no time, or ``nbytes / rate_cap``.
    route_share : array of float, same shape as route_link, optional
        At rate r a flow uses share times r of that link; > 0, may exceed 1, default 1.
    weight : array of float, optional
        Rates are compared divided by weights, between 1e-100 and 1e100; default 1.
    rate_cap : array of float, optional
        Bytes/s; inf (the default) for none.
    dep_ptr, dep : arrays of int, optional
        Flow i waits for the flows ``dep[dep_ptr[i]:dep_ptr[i + 1]]``.
    startup_ps : array of int, optional
        Picoseconds between ready and entering the network, at most 2**60; default 0.
    gate : array of bool, shape of ``dep``, or one for all, optional
        True: what is waited for holds back the bytes alone, while the start-up goes on: they
        enter the network when both are over. Default False.
    kind : array of int, shape (flows,), optional
        Where many flows are alike: which row of the columns above each flow has. What it waits for
        has a row for each flow in any case.
    tolerance : float, optional
        0 (the default) is exact; see `FlowSim`.

    Returns
    -------
    array of int64, shape (flows,)
        The ends in picoseconds, each rounded to the nearest.

    Raises
    ------
    FlowError
        For anything outside of the above, for flows that wait for each other in a circle, and for
        flows that would end so long after 2**60 ps that the clock cannot hold it.

    Examples
    --------
    Two flows of 1,000 bytes share a link of 1 GB/s; one of them is half the size:

    >>> simulate_flows([1e9], 0, [1000, 500], [0, 1, 2], [0, 0])
    array([1500000, 1000000])
    """
    sim = FlowSim(capacity, tolerance)
    sim.post(
        nbytes,
        route_ptr,
        route_link,
        route_share,
        start_ps=start_ps,
        weight=weight,
        rate_cap=rate_cap,
        dep_ptr=dep_ptr,
        dep=dep,
        startup_ps=startup_ps,
        gate=gate,
        kind=kind,
    )
    sim.run()
    return sim.finish_ps
