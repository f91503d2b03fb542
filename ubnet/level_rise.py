"""How the rates of a max-min allocation change with the capacities of its links.

Flows of one level are held back by links that are full at that level. Where a flow crosses several
such links, the one whose level gains least is what holds it back next: so, within a level, what the
levels gain is again a max-min allocation, of the gain in capacity that lower flows leave.
"""

import numpy as np
from numpy.typing import NDArray

from ubnet.flowsim import Active
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
    flows, links = len(active.flow), len(capacity)
    level = active.rate / active.weight
    flow = np.repeat(np.arange(flows), np.diff(active.hop_ptr))
    weight = active.share * active.weight[flow]
    used = np.bincount(active.link, active.share * active.rate[flow], minlength=links)
    top = np.zeros(links)  # of a link's flows
    np.maximum.at(top, active.link, level[flow])
    top[used < capacity * (1 - SAME)] = np.inf  # it holds nobody back
    by_link = np.argsort(active.link, kind="stable")
    link_ptr = np.searchsorted(active.link[by_link], np.arange(links + 1))
    rise = np.zeros((more.shape[1], flows))
    for case in range(more.shape[1]):
        _rise_in_order(
            np.argsort(level, kind="stable"),
            level,
            active.stopped_by < 0,
            active.hop_ptr,
            active.link,
            weight,
            link_ptr,
            flow[by_link],
            top,
            more[:, case].copy(),
            rise[case],
        )
    return rise.T * active.weight[:, None]


@kernel
def _rise_in_order(
    order: Ints,
    level: Floats,
    is_capped: NDArray[np.bool_],
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
            if is_capped[order[k]]:
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
