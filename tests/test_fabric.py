"""Fabrics and their builder: names, places, bundles, engines, and what is refused."""

import numpy as np
import pytest

from ubnet.errors import FabricError, NoRoute, OptionError
from ubnet.fabric import FAR, NODE, PACKAGE, SELF
from ubnet.fabric_builder import FabricBuilder
from ubnet.fabrics import load_fabric
from ubnet.routing import add_graph_plane
from ubnet.transport import ideal_transports


def small():
    """Two nodes of two packages of two dies on one switch, by hand."""
    build = FabricBuilder("small", {"colour": "blue"})
    names = [f"d{i}" for i in range(8)]
    dies = build.add_endpoints(
        names, "die", node=np.arange(8) // 4, package=np.arange(8) // 2, rack=3, memory_rate=5e9
    )
    hub = build.add_switches(["hub"], "L1", latency_ps=200)
    for src, dst in ((dies, np.repeat(hub, 8)), (np.repeat(hub, 8), dies)):
        build.add_links(src, dst, capacity=10e9, latency_ps=100, plane="net", tier="port")
    add_graph_plane(build, "net", "spray")
    build.add_engines("write", dies[:4], capacity=8e9, tier="write engine")
    for transport in ideal_transports(["net"], []):
        build.add_transport(transport)
    return build.build()


def test_vertices_and_links_are_numbered_in_the_order_in_which_they_were_added():
    fabric = small()
    assert [fabric.endpoint(f"d{i}").index for i in range(8)] == list(range(8))
    assert [fabric.vertex_name(v) for v in (0, 7, 8)] == ["d0", "d7", "hub"]
    assert fabric.resource_names[:2] == ("d0->hub", "d1->hub")
    assert len(fabric.links) == 16
    assert fabric.endpoints[5].rack == 3
    assert "8 die" in repr(fabric)
    assert fabric.options == {"colour": "blue"}


def test_distance_tells_package_node_and_far_apart():
    fabric = small()
    src, dst = np.zeros(4, dtype=np.int64), np.array([0, 1, 2, 4])
    assert fabric.distance(src, dst).tolist() == [SELF, PACKAGE, NODE, FAR]
    assert fabric.distance(dst, src).tolist() == [SELF, PACKAGE, NODE, FAR]


def test_engines_belong_to_those_that_got_one():
    fabric = small()
    held = fabric.engines["write"]
    assert (held[:4] >= 0).all()
    assert (held[4:] == -1).all()
    assert fabric.resource_names[held[2]] == "d2.write"
    assert fabric.resource_tiers[held[2]] == "write engine"
    assert (fabric.capacity[held[:4]] == 8e9).all()
    assert (fabric.memory_rate == 5e9).all()


def test_a_bundle_is_one_resource_with_the_sum_of_its_links():
    build = FabricBuilder("pair")
    ends = build.add_endpoints(["a", "b"], "die", node=[0, 1], package=[0, 1])
    resource = build.add_links(
        np.repeat(ends[0], 3),
        np.repeat(ends[1], 3),
        capacity=[1e9, 2e9, 4e9],
        latency_ps=0,
        plane="net",
        tier="port",
        bundle=[0, 1, 0],
        bundle_names=["wide", "narrow"],
    )
    fabric = build.build()
    assert fabric.capacity[resource].tolist() == [5e9, 2e9, 5e9]
    assert [fabric.resource_names[r] for r in resource] == ["wide", "narrow", "wide"]
    assert fabric.links.capacity.tolist() == [1e9, 2e9, 4e9]


def test_a_fabric_without_links_can_be_built():
    build = FabricBuilder("lonely")
    build.add_endpoints(["a"], "die", node=0, package=0)
    fabric = build.build()
    assert len(fabric.links) == 0
    assert fabric.links.src.dtype == np.int64
    assert fabric.of_kind("cpu").tolist() == []


def test_names_that_stand_twice_are_refused():
    build = FabricBuilder("twins")
    build.add_endpoints(["a", "b"], "die", node=[0, 1], package=[0, 1])
    build.add_switches(["b"], "L1", latency_ps=0)
    with pytest.raises(FabricError, match="called 'b'"):
        build.build()


def test_endpoints_come_before_switches():
    build = FabricBuilder("late")
    build.add_switches(["hub"], "L1", latency_ps=0)
    with pytest.raises(FabricError, match="before switches"):
        build.add_endpoints(["a"], "die", node=0, package=0)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda f: f.endpoint("d9"), FabricError, "no endpoint 'd9'; allowed: d0, d1"),
        (lambda f: f.plane("nett"), NoRoute, "no plane 'nett'; did you mean net"),
        (lambda f: f.transport("wired"), NoRoute, "no transport 'wired'; did you mean wire"),
        (lambda f: f.check_endpoints(np.array([0, 8])), FabricError, "number 8: give 0 to 7"),
        (lambda f: f.check_endpoints(np.array([-1])), FabricError, "number -1: give 0 to 7"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(ask, error, words):
    with pytest.raises(error, match=words):
        ask(small())


def test_unknown_fabrics_and_options_are_answered_with_the_allowed_ones():
    with pytest.raises(FabricError, match=r"no fabric 'cloudmatrix38' \(did you mean cloudmatrix"):
        load_fabric("cloudmatrix38")
    with pytest.raises(FabricError, match=r"or a file that ends with \.toml, \.graphml"):
        load_fabric("zzz")
    with pytest.raises(OptionError, match="no option 'path'; did you mean paths"):
        load_fabric("cloudmatrix64", path="spray")
    with pytest.raises(OptionError, match="no option 'nodes'"):
        load_fabric("cloudmatrix64", nodes=4)
