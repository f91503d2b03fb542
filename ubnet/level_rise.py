"""How the rates of a max-min allocation change with the capacities of its links.

Flows of one level are held back by links that are full at that level. Where a flow crosses several
such links, the one whose level gains least is what holds it back next: so, within a level, what the
levels gain is again a max-min allocation, of the gain in capacity that lower flows leave.
"""

import numpy as np
from numpy.typing import NDArray

from ubnet.flow_engine.moving import Active
from ubnet.jit import inner_kernel, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SAME = 1e-9  # levels closer than this, relatively, are one; a link fuller than 1 less this is full


def rate_rise(active: Active, capacity: Floats, more: Floats) -> Floats:
    """Return what each flow's rate gains while these flows share the links so.

    Parameters
    ----------
    active : Active
        The flows and their rates.
    capacity : ndarray of float64, shape (links,)
        Bytes/s.
    more : ndarray of float64, shape (links, cases)
        What each link's capacity gains, in each case.

    Returns
    -------
    ndarray of float64, shape (flows, cases)

    Examples
    --------
    One link is shared by two flows; the second crosses another link that is just full, too:

    >>> flows = Active(np.arange(2), np.ones(2), np.ones(2), np.zeros(2, np.int64),
    ...                np.array([0, 1, 3]), np.array([0, 0, 1]), np.ones(3))
    >>> rate_rise(flows, np.array([2.0, 1.0]), np.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    rise = np.zeros((more.shape[1], len(active.flow)))
    _rise(
        active.rate,
        active.weight,
        active.stopped_by,
        active.hop_ptr,
        active.link,
        active.share,
        capacity,
        more.T,
        rise,
    )
    return rise.T


@kernel
def _rise(
    rate: Floats,
    flow_weight: Floats,
    stopped_by: Ints,
    hop_ptr: Ints,
    hop_link: Ints,
    hop_share: Floats,
    capacity: Floats,
    more: Floats,
    rise: Floats,
) -> None:
    """Write what each flow's rate gains in each case; `more` and `rise` have a row a case."""
    links = len(capacity)
    level, hop_weight = np.zeros(len(rate)), np.zeros(len(hop_link))
    used, top = np.zeros(links), np.zeros(links)  # top: the highest level of a link's flows
    link_ptr = np.zeros(links + 1, np.int64)
    for flow in range(len(rate)):
        level[flow] = rate[flow] / flow_weight[flow]
        for h in range(hop_ptr[flow], hop_ptr[flow + 1]):
            link = hop_link[h]
            hop_weight[h] = hop_share[h] * flow_weight[flow]
            used[link] += hop_share[h] * rate[flow]
            top[link] = max(top[link], level[flow])
            link_ptr[link + 1] += 1
    for link in range(links):
        link_ptr[link + 1] += link_ptr[link]
        if used[link] < capacity[link] * (1 - SAME):
            top[link] = np.inf  # it holds nobody back
    link_flow, at = np.zeros(len(hop_link), np.int64), link_ptr[:-1].copy()
    for flow in range(len(rate)):
        for h in range(hop_ptr[flow], hop_ptr[flow + 1]):
            link_flow[at[hop_link[h]]] = flow
            at[hop_link[h]] += 1
    order = np.argsort(level, kind="mergesort")
    for case in range(len(more)):
        gain, rest = rise[case], more[case].copy()
        _rise_in_order(
            order, level, stopped_by, hop_ptr, hop_link, hop_weight, link_ptr, link_flow, top, rest,
            gain,
        )  # fmt: skip
        for flow in range(len(rate)):
            gain[flow] *= flow_weight[flow]


@kernel
def _rise_in_order(
    order: Ints,
    level: Floats,
    stopped_by: Ints,
    hop_ptr: Ints,
    hop_link: Ints,
    hop_weight: Floats,
    link_ptr: Ints,
    link_flow: Ints,
    top: Floats,
    rest: Floats,
    rise: Floats,
) -> None:
    """Write what each flow's level gains, from the lowest level up; ``rest`` is used up."""
    weight_left, count_left = np.zeros(len(top)), np.zeros(len(top), np.int64)
    links = np.zeros(len(top), np.int64)
    is_open = np.zeros(len(level), np.bool_)
    begin = 0
    while begin < len(order):
        end, highest = begin, level[order[begin]] * (1 + SAME)
        while end < len(order) and level[order[end]] <= highest:
            is_open[order[end]] = True
            end += 1
        n = 0  # links that are full at this level
        for k in range(begin, end):
            for h in range(hop_ptr[order[k]], hop_ptr[order[k] + 1]):
                link = hop_link[h]
                if top[link] <= highest * (1 + SAME):
                    if count_left[link] == 0:
                        links[n] = link
                        n += 1
                        weight_left[link] = 0.0
                    weight_left[link] += hop_weight[h]
                    count_left[link] += 1
        for k in range(begin, end):
            if stopped_by[order[k]] < 0:  # by its own cap
                is_open[order[k]] = False
                _settle(order[k], 0.0, hop_ptr, hop_link, hop_weight, weight_left, count_left, rest)
        while True:
            best, least = np.int64(-1), np.inf
            for link in links[:n]:
                if count_left[link] > 0 and rest[link] < least * weight_left[link]:
                    best, least = link, rest[link] / weight_left[link]
            if best < 0:
                break
            for k in range(link_ptr[best], link_ptr[best + 1]):
                flow = link_flow[k]
                if is_open[flow]:
                    is_open[flow] = False
                    rise[flow] = least
                    _settle(
                        flow, least, hop_ptr, hop_link, hop_weight, weight_left, count_left, rest
                    )
        begin = end


@inner_kernel
def _settle(
    flow: int,
    gain: float,
    hop_ptr: Ints,
    hop_link: Ints,
    hop_weight: Floats,
    weight_left: Floats,
    count_left: Ints,
    rest: Floats,
) -> None:
    """Take a flow whose level gains so much out of its links."""
    for h in range(hop_ptr[flow], hop_ptr[flow + 1]):
        rest[hop_link[h]] -= gain * hop_weight[h]
        weight_left[hop_link[h]] -= hop_weight[h]
        count_left[hop_link[h]] = max(0, count_left[hop_link[h]] - 1)
