"""Random instances of flows for the engine's tests, and the workloads it is measured on."""

import numpy as np


def random_instance(rng, n_flows=None, n_links=None):
    """Return keyword arguments of `simulate_flows`: shares, weights, caps, ties, dependencies."""
    n = int(rng.integers(1, 30)) if n_flows is None else n_flows
    links = int(rng.integers(1, 12)) if n_links is None else n_links
    simple = rng.random() < 0.4  # equal capacities and sizes make ties
    capacity = np.full(links, 1e9) if simple else rng.uniform(1e8, 5e9, links).round()
    hops = rng.integers(0 if rng.random() < 0.3 else 1, min(links, 5) + 1, n)
    route = [rng.permutation(links)[:k] for k in hops]
    sizes = rng.integers(0, 4, n) * 1000 if simple else rng.integers(0, 2_000_000, n)
    sizes[rng.random(n) < 0.1] = 0
    starts = rng.integers(0, 5, n) * 500_000 if simple else rng.integers(0, 2_000_000_000, n)
    given = {
        "capacity": capacity,
        "start_ps": starts if rng.random() < 0.7 else np.zeros(n, np.int64),
        "nbytes": sizes,
        "route_ptr": np.concatenate([[0], np.cumsum(hops)]),
        "route_link": np.concatenate(route).astype(np.int64),
    }
    if rng.random() < 0.6:
        given["route_share"] = rng.choice([0.125, 1 / 7, 0.5, 1.0, 137 / 135, 2.0], hops.sum())
    if rng.random() < 0.5:
        given["weight"] = rng.choice([0.25, 1.0, 1.0, 3.0, 7.7], n)
    if rng.random() < 0.5:
        given["rate_cap"] = np.where(rng.random(n) < 0.5, np.inf, rng.uniform(1e7, 2e9, n))
    if rng.random() < 0.5:
        given["startup_ps"] = rng.integers(0, 3, n) * 250_000
    if rng.random() < 0.6:
        given |= random_dependencies(rng, n)
    return given


def random_dependencies(rng, n):
    """Return dep_ptr and dep: each flow waits for some of those before it in a random order."""
    order = rng.permutation(n)
    before = [[] for _ in range(n)]
    for place in range(1, n):
        if rng.random() < 0.6:
            count = int(rng.integers(1, min(place, 3) + 1))
            before[order[place]] = list(order[rng.permutation(place)[:count]])
    ptr = np.concatenate([[0], np.cumsum([len(b) for b in before])]).astype(np.int64)
    return {"dep_ptr": ptr, "dep": np.array([i for b in before for i in b], np.int64)}


HOSTS_A_LEAF = SPINES = 8
CLOS_BPS = 50e9


def clos(src, dst, hosts, spine):
    """Return capacity, route_ptr, route_link of flows on a two-tier Clos of 8-host leaves."""
    leaves = hosts // HOSTS_A_LEAF
    leaf_of_src, leaf_of_dst = src // HOSTS_A_LEAF, dst // HOSTS_A_LEAF
    up = 2 * hosts + leaf_of_src * SPINES + spine
    down = 2 * hosts + (leaves + leaf_of_dst) * SPINES + spine
    route = np.stack([src, up, down, hosts + dst], 1)
    used = np.ones(route.shape, bool)
    used[leaf_of_src == leaf_of_dst, 1:3] = False
    ptr = np.concatenate([[0], np.cumsum(used.sum(1))])
    return np.full(4 * hosts, CLOS_BPS), ptr, route[used]


def hashed_spine(src, dst, hosts):
    """Choose a spine by a 32-bit integer hash of the pair."""
    word = (src * hosts + dst).astype(np.uint64)
    for _ in range(2):
        word = (word ^ (word >> np.uint64(16))) * np.uint64(0x45D9F3B) % np.uint64(1 << 32)
    return ((word ^ (word >> np.uint64(16))) % np.uint64(SPINES)).astype(np.int64)


def all_to_all(kind, routing, hosts):
    """Return an all-to-all of 1 MiB a pair (uni) or of log-normal sizes of that mean (moe)."""
    src, dst = (index.ravel() for index in np.indices((hosts, hosts)))
    src, dst = src[src != dst], dst[src != dst]
    size = np.full(len(src), 1 << 20)
    if kind == "moe":
        normal = np.random.default_rng(1).normal(0, 1, len(src))
        size = np.maximum(64, np.round(np.exp(normal - 0.5) * (1 << 20))).astype(np.int64)
    spine = dst % SPINES if routing == "dmodk" else hashed_spine(src, dst, hosts)
    capacity, ptr, link = clos(src, dst, hosts, spine)
    return {
        "capacity": capacity,
        "start_ps": np.zeros(len(src), np.int64),
        "nbytes": size,
        "route_ptr": ptr,
        "route_link": link,
    }


def poisson(flows, load, hosts=384):
    """Return Poisson arrivals at a share of the hosts' capacity, log-normal sizes, hashed paths."""
    rng = np.random.default_rng(7)
    size = np.maximum(64, np.round(np.exp(rng.normal(0, 1.5, flows) - 1.125) * (1 << 20)))
    per_second = load * hosts * CLOS_BPS / size.mean()
    start_s = np.cumsum(rng.exponential(1 / per_second, flows))
    # The inputs are defined as text with 12 digits.
    start_ps = [round(float(f"{s:.12g}") * 1e12) for s in start_s]
    src = rng.integers(0, hosts, flows)
    dst = (src + rng.integers(1, hosts, flows)) % hosts
    capacity, ptr, link = clos(src, dst, hosts, hashed_spine(src, dst, hosts))
    return {
        "capacity": capacity,
        "start_ps": np.array(start_ps),
        "nbytes": size.astype(np.int64),
        "route_ptr": ptr,
        "route_link": link,
    }
