"""``ubnet topo``: counts, capacities, bisection and checks, all computed; and what they answer."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from ubnet.cli.main import run_command
from ubnet.fabric_graph import from_networkx
from ubnet.fabrics import load_fabric
from ubnet.pair_rates import Packages
from ubnet.proof import FAULT, NO, OK, YES, check_fabric
from ubnet.survey import bisection, count_cables, node_uplinks, plane_ports

EXAMPLE = str(Path(__file__).parents[1] / "examples" / "two_nodes.toml")


def verdicts(fabric, plane):
    """Return the first words of each claim on a plane with its verdict."""
    return {f.claim: f.verdict for f in check_fabric(fabric) if f.plane == plane}


def rows(text):
    """Return the words of each line, spaces squeezed."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_show_prints_what_the_supernode_holds(capsys):
    assert run_command(["topo", "show", "cloudmatrix384"]) == 0
    out = rows(capsys.readouterr().out)
    for line in (
        "nodes 48 in 12 racks",
        "dies 768 of 384 NPUs (packages)",
        "CPUs 192",
        "L1 chips 336",
        "L2 chips 112 in 4 more racks",
        "ub die L1 5,376 10,752 28 150,528 100",
        "ub L1 L2 5,376 10,752 28 150,528 175",
        "ub spray 3,136 3,776 3,136 1.00:1 1.20:1 75,264",
        "aiv ub die 0.92, cpu 0.72 die 0.78, cpu 0.58 0.08 write 137, read 167",
        "vpc vpc 50 50 0 - at most 5 GB/s a flow",
    ):
        assert line in out, line


def test_show_serves_files_and_prints_every_constant(capsys):
    assert run_command(["topo", "show", EXAMPLE, "--paths", "hash"]) == 0
    out = rows(capsys.readouterr().out)
    assert "# two_nodes: file two_nodes.toml, paths hash" in out
    assert "net hash 3,200 3,200 400 8.00:1 8.00:1 400" in out
    assert run_command(["topo", "show", "cloudmatrix64", "--constants"]) == 0
    out = rows(capsys.readouterr().out)
    for start in (
        "write_rate 137 GB/s P",
        "l1_l2_cable_latency 0.175 us assumed",
        "spread 0.1 ass",
    ):
        assert any(row.startswith(start) for row in out), start


def test_list_names_all(capsys):
    assert run_command(["topo", "list"]) == 0
    out = rows(capsys.readouterr().out)
    assert "cloudmatrix384 48 384 768 192 ub rdma vpc aiv sdma urma roce vpc" in out
    assert "cloudmatrix64 8 64 128 32 ub rdma vpc aiv sdma urma roce vpc" in out


