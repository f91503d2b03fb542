"""Fabrics of the user's own: TOML files and networkx graphs, and how a typo is answered."""

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from ubnet.errors import FabricError, OptionError
from ubnet.fabric import FAR, NODE, PACKAGE
from ubnet.fabric_file import read_fabric
from ubnet.fabric_graph import from_networkx, to_networkx
from ubnet.fabrics import load_fabric
from ubnet.transport import Transport

EXAMPLE = Path(__file__).parents[1] / "examples" / "two_nodes.toml"

SMALL = """
[[endpoints]]
name = "n{n}.die{d}"
node = "{n}"
package = "{d}"
for = { n = 2, d = 2 }

[[switches]]
name = "hub"
latency = "200ns"

[[links]]
from = "n{n}.die{d}"
to = "hub"
capacity = "100GB/s"
for = { n = 2, d = 2 }
"""


def written(folder, text):
    path = folder / "my.toml"
    path.write_text(text)
    return path


def rate(fabric, transport, op, src, dst):
    """Return the rate of one flow alone, in GB/s: its slowest resource."""
    flows = fabric.transport(transport).flows(fabric, op, src, dst, 1 << 40, messages=0)
    return float((fabric.capacity[flows.route_link] / flows.route_share).min() / 1e9)


def test_the_example_has_two_nodes_of_sixteen_dies():
    fabric = load_fabric(EXAMPLE)
    assert fabric.name == "two_nodes"
    assert len(fabric.of_kind("die")) == 32
    assert fabric.node_of.tolist() == [0] * 16 + [1] * 16
    assert [fabric.endpoints[i].name for i in (0, 17)] == ["node0.die00", "node1.die01"]
    assert list(fabric.transports) == ["put"]
    assert fabric.planes["net"].paths == "spray"
    put = fabric.transports["put"].flows(fabric, "write", [0, 0], [1, 16], 0)
    # The posting, 80 ns of the start-up, holds the engine instead.
    near = 1_000_000 - 80_000 + 100_000 + 200_000 + 100_000
    assert put.startup_ps.tolist() == [near, near + 500_000 + 200_000]
    assert rate(fabric, "put", "write", 0, 16) == 150
    assert rate(fabric, "put", "read", 0, 16) == 200


@pytest.mark.parametrize(("paths", "alone"), [("spray", 150), ("ecmp", 50), ("hash", 50)])
def test_parallel_cables_are_one_where_flows_are_sprayed(paths, alone):
    fabric = load_fabric(EXAMPLE, paths=paths)
    assert fabric.options["paths"] == paths
    assert rate(fabric, "put", "write", 0, 16) == alone
    names = [n for n in fabric.resource_names if n.startswith("node0.switch->node1")]
    assert len(names) == (1 if paths == "spray" else 8)


def test_places_follow_their_labels(tmp_path):
    fabric = read_fabric(written(tmp_path, SMALL))
    assert fabric.name == "my"
    src, dst = np.array([0, 0]), np.array([1, 2])
    assert fabric.distance(src, dst).tolist() == [NODE, FAR], "packages of two nodes are two"
    alike = SMALL.replace('package = "{d}"', 'package = "one"')
    fabric = read_fabric(written(tmp_path, alike))
    assert fabric.distance(src, dst).tolist() == [PACKAGE, FAR]
    assert list(fabric.transports) == ["wire"]
    assert fabric.transports["wire"].plane == "net"
    assert rate(fabric, "wire", "write", 0, 3) == 100


def test_loops_take_counts_and_lists_and_formats(tmp_path):
    text = '[[endpoints]]\nname = "{who}{n:03}"\nfor = { who = ["a", "b"], n = [0, 7] }\n'
    fabric = read_fabric(written(tmp_path, text))
    assert [e.name for e in fabric.endpoints] == ["a000", "a007", "b000", "b007"]
    assert len(set(fabric.node_of.tolist())) == 4, "without a node each stands by itself"


