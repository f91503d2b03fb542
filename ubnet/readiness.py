"""Which flows of a schedule can start when only some of its ranks have come."""

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import kernel

Ints = NDArray[np.int64]


@kernel
def ready_flows(
    dep_ptr: Ints, dep: Ints, flow_ranks: Ints, here: NDArray[np.bool_], posted: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which flows can start: their ranks are here, what they wait for can start or has.

    Parameters
    ----------
    dep_ptr, dep : ndarray of int64
        The flows that each flow waits for, in compressed rows.
    flow_ranks : ndarray of int64, shape (flows, 2)
        The two ranks that each flow needs.
    here : ndarray of bool, shape (ranks,)
        The ranks that have arrived.
    posted : ndarray of bool, shape (flows,)
        The flows that have been posted before.
    """
    flows = len(posted)
    waits = np.zeros(flows, dtype=np.int64)
    followers = np.zeros(flows + 1, dtype=np.int64)
    for flow in range(flows):
        for k in range(dep_ptr[flow], dep_ptr[flow + 1]):
            followers[dep[k] + 1] += 1
            if not posted[dep[k]]:
                waits[flow] += 1
    for flow in range(flows):
        followers[flow + 1] += followers[flow]
    follower = np.empty(len(dep), dtype=np.int64)
    place = followers[:-1].copy()
    for flow in range(flows):
        for k in range(dep_ptr[flow], dep_ptr[flow + 1]):
            follower[place[dep[k]]] = flow
            place[dep[k]] += 1
    ready = np.zeros(flows, dtype=np.bool_)
    stack = np.empty(flows, dtype=np.int64)
    height = 0
    for flow in range(flows):
        present = here[flow_ranks[flow, 0]] and here[flow_ranks[flow, 1]]
        if waits[flow] == 0 and present and not posted[flow]:
            stack[height] = flow
            height += 1
    while height > 0:
        height -= 1
        flow = stack[height]
        ready[flow] = True
        for k in range(followers[flow], followers[flow + 1]):
            other = follower[k]
            waits[other] -= 1
            present = here[flow_ranks[other, 0]] and here[flow_ranks[other, 1]]
            if waits[other] == 0 and present and not posted[other]:
                stack[height] = other
                height += 1
    return ready
