"""Weighted max-min rates by linear programs: progressive filling with scipy's HiGHS as judge.

Raise the common level of all open flows as far as the links allow; a flow that cannot go above
it in any allocation that gives the others at least their level is stopped there; repeat.
"""

import numpy as np
from scipy.optimize import linprog

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def lp_rates(capacity, ptr, link, share, weight, cap):
    """Return the max-min rates of flows that are all active; every flow has a route or a cap."""
    n = len(ptr) - 1
    capacity = np.asarray(capacity, float)
    scale = capacity.max()
    use = np.zeros((len(capacity), n))
    flow = np.repeat(np.arange(n), np.diff(ptr))
    use[link, flow] = np.asarray(share) * np.asarray(weight)[flow]
    room = capacity / scale  # the variables are rates divided by weights, in units of `scale`
    top = np.asarray(cap) / np.asarray(weight) / scale
    level = np.full(n, np.nan)
    while np.isnan(level).any():
        is_open = np.isnan(level)
        common = _raise(use, room, top, level, is_open)
        for i in np.flatnonzero(is_open):
            if _highest(use, room, top, level, is_open, common, i) <= common * (1 + 1e-6):
                level[i] = common
        assert np.isnan(level).sum() < is_open.sum(), "no flow was stopped"
    return level * scale * np.asarray(weight)


def _raise(use, room, top, level, is_open):
    """Return the highest level that all open flows can have at once."""
    fixed = use[:, ~is_open] @ level[~is_open]
    open_use = use[:, is_open].sum(1)
    a = np.concatenate([open_use, np.ones(is_open.sum())])[:, None]
    b = np.concatenate([room - fixed, top[is_open]])
    keep = np.isfinite(b)
    found = linprog(
        [-1.0], A_ub=a[keep], b_ub=np.maximum(b[keep], 0), method="highs", options=TIGHT
    )
    assert found.status == 0
    return found.x[0]


def _highest(use, room, top, level, is_open, common, i):
    """Return the highest level of flow i while all open flows have the common one at least."""
    low = np.where(is_open, common * (1 - 1e-9), level * (1 - 1e-9))
    high = np.where(is_open, top * (1 + 1e-9), level)
    goal = np.zeros(len(level))
    goal[i] = -1
    bounds = [(a, None if np.isinf(b) else b) for a, b in zip(low, high, strict=True)]
    found = linprog(
        goal, A_ub=use, b_ub=room * (1 + 1e-9), bounds=bounds, method="highs", options=TIGHT
    )
    assert found.status == 0
    return found.x[i]