def test_everything_that_can_be_said_is_understood(tmp_path):
    text = """
[fabric]
name = "rich"

[planes.fast]
paths = "ecmp"
[planes.slow]

[[endpoints]]
name = "d{n}"
for = { n = 2 }
kind = "die"
rack = "{n}"
memory_rate = "500GB/s"

[[endpoints]]
name = "gate"
kind = "cpu"
forwards = true

[[switches]]
name = "hub"
tier = "L1"
rack = "5"

[[links]]
from = "d{n}"
to = "hub"
plane = "fast"
tier = "port"
capacity = "1.5TB/s"
count = 3
for = { n = 2 }

[[links]]
from = "d0"
to = "gate"
plane = "slow"
capacity = "8Gb/s"
[[links]]
from = "gate"
to = "d1"
plane = "slow"
capacity = "8Gb/s"
both = false
[[links]]
from = "gate"
to = "hub"
plane = "slow"
capacity = "8Gb/s"

[engines.dma]
rate = "90GB/s"
kind = "die"

[transports.copy]
plane = "fast"
write_startup = "2us"
read_startup = "3us"
package_startup = "1us"
engine = { write = "dma", read = "dma" }
post = "0.5us"
spread = 0.2
wire_share = 1.25
rate_cap = "40GB/s"
"""
    fabric = read_fabric(written(tmp_path, text))
    assert fabric.name == "rich"
    assert [fabric.planes[p].paths for p in ("fast", "slow")] == ["ecmp", "spray"]
    copy = fabric.transports["copy"]
    assert (copy.startup_of("write", "die"), copy.startup_of("read", "cpu")) == (2e6, 3e6)
    assert (copy.post_ps, copy.spread, copy.wire_share, copy.rate_cap) == (5e5, 0.2, 1.25, 40e9)
    assert copy.package_startup_ps == 1e6
    assert [t.name for t in fabric.transports.values()] == ["copy", "wire_slow"]
    assert fabric.memory_rate.tolist() == [500e9, 500e9, np.inf]
    assert [e.rack for e in fabric.endpoints] == [0, 1, 0]
    assert rate(fabric, "wire_slow", "write", 0, 1) == 1, "over the gate, which forwards"
    assert len(fabric.resource_names) == 2 * 2 * 3 + 2 + 1 + 2 + 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("capacity =", "capcity =", r"\[\[links\]\] number 1 has no key 'capcity'; did you mean "
         r"capacity\? \(allowed: from, to, for, capacity, latency, plane, tier, count, both\)"),
        ("[[switches]]", "[[swiches]]", r"my\.toml has no key 'swiches'; did you mean switches"),
        ('to = "hub"', 'to = "hbu"', r"number 1: to names 'hbu', which is no .*did you mean hub"),
        ('"n{n}.die{d}"\nto', '"n{n}.die{e}"\nto', r"uses \{e\}, which for does not give .*n, d"),
        ('"n{n}.die{d}"\nto', '"n{n.die{d}"\nto', "is no pattern; write"),
        ('"100GB/s"', '"100GBps"', r"capacity: '100GBps' is not a rate: write 50GB/s"),
        ('"100GB/s"', "100", r'capacity is 100; write capacity = "200GB/s"'),
        ('"100GB/s"', '"0GB/s"', "capacity is 0, give a rate above 0"),
        ('capacity = "100GB/s"', "", r"number 1 needs capacity: write"),
        ('"200ns"', '"200"', "latency: '200' is not a time"),
        ('name = "n{n}.die{d}"', 'name = "n{n}"', "the name 'n0' stands twice"),
        ("d = 2 }\n\n[[s", "d = -2 }\n\n[[s", r"for\.d is -2; write a count"),
        ("d = 2 }\n\n[[s", "d = 999999 }\n\n[[s", "for makes 1999998 entries, at most 1000000"),
        ("[[switches]]", "[switches]", r"write \[\[switches\]\] with two brackets"),
        ("[[switches]]", '[planes.a]\npaths = "sprya"\n[[switches]]', "paths is 'sprya'; did you"),
        ("[[switches]]", "[planes.ub]\n[[switches]]", None),
        ("[[links]]", '[planes.ab]\n[[links]]\nplane = "b"', "no plane 'b'; did you mean ab"),
        ('to = "hub"', 'to = "hub"\ncount = 0', "count is 0; write count = 1 or more"),
        ('to = "hub"', 'to = "hub"\ncount = true', "count is True; write count = 1 or more"),
        ('to = "hub"', 'to = "hub"\ncount = 1000000000', "count is 1000000000; write .*1000000"),
        ('to = "hub"', 'to = "hub"\ncount = 900000', "makes 7200000 links, at most 1000000"),
        ('"200ns"', '"1e30s"', "too large for a time"),
        ('"100GB/s"', '"1e999GB/s"', "too large for a rate"),
        *(
            ('name = "n{n}.die{d}"', f'name = "n{{n}}.die{pattern}"', "is no pattern; write")
            for pattern in ("{d:999999999}", "{d.__class__}", "{d[0]}", "{d!r}", "{d:02x}", "{}",
                            "{0}", "{d:{n}}", "{d:<9}", "{d:0}", "{d:,}")
        ),
        ("d = 2 }\n\n[[s", "d = [true, 1] }\n\n[[s", r"for\.d is \[True, 1\]; write a count"),
        ("[[switches]]", "[planes.b]\n[planes.a]\n[[switches]]", "plane 'a' has no links; write"),
        ("[[switches]]", "[transports.t]\nspread = inf\n[[switches]]", "spread is inf; write 0"),
        ("[[switches]]", "[transports.t]\nspread = nan\n[[switches]]", "spread is nan; write 0"),
        ('to = "hub"', 'to = "hub"\nboth = 1', "both is 1; write both = true or false"),
        ("[[switches]]", '[fabric]\nnme = "x"\n[[switches]]', "no key 'nme'; did you mean name"),
        ("package =", 'kind = "dye"\npackage =', "kind is 'dye'; did you mean die"),
        ("[[switches]]", "[transports.t]\nplan = 1\n[[switches]]", r"\[transports\.t\] has no key"),
        ("[[switches]]", '[transports.t]\nengine = {write = "dma"}\n[[switches]]',
         r"no engine 'dma'; write \[engines\.NAME\]"),
        ("[[switches]]", '[engines.e]\nrate = "1GB/s"\nkind = "cpu"\n[[switches]]',
         "no endpoint of kind 'cpu'"),
        ("[[switches]]", '[transports.t]\npost = "1us"\nengine = {write = "e"}\n'
         '[engines.e]\nrate = "1GB/s"\n[[switches]]', "at least post = '1us'"),
        ("[[switches]]", "[transports.t]\nwire_share = 0.5\n[[switches]]", "write 1 or more"),
        ("[[switches]]", "[switches", "is no TOML file"),
    ],
)  # fmt: skip
def test_a_typo_is_answered_with_key_place_and_what_is_allowed(tmp_path, old, new, words):
    assert old in SMALL
    path = written(tmp_path, SMALL.replace(old, new, 1))
    if words is None:
        assert "ub" in read_fabric(path).planes
        return
    with pytest.raises(FabricError, match=words) as caught:
        read_fabric(path)
    assert "my.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(FabricError, match=r"cannot read fabric file .*none\.toml: No such file"):
        load_fabric(tmp_path / "none.toml")
    with pytest.raises(FabricError, match=r"my\.toml has no endpoints"):
        read_fabric(written(tmp_path, ""))
    with pytest.raises(OptionError, match="paths is 'spay'; did you mean spray"):
        load_fabric(EXAMPLE, paths="spay")
    with pytest.raises(OptionError, match="has no option 'aiv_cores'; allowed: paths"):
        load_fabric(EXAMPLE, aiv_cores=8)


