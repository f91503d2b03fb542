"""The slow obvious twin of the flow engine: refill everything at each event, round by round.

Plain loops over arrays, so that Numba can compile it as it stands: bench/ takes it as yardstick.
"""

from functools import cache

import numpy as np

PS_PER_S = 1e12
ROUND_UP = 0.5 + 3.1e-4  # the engine's rule for ends that lie on half a picosecond
FAR = 1 << 62


def allocate(capacity, active, ptr, link, share, weight, cap, of_ptr, of_flow, rate):
    """Set ``rate`` of the active flows: raise all, stop those that a full link or a cap stops.

    ``of_flow[of_ptr[k]:of_ptr[k + 1]]`` are the flows, active or not, that cross link k.
    """
    free = capacity.copy()
    open_weight = np.zeros(len(capacity))
    open_count = np.zeros(len(capacity), np.int64)
    is_open = active.copy()
    capped_flows = np.zeros(len(active), np.int64)
    n_open, n_capped = 0, 0
    for i in range(len(active)):
        if active[i]:
            n_open += 1
            if cap[i] < np.inf:
                capped_flows[n_capped] = i
                n_capped += 1
            for h in range(ptr[i], ptr[i + 1]):
                open_weight[link[h]] += share[h] * weight[i]
                open_count[link[h]] += 1
    while n_open > 0:
        level, tight, capped = np.inf, -1, -1
        for k in range(len(capacity)):
            if open_count[k] > 0 and free[k] < level * open_weight[k]:
                level, tight = free[k] / open_weight[k], k
        for k in range(n_capped):
            i = capped_flows[k]
            if is_open[i] and cap[i] / weight[i] < level:
                level, capped = cap[i] / weight[i], i
        level = max(level, 0.0)
        first, end = 0, 1
        if capped < 0:
            first, end = of_ptr[tight], of_ptr[tight + 1]
        for k in range(first, end):
            i = of_flow[k] if capped < 0 else capped
            if is_open[i]:
                is_open[i] = False
                n_open -= 1
                rate[i] = min(level * weight[i], cap[i])
                for h in range(ptr[i], ptr[i + 1]):
                    free[link[h]] -= rate[i] * share[h]
                    open_weight[link[h]] -= weight[i] * share[h]
                    open_count[link[h]] -= 1


def entry(i, start, startup, dep_ptr, dep, gate, finish):
    """Return when a flow's bytes enter the network; FAR where that is not known yet."""
    ready, open_from = start[i], 0
    for j in range(dep_ptr[i], dep_ptr[i + 1]):
        if finish[dep[j]] < 0:
            return FAR
        if gate[j]:
            open_from = max(open_from, finish[dep[j]])
        else:
            ready = max(ready, finish[dep[j]])
    return max(ready + startup[i], open_from)


def run(
    capacity,
    start,
    nbytes,
    ptr,
    link,
    share,
    weight,
    cap,
    dep_ptr,
    dep,
    gate,
    startup,
    of_ptr,
    of_flow,
):
    """Return (finish_ps, part), part being what the exact end lies past a whole picosecond."""
    n = len(nbytes)
    finish, part = np.full(n, -1, np.int64), np.zeros(n)
    active = np.zeros(n, np.bool_)
    left, rate, old = nbytes.astype(np.float64), np.zeros(n), np.zeros(n)
    since, end = np.zeros(n, np.int64), np.full(n, FAR, np.int64)
    finished = 0
    while finished < n:
        now = FAR
        for i in range(n):
            if finish[i] < 0:
                at = end[i] if active[i] else entry(i, start, startup, dep_ptr, dep, gate, finish)
                now = min(now, at)
        changed, again = False, True
        while again:  # a flow that ends may set others free at this very instant
            again = False
            for i in range(n):
                if finish[i] >= 0:
                    continue
                if active[i] and end[i] <= now:
                    active[i], finish[i] = False, now
                    finished += 1
                    changed, again = True, len(dep) > 0
                elif not active[i] and entry(i, start, startup, dep_ptr, dep, gate, finish) <= now:
                    if nbytes[i] == 0 or (ptr[i] == ptr[i + 1] and cap[i] == np.inf):
                        finish[i] = now
                        finished += 1
                        again = len(dep) > 0
                    else:
                        active[i], since[i] = True, now
                        changed = True
        if changed:
            old[:] = rate
            allocate(capacity, active, ptr, link, share, weight, cap, of_ptr, of_flow, rate)
            for i in range(n):
                if active[i] and rate[i] != old[i]:
                    left[i] = max(0.0, left[i] - old[i] * float(now - since[i]) / PS_PER_S)
                    since[i] = now
                    duration = left[i] / rate[i] * PS_PER_S
                    end[i] = now + int(duration + ROUND_UP)
                    part[i] = duration - float(int(duration))
    return finish, part


def naive_flows(
    capacity,
    start_ps,
    nbytes,
    route_ptr,
    route_link,
    route_share=None,
    weight=None,
    rate_cap=None,
    dep_ptr=None,
    dep=None,
    startup_ps=None,
    *,
    gate=False,
    runner=run,
):
    """Answer like `ubnet.simulate_flows`, and return `part` of each flow besides."""
    n, hops = len(nbytes), len(route_link)
    link = np.asarray(route_link, np.int64)
    ptr = np.asarray(route_ptr, np.int64)
    capacity = np.asarray(capacity, float)
    flow_of_hop = np.repeat(np.arange(n), np.diff(ptr))
    of_ptr = np.concatenate([[0], np.cumsum(np.bincount(link, minlength=len(capacity)))])
    return runner(
        capacity,
        np.array(np.broadcast_to(start_ps, n), np.int64),
        np.asarray(nbytes, np.int64),
        ptr,
        link,
        np.ones(hops) if route_share is None else np.asarray(route_share, float),
        np.ones(n) if weight is None else np.asarray(weight, float),
        np.full(n, np.inf) if rate_cap is None else np.asarray(rate_cap, float),
        np.zeros(n + 1, np.int64) if dep_ptr is None else np.asarray(dep_ptr, np.int64),
        np.zeros(0, np.int64) if dep is None else np.asarray(dep, np.int64),
        np.array(np.broadcast_to(gate, 0 if dep is None else len(dep)), np.bool_),
        np.zeros(n, np.int64)
        if startup_ps is None
        else np.array(np.broadcast_to(startup_ps, n), np.int64),
        of_ptr.astype(np.int64),
        flow_of_hop[np.argsort(link, kind="stable")].astype(np.int64),
    )


@cache
def compiled():
    """Return `run` compiled by Numba, the yardstick of bench/; once in a process."""
    import numba

    jit = numba.njit(fastmath=False)
    space = dict(globals())
    for name in ("allocate", "entry", "run"):
        function = type(run)(globals()[name].__code__, space, name)
        space[name] = jit(function)
    return space["run"]
