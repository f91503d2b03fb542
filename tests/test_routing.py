"""Shortest-path routing against networkx, the three policies, and how routes are put together."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ubnet.errors import NoRoute, OptionError
from ubnet.fabric_graph import from_networkx
from ubnet.fabrics import load_fabric
from ubnet.path_hash import path_hash, pick
from ubnet.route_laying import MANY
from ubnet.route_pieces import Piece, chain_routes, join_pieces
from ubnet.routing import GraphRouter, graph_router


def columns(*ends):
    return tuple(np.array(e, dtype=np.int64) for e in ends)


def two_tier(leaves=3, spines=2, hosts=2):
    """A small leaf-spine network of hosts."""
    graph = nx.Graph()
    for leaf in range(leaves):
        graph.add_node(f"leaf{leaf}", tier="leaf", latency_ps=200)
        for host in range(hosts):
            graph.add_node(f"h{leaf}.{host}", node=leaf)
            graph.add_edge(f"h{leaf}.{host}", f"leaf{leaf}", capacity=10e9, latency_ps=5)
    for spine in range(spines):
        graph.add_node(f"spine{spine}", tier="spine", latency_ps=300)
        for leaf in range(leaves):
            graph.add_edge(f"leaf{leaf}", f"spine{spine}", capacity=20e9, latency_ps=70 + spine)
    return graph


def named(fabric, routes, i=0):
    """Return a route as resource names with their shares."""
    part = slice(routes.ptr[i], routes.ptr[i + 1])
    names = [fabric.resource_names[r] for r in routes.resource[part]]
    return dict(zip(names, routes.share[part].tolist(), strict=True))


def even_split(graph, src, dst):
    """Return the share on each link when every vertex splits evenly over shortest paths: naive."""
    shares = {}
    far = nx.single_source_shortest_path_length(graph.reverse(), dst)
    at = {src: 1.0}
    while at:
        after = {}
        for v, part in at.items():
            nearer = [w for w in graph.successors(v) if far.get(w) == far[v] - 1]
            for w in nearer:
                shares[f"{v}->{w}"] = part / len(nearer)
                if w != dst:
                    after[w] = after.get(w, 0.0) + part / len(nearer)
        at = after
    return shares


@given(st.integers(0, 2**32 - 1), st.integers(3, 9), st.integers(0, 14))
def test_spray_splits_evenly_over_all_shortest_paths(seed, size, more):
    rng = np.random.default_rng(seed)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(size))
    nx.add_cycle(graph, range(size))
    for _ in range(more):
        a, b = rng.choice(size, 2, replace=False).tolist()
        graph.add_edge(a, b)
    nx.set_edge_attributes(graph, 1e9, "capacity")
    fabric = from_networkx(graph)
    src, dst = columns(*rng.integers(0, size, (2, 5)))
    routes = fabric.planes["net"].router.routes(src, dst, np.zeros(5, dtype=np.int64))
    for i in range(5):
        expected = even_split(graph, int(src[i]), int(dst[i])) if src[i] != dst[i] else {}
        assert named(fabric, routes, i) == pytest.approx(expected)


def test_the_latency_is_that_of_the_slowest_path_with_its_switches():
    fabric = from_networkx(two_tier())
    router = fabric.planes["net"].router
    src, dst = columns([0, 0, 0], [0, 1, 2])
    routes = router.routes(src, dst, np.zeros(3, dtype=np.int64))
    far = 5 + 200 + 71 + 300 + 71 + 200 + 5
    assert routes.latency_ps.tolist() == [0, 5 + 200 + 5, far]
    assert named(fabric, routes, 2) == {
        "h0.0->leaf0": 1,
        "leaf0->spine0": 0.5,
        "leaf0->spine1": 0.5,
        "spine0->leaf1": 0.5,
        "spine1->leaf1": 0.5,
        "leaf1->h1.0": 1,
    }


def test_hash_takes_one_path_and_flows_of_a_pair_spread_over_all():
    graph = two_tier(spines=4)
    fabric = from_networkx(graph, paths="hash")
    src, dst = np.zeros(400, dtype=np.int64), np.full(400, 2)
    routes = fabric.planes["net"].router.routes(src, dst, np.arange(400))
    used = {}
    for i in range(400):
        route = named(fabric, routes, i)
        assert list(route.values()) == [1, 1, 1, 1]
        assert all(a.split("->")[1] == b.split("->")[0] for a, b in pairwise(route))
        spine = list(route)[1]
        used[spine] = used.get(spine, 0) + 1
    assert len(used) == 4
    assert min(used.values()) > 60


def test_ecmp_splits_at_the_source_and_hashes_beyond():
    graph = nx.DiGraph()
    graph.add_node("a")
    graph.add_node("z")
    for plane in range(3):
        graph.add_node(f"in{plane}", tier="L1")
        graph.add_node(f"out{plane}", tier="L1")
        graph.add_edge("a", f"in{plane}", capacity=1e9)
        graph.add_edge(f"out{plane}", "z", capacity=1e9)
        for chip in range(4):
            graph.add_node(f"l2.{plane}.{chip}", tier="L2")
            graph.add_edge(f"in{plane}", f"l2.{plane}.{chip}", capacity=1e9)
            graph.add_edge(f"l2.{plane}.{chip}", f"out{plane}", capacity=1e9)
    fabric = from_networkx(graph, paths="ecmp")
    routes = fabric.planes["net"].router.routes(
        np.zeros(50, dtype=np.int64), np.ones(50, dtype=np.int64), np.arange(50)
    )
    choices = set()
    for i in range(50):
        route = named(fabric, routes, i)
        assert len(route) == 12
        assert list(route.values()) == pytest.approx([1 / 3] * 12)
        chips = [name for name in route if name.startswith("in")]
        assert [c[2] for c in chips] == ["0", "1", "2"]
        choices.add(tuple(c[-1] for c in chips))
    assert len(choices) > 20, "the planes choose their chips apart from each other"


def test_endpoints_forward_only_where_there_are_no_switches_or_they_say_so():
    chain = nx.path_graph(3)
    nx.set_edge_attributes(chain, 1e9, "capacity")
    src, dst = columns([0], [2])
    zero = np.zeros(1, dtype=np.int64)
    direct = from_networkx(chain)
    assert len(direct.planes["net"].router.routes(src, dst, zero).resource) == 2
    chain.add_node("hub", tier="L1")
    chain.add_edge(0, "hub", capacity=1e9)
    with pytest.raises(NoRoute, match="plane net has no way from 0 to 2"):
        from_networkx(chain).planes["net"].router.routes(src, dst, zero)
    chain.nodes[1]["forwards"] = True
    gateway = from_networkx(chain)
    assert len(gateway.planes["net"].router.routes(src, dst, zero).resource) == 2


def test_an_unknown_policy_is_refused():
    with pytest.raises(OptionError, match="paths is 'sprya' on plane net; did you mean spray"):
        from_networkx(two_tier(), paths="sprya")


@pytest.mark.parametrize("paths", ["spray", "ecmp", "hash"])
def test_many_flows_get_the_routes_that_each_gets_alone(paths):
    fabric = from_networkx(two_tier(leaves=4, spines=3, hosts=3), paths=paths)
    router = fabric.planes["net"].router
    rng = np.random.default_rng(7)
    src, dst, flow = columns(*rng.integers(0, 12, (3, 40)))
    together = router.routes(src, dst, flow)
    for i in range(40):
        alone = router.routes(src[i : i + 1], dst[i : i + 1], flow[i : i + 1])
        assert named(fabric, together, i) == named(fabric, alone)
        assert together.latency_ps[i] == alone.latency_ps[0]


def test_no_flows_have_no_routes():
    router = from_networkx(two_tier()).planes["net"].router
    routes = router.routes(*columns([], [], []))
    assert routes.ptr.tolist() == [0]
    assert len(routes.resource) == 0


def test_a_plane_with_a_router_of_its_own_can_be_searched_all_the_same(cloudmatrix):
    router = graph_router(cloudmatrix, "ub")
    assert isinstance(router, GraphRouter)
    hops = router.hops(np.array([16]))[0]
    assert (hops[0], hops[17], hops[18], hops[16]) == (4, 1, 2, 0)
    own = from_networkx(two_tier())
    assert graph_router(own, "net") is own.planes["net"].router


def test_pieces_are_laid_in_order_and_shares_kept():
    rows = np.array([2, 0])
    routes = join_pieces(
        np.array([1, 2, 3]),
        [Piece(rows, np.array([[5], [6]])), Piece(np.array([2]), np.array([[7, 8]]), 0.5)],
    )
    assert routes.ptr.tolist() == [0, 1, 1, 4]
    assert routes.resource.tolist() == [6, 5, 7, 8]
    assert routes.share.tolist() == [1, 1, 0.5, 0.5]
    chained = chain_routes([routes, routes])
    assert chained.ptr.tolist() == [0, 2, 2, 8]
    assert chained.resource.tolist() == [6, 6, 5, 7, 8, 5, 7, 8]
    assert chained.latency_ps.tolist() == [2, 4, 6]


def test_the_hash_is_fixed_even_and_minds_the_order_of_its_columns():
    assert path_hash(1, 2, 3).tolist() == path_hash([1], [2], [3]).tolist()
    assert path_hash(1, 2) != path_hash(2, 1)
    src, dst = np.divmod(np.arange(48 * 48), 48)
    counts = np.bincount(pick(path_hash(src, dst, 0), 16), minlength=16)
    assert counts.sum() == 48 * 48
    # 144 a bin, and 12 is one standard deviation.
    assert abs(counts - 144).max() < 48


def test_spray_over_the_real_cables_is_what_the_clos_router_says():
    fabric = load_fabric("cloudmatrix384", nodes=3)
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, len(fabric.endpoints), (2, 60))
    zero = np.zeros(60, dtype=np.int64)
    by_graph = graph_router(fabric, "ub").routes(src, dst, zero)
    by_clos = fabric.planes["ub"].router.routes(src, dst, zero)
    assert by_graph.latency_ps.tolist() == by_clos.latency_ps.tolist()
    for i in range(60):
        assert named(fabric, by_graph, i) == pytest.approx(named(fabric, by_clos, i))


def test_routes_of_many_flows_are_laid_like_those_of_few():
    rng = np.random.default_rng(3)
    n = 2 * MANY
    rows = np.flatnonzero(rng.random(n) < 0.7)
    pieces = [
        Piece(np.arange(n), rng.integers(0, 99, (n, 1))),
        Piece(rows, rng.integers(0, 99, (len(rows), 3)), 0.25),
        Piece(rows[:0], np.zeros((0, 2), np.int64)),
    ]
    latency = rng.integers(0, 9, n)
    many = join_pieces(latency, pieces)
    for first in range(0, n, MANY // 2):
        last = first + MANY // 2
        few = join_pieces(
            latency[first:last],
            [
                Piece(piece.rows[here] - first, piece.resource[here], piece.share)
                for piece in pieces
                for here in [(piece.rows >= first) & (piece.rows < last)]
            ],
        )
        hops = slice(many.ptr[first], many.ptr[last])
        assert np.array_equal(few.ptr, many.ptr[first : last + 1] - many.ptr[first])
        assert np.array_equal(few.resource, many.resource[hops])
        assert np.array_equal(few.share, many.share[hops])