@pytest.mark.parametrize("name", ["cloudmatrix64", str(EXAMPLE)])
def test_a_fabric_survives_the_way_to_networkx_and_back(name):
    fabric = load_fabric(name)
    graph = to_networkx(fabric)
    assert graph.number_of_nodes() == len(fabric.endpoints) + len(fabric.switches)
    assert graph.number_of_edges() == len(fabric.links)
    again = from_networkx(graph)
    assert again.name == fabric.name
    assert again.endpoints == fabric.endpoints
    assert again.switches == fabric.switches
    assert again.memory_rate.tolist() == fabric.memory_rate.tolist()
    assert nx.utils.graphs_equal(to_networkx(again), graph)


@pytest.mark.parametrize("ending", ["graphml", "json"])
def test_graphs_are_read_from_files(tmp_path, ending):
    fabric = load_fabric("cloudmatrix64")
    path = tmp_path / f"mine.{ending}"
    if ending == "json":
        path.write_text(json.dumps(nx.node_link_data(to_networkx(fabric), edges="edges")))
    else:
        nx.write_graphml(to_networkx(fabric), path)
    again = load_fabric(path, paths="ecmp")
    assert again.planes["ub"].paths == "ecmp"
    assert again.endpoints == fabric.endpoints
    assert sorted(again.links.capacity.tolist()) == sorted(fabric.links.capacity.tolist())
    simple = nx.path_graph(2)
    nx.set_edge_attributes(simple, {(0, 1): {"capacity": "1GB/s", "id": "e0"}})
    nx.write_graphml(simple, tmp_path / "simple.graphml")
    assert len(load_fabric(tmp_path / "simple.graphml").links) == 2
    path.write_text("{]")
    with pytest.raises(FabricError, match="is no graph of networkx"):
        load_fabric(path)
    with pytest.raises(FabricError, match="cannot read fabric file"):
        load_fabric(tmp_path / f"none.{ending}")