def test_check_proves_equal_bandwidth_and_one_to_one(capsys):
    assert run_command(["topo", "check", "cloudmatrix384"]) == 0
    out = capsys.readouterr().out
    lines = [line.strip() for line in out.splitlines()]
    proof = lines.index("yes  any two NPUs on different nodes get the same bandwidth")
    # 384 NPUs x 376 on other nodes.
    assert lines[proof + 1].startswith("all 144,384 ordered pairs: 392 GB/s each")
    ratio = lines.index("yes  a node's uplink carries all that its dies can send (1:1)")
    assert lines[ratio + 1].startswith("1.00:1, 48 nodes")
    assert "1.20:1 with all other endpoints" in lines[ratio + 1]
    assert "0 at fault" in lines[-1]


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize("name", ["cloudmatrix38", "none.toml"])
def test_bad_names_are_one_line_and_status_2(command, name, capsys):
    assert run_command(["topo", command, name]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.count("\n") == 1
    assert name in caught.err


def test_a_misspelt_key_is_one_line_and_status_2(tmp_path, capsys):
    path = tmp_path / "my.toml"
    path.write_text('[[endpoints]]\nnme = "a"\n')
    assert run_command(["topo", "show", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "my.toml, [[endpoints]] number 1 has no key 'nme'; did you mean name?" in err


def test_check_finds_what_is_loose_and_what_is_not_joined(tmp_path, capsys):
    path = tmp_path / "torn.toml"
    path.write_text(
        '[[endpoints]]\nname = "d{n}"\nfor = {n = 4}\n'
        '[[switches]]\nname = "s{n}"\nfor = {n = 3}\n'
        '[[links]]\nfrom = "d{n}"\nto = "s0"\ncapacity = "1GB/s"\nfor = {n = [0, 1]}\n'
        '[[links]]\nfrom = "d{n}"\nto = "s1"\ncapacity = "1GB/s"\nfor = {n = [2, 3]}\n'
    )
    assert run_command(["topo", "check", str(path)]) == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    loose = lines.index("FAULT  every endpoint and switch has links in and out")
    assert lines[loose + 1] == "1 have not: s2"
    torn = lines.index("FAULT  every two endpoints are joined")
    assert lines[torn + 1] == "8 ordered pairs are not, such as d2 to d0"
    assert "2 at fault" in lines[-1]


@pytest.mark.parametrize(("paths", "same"), [("spray", YES), ("ecmp", NO), ("hash", NO)])
def test_the_policy_decides_whether_pairs_are_equal(paths, same):
    found = verdicts(load_fabric("cloudmatrix64", paths=paths), "ub")
    assert found["any two NPUs on different nodes get the same bandwidth"] == same
    assert found["when all send to other nodes at full rate, no link is overfull"] == same
    assert found["a node's uplink carries all that its dies can send (1:1)"] == YES
    assert found["every two endpoints are joined"] == OK


def test_an_oversubscribed_tree_is_no_longer_one_to_one():
    thin = load_fabric("cloudmatrix384", rdma_oversubscription=3, rdma_paths="spray")
    found = verdicts(thin, "rdma")
    assert found["when all send to other nodes at full rate, no link is overfull"] == NO
    assert found["uniform traffic between two halves fills their cut (bisection)"] == YES
    # Four leaves of 96 dies on each side, 32 uplinks each.
    assert bisection(thin, "rdma").rate == 4 * 32 * 25e9
    full = load_fabric("cloudmatrix384", rdma_paths="spray")
    assert set(verdicts(full, "rdma").values()) == {OK, YES}
    assert bisection(full, "rdma").rate == 384 * 25e9


def test_pairs_that_share_a_cable_get_less():
    fabric = load_fabric(EXAMPLE)
    packages = Packages.of(fabric, "net")
    a, b, pairs = packages.far_pairs()
    assert (packages.noun, len(a), pairs) == ("dies", 512, 512)
    rate, latency = packages.rates(a, b)
    assert rate.tolist() == [200e9] * 512
    assert latency.tolist() == [1_100_000] * 512
    assert packages.most(0, 20) == 200e9
    assert verdicts(fabric, "net")["a node's uplink carries all that its dies can send (1:1)"] == NO


def test_the_bisection_of_a_ring_is_two_links_and_of_a_torus_its_rows():
    ring = nx.cycle_graph(8)
    nx.set_edge_attributes(ring, 1e9, "capacity")
    assert bisection(from_networkx(ring), "net").rate == 2e9
    torus = nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 4, periodic=True))
    nx.set_edge_attributes(torus, 1e9, "capacity")
    fabric = from_networkx(torus)
    assert bisection(fabric, "net").rate == 8e9
    assert plane_ports(fabric, "net").tolist() == [4e9] * 16
    assert FAULT not in verdicts(fabric, "net").values()


def test_one_node_is_surveyed_without_uplinks():
    graph = nx.star_graph(4)
    nx.set_node_attributes(graph, 0, "node")
    graph.nodes[0].clear()
    graph.nodes[0]["tier"] = "L1"
    nx.set_edge_attributes(graph, 5e9, "capacity")
    fabric = from_networkx(graph)
    assert node_uplinks(fabric, "net").dies.tolist() == [20e9]
    assert bisection(fabric, "net").rate == 10e9
    assert "every two endpoints are joined" in verdicts(fabric, "net")


def test_cables_are_counted_once_whatever_their_direction():
    graph = nx.MultiDiGraph()
    graph.add_node("s", tier="L1")
    for a, b in [*pairwise("abcd"), ("a", "s"), ("s", "a"), ("s", "a")]:
        graph.add_edge(a, b, capacity=2e9)
    cables = {(c.low, c.high): c for c in count_cables(from_networkx(graph))}
    assert (cables["die", "L1"].cables, cables["die", "L1"].directed) == (2, 3)
    assert cables["die", "die"].directed == 3
    assert cables["die", "L1"].total == 2e9


def test_sums_of_routes_respect_the_proof(cloudmatrix):
    """The claim of `topo check`, once more by hand: 16 dies of a node leave it at full rate."""
    src = np.arange(16)
    router = cloudmatrix.planes["ub"].router
    load = np.zeros(len(cloudmatrix.capacity))
    for shift in (16, 320, 752):
        routes = router.routes(src, src + shift, np.zeros(16, dtype=np.int64))
        load[:] = 0
        np.add.at(load, routes.resource, routes.share * 196e9)
        assert (load <= cloudmatrix.capacity * (1 + 1e-12)).all()
        assert load[cloudmatrix.resource_names.index("node00.uplink")] == 3136e9


@pytest.mark.parametrize(
    "line", ["list", "show h800", "show cloudmatrix64 --constants", "check h800"]
)
def test_no_line_ends_with_blanks(line, capsys):
    assert run_command(["topo", *line.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert [line for line in lines if line != line.rstrip()] == []