def test_an_undirected_graph_goes_both_ways():
    graph = nx.cycle_graph(4)
    nx.set_edge_attributes(graph, "400Gb/s", "bandwidth")
    nx.set_edge_attributes(graph, "2us", "latency")
    fabric = from_networkx(graph, name="ring")
    assert len(fabric.links) == 8
    assert (fabric.capacity == 50e9).all()
    routes = fabric.planes["net"].router.routes(
        np.array([0, 1]), np.array([2, 0]), np.zeros(2, dtype=np.int64)
    )
    assert routes.latency_ps.tolist() == [4_000_000, 2_000_000]
    assert np.diff(routes.ptr).tolist() == [4, 1], "both ways round to the one opposite"


def test_a_graph_can_bring_its_transports():
    graph = nx.star_graph(3)
    nx.set_edge_attributes(graph, 10e9, "capacity")
    slow = Transport("slow", "net", {("write", "*"): 7, ("read", "*"): 7}, rate_cap=1e9)
    fabric = from_networkx(graph, transports=[slow])
    assert list(fabric.transports) == ["slow"]
    with pytest.raises(FabricError, match="transport lost: no plane 'nett'; did you mean net"):
        from_networkx(graph, transports=[Transport("lost", "nett", {})])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: g.add_edge(0, 1, capcity=5), "edge 0 - 1 of the graph has the attribute 'capc"),
        (lambda g: g.add_edge(0, 1), "edge 0 - 1 of the graph needs one of capacity or bandwidth"),
        (lambda g: g.add_edge(0, 1, capacity=0), "capacity is 0, give a rate above 0"),
        (lambda g: g.add_edge(0, 1, capacity="9"), "capacity is wrong: '9' is not a rate"),
        (lambda g: g.add_edge(0, 1, capacity=1, latency=5), "write latency='200ns' or latency_ps"),
        (lambda g: g.add_edge(0, 1, capacity=1, latency="5"), "latency: '5' is not a time"),
        (lambda g: g.add_node(0, knd="die"), "node 0 of the graph has the attribute 'knd'"),
        (lambda g: g.add_node(0, kind="dye"), "kind is 'dye'; did you mean die"),
        (lambda g: g.add_node(2, tier="L1", speed=1), "switch 2 of the graph has the attribute"),
        (lambda g: nx.set_node_attributes(g, "L1", "tier"), "the graph has no endpoint"),
        *(
            (lambda g, wrong=wrong: g.add_edge(0, 1, capacity=1, latency_ps=wrong), "latency_ps is")
            for wrong in (1e300, "x", -1, 0.5, True, None, float("nan"))
        ),
        (lambda g: g.add_edge(0, 1, capacity=1, latency="1e30s"), "too large for a time"),
        *(
            (lambda g, wrong=wrong: g.add_edge(0, 1, capacity=wrong), "capacity is")
            for wrong in (np.inf, -1, np.nan, "x", None, [1], "1e999GB/s")
        ),
        *(
            (lambda g, wrong=wrong: g.add_node(0, rack=wrong), "rack is")
            for wrong in ("x", 1e300, None, 0.5)
        ),
        (lambda g: g.add_node(2, tier="L1", latency_ps="x"), "switch 2 of the graph: latency_ps"),
    ],
)
def test_what_is_wrong_in_a_graph_is_named(change, words):
    graph = nx.Graph()
    graph.add_nodes_from([0, 1])
    change(graph)
    with pytest.raises(FabricError, match=words):
        from_networkx(graph)


@pytest.mark.parametrize("given", [None, 3, "ring", [1]])
def test_what_is_no_graph_or_name_is_refused(given):
    with pytest.raises(FabricError, match="is no graph of networkx"):
        from_networkx(given)
    with pytest.raises(FabricError, match=r"no name of a fabric|there is no fabric"):
        load_fabric(given)


@pytest.mark.parametrize("key", ["edges", "links"])
def test_node_link_data_of_every_networkx(tmp_path, key):
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, "1GB/s", "capacity")
    path = tmp_path / "path.json"
    path.write_text(json.dumps(nx.node_link_data(graph, edges=key)))
    assert len(load_fabric(path).links) == 4


@pytest.mark.parametrize("text", ["[1]", "3", '"a"', "{}", '{"nodes": 3}', "null"])
def test_json_that_is_no_graph(tmp_path, text):
    path = tmp_path / "no.json"
    path.write_text(text)
    with pytest.raises(FabricError):
        load_fabric(path)
