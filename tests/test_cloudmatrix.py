"""CloudMatrix384: its shape, its three planes, and who slows whom."""

from itertools import pairwise

import numpy as np
import pytest

from ubnet.errors import NoRoute, OptionError
from ubnet.fabrics import fabric_names, load_fabric
from ubnet.flow_ends import simulate_flows
from ubnet.survey import count_cables, node_uplinks
from ubnet.topologies.constants import CONSTANTS

MIB = 1 << 20
LETTERS = {"P", "W", "S", "X", "N", "D", "assumed"}


def rates(fabric, transport, op, src, dst, nbytes=64 * MIB, **more):
    """Return the mean rate of each flow in GB/s, all started at once, start-ups left out."""
    flows = fabric.transport(transport).flows(fabric, op, src, dst, nbytes, **more)
    finish = simulate_flows(
        fabric.capacity,
        0,
        flows.nbytes,
        flows.route_ptr,
        flows.route_link,
        flows.route_share,
        rate_cap=flows.rate_cap,
    )
    return flows.nbytes / finish * 1e3


def routed(fabric, plane, src, dst, flow=0):
    """Return one route as a dict of resource name to share."""
    ends = [np.array([fabric.endpoint(e).index]) for e in (src, dst)]
    routes = fabric.planes[plane].router.routes(*ends, np.array([flow]))
    names = [fabric.resource_names[r] for r in routes.resource]
    return dict(zip(names, routes.share.tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "nodes"),
    [("cloudmatrix384", 48), ("cloudmatrix192", 24), ("cloudmatrix96", 12), ("cloudmatrix64", 8)],
)
def test_the_sizes_sold_hold_what_they_should(name, nodes):
    fabric = load_fabric(name)
    assert fabric.name == name
    assert len(fabric.of_kind("die")) == 16 * nodes
    assert len(fabric.of_kind("cpu")) == 4 * nodes
    tiers = [s.tier for s in fabric.switches]
    assert (tiers.count("L1"), tiers.count("L2")) == (7 * nodes, 112)
    cables = {(c.low, c.high): c for c in count_cables(fabric) if c.plane == "ub"}
    assert cables["L1", "L2"].cables == 112 * nodes
    assert cables["L1", "L2"].directed == 224 * nodes
    assert cables["die", "L1"].cables == 7 * 16 * nodes
    uplinks = node_uplinks(fabric, "ub")
    assert uplinks.out.tolist() == [3136e9] * nodes
    assert uplinks.convergence(everything=False) == 1
    assert uplinks.convergence(everything=True) == pytest.approx(3776 / 3136)
    assert name in fabric_names()


def test_rank_r_is_die_r_node_by_node_and_package_by_package(cloudmatrix):
    names = [e.name for e in cloudmatrix.endpoints]
    assert names[:3] == ["node00.npu0.die0", "node00.npu0.die1", "node00.npu1.die0"]
    assert names[16] == "node01.npu0.die0"
    assert names[767] == "node47.npu7.die1"
    assert names[768:770] == ["node00.cpu0", "node00.cpu1"]
    assert names[-1] == "node47.cpu3"
    assert cloudmatrix.package_of[:4].tolist() == [0, 0, 1, 1]
    assert len(set(cloudmatrix.package_of.tolist())) == 384 + 192
    assert [cloudmatrix.endpoints[i].rack for i in (0, 63, 64, 767, 959)] == [0, 0, 1, 11, 11]


def test_l2_chips_fill_four_racks_and_boxes_mix_sub_planes(cloudmatrix):
    chips = [s for s in cloudmatrix.switches if s.tier == "L2"]
    racks = [s.rack for s in chips]
    assert sorted(set(racks)) == [12, 13, 14, 15]
    assert [racks.count(r) for r in (12, 13, 14, 15)] == [28] * 4
    assert chips[0].name == "plane0.l2.00"
    assert len({s.name for s in cloudmatrix.switches}) == len(cloudmatrix.switches)


def test_each_l1_chip_meets_each_chip_of_its_sub_plane_once(cloudmatrix):
    links = cloudmatrix.links
    names = [cloudmatrix.vertex_name(v) for v in range(960 + len(cloudmatrix.switches))]
    pairs = [
        (names[a], names[b])
        for a, b in zip(links.src.tolist(), links.dst.tolist(), strict=True)
        if ".l1." in names[a] and ".l2." in names[b]
    ]
    assert len(pairs) == len(set(pairs)) == 5376
    assert all(a.rpartition(".")[2] == b[len("plane")] for a, b in pairs)


def test_spray_uses_every_port_as_one(cloudmatrix):
    a, b, near, mate, cpu = (
        "node00.npu0.die0", "node47.npu7.die1", "node00.npu1.die0", "node00.npu0.die1",
        "node03.cpu2",
    )  # fmt: skip
    assert routed(cloudmatrix, "ub", a, near) == {f"{a}.up": 1, f"{near}.down": 1}
    far = {f"{a}.up": 1, "node00.uplink": 1, "node47.downlink": 1, f"{b}.down": 1}
    assert routed(cloudmatrix, "ub", a, b) == far
    assert routed(cloudmatrix, "ub", a, mate) == {f"{a}.mate": 1}
    assert routed(cloudmatrix, "ub", a, a) == {}
    assert next(iter(routed(cloudmatrix, "ub", cpu, a))) == f"{cpu}.up"
    capacity = dict(zip(cloudmatrix.resource_names, cloudmatrix.capacity.tolist(), strict=True))
    wanted = {
        f"{a}.up": 196e9, "node00.uplink": 3136e9, f"{a}.mate": 210e9, f"{cpu}.up": 160e9,
        f"{a}.write": 137e9, f"{a}.read": 167e9, f"{a}.nic.up": 25e9, "node00.vpc.up": 50e9,
    }  # fmt: skip
    assert {name: capacity[name] for name in wanted} == pytest.approx(wanted)


def test_ecmp_takes_one_chip_in_each_sub_plane():
    fabric = load_fabric("cloudmatrix64", paths="ecmp")
    chosen = set()
    for flow in range(20):
        route = routed(fabric, "ub", "node00.npu0.die0", "node05.npu3.die1", flow)
        up = [name for name in route if name.startswith("node00.l1.")]
        down = [name for name in route if name.startswith("node05.l1.")]
        assert [name.split(".")[2] for name in up] == list("0123456")
        assert [name[-2:] for name in up] == [name[-2:] for name in down]
        assert [route[name] for name in up + down] == [1 / 7] * 14
        assert route["node00.npu0.die0.up"] == route["node05.npu3.die1.down"] == 1
        chosen.add(tuple(name[-2:] for name in up))
    assert len(chosen) == 20
    assert len(routed(fabric, "ub", "node00.npu0.die0", "node00.npu1.die0")) == 2


def test_hash_takes_one_port_and_one_chip():
    fabric = load_fabric("cloudmatrix64", paths="hash")
    planes = set()
    for flow in range(60):
        route = routed(fabric, "ub", "node00.npu0.die0", "node05.npu3.die1", flow)
        assert list(route.values()) == [1] * 4
        port, up, down, last = route
        assert port[-1] == up.split(".")[2] == down.split(".")[2] == last[-1]
        assert up[-2:] == down[-2:]
        planes.add(port[-1])
    assert planes == set("0123456")
    alone = rates(fabric, "aiv", "write", 0, 100)
    assert alone == pytest.approx([28], rel=1e-3)


@pytest.mark.parametrize("paths", ["spray", "ecmp", "hash"])
def test_every_policy_spends_each_flow_once_at_both_ends(paths):
    fabric = load_fabric("cloudmatrix64", paths=paths)
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, len(fabric.endpoints), (2, 200))
    routes = fabric.planes["ub"].router.routes(src, dst, np.arange(200))
    tiers = np.array(fabric.resource_tiers)[routes.resource]
    flow = np.repeat(np.arange(200), np.diff(routes.ptr))
    ported = fabric.package_of[src] != fabric.package_of[dst]
    far = fabric.node_of[src] != fabric.node_of[dst]
    for tier, expected in (
        (("die port", "cpu port"), 2 * ported),
        (("node uplink",), far),
        (("node downlink",), far),
        (("package link",), ~ported & (src != dst)),
    ):
        mine = np.isin(tiers, tier)
        used = np.bincount(flow[mine], weights=routes.share[mine], minlength=200)
        assert used == pytest.approx(expected.astype(float))
    for i in range(200):
        part = routes.resource[routes.ptr[i] : routes.ptr[i + 1]].tolist()
        assert len(part) == len(set(part)), "a resource stands once in a route"


def test_the_rdma_tree_follows_its_radix_and_oversubscription():
    full = load_fabric("cloudmatrix384")
    count = {(c.low, c.high): c for c in count_cables(full) if c.plane == "rdma"}
    assert count["die", "RDMA leaf"].cables == count["RDMA leaf", "RDMA spine"].cables == 768
    thin = load_fabric("cloudmatrix384", rdma_oversubscription=3, rdma_paths="spray")
    leaves = [s for s in thin.switches if s.tier == "RDMA leaf"]
    assert len(leaves) == 8
    capacity = thin.capacity[thin.resource_names.index("rdma.leaf00.up")]
    assert 96 * 25e9 / capacity == 3
    # 96 dies of one leaf send to another leaf: a third of the port's rate each.
    flows = rates(thin, "roce", "write", np.arange(96), 96 + np.arange(96))
    assert flows == pytest.approx([25 * 4096 / 4178 / 3] * 96, rel=1e-3)
    one = load_fabric("cloudmatrix384", nodes=2)
    assert not [s for s in one.switches if s.tier == "RDMA spine"]
    assert len(routed(one, "rdma", "node00.npu0.die0", "node01.npu0.die0")) == 2


def test_rdma_hash_meets_the_same_spine_going_up_and_down(cloudmatrix):
    router = cloudmatrix.planes["rdma"].router
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, 64, 100), rng.integers(64, 768, 100)
    routes = router.routes(src, dst, np.arange(100))
    assert np.diff(routes.ptr).tolist() == [4] * 100
    links = cloudmatrix.links
    vertex_of = {r: (a, b) for a, b, r in zip(links.src, links.dst, links.resource, strict=True)}
    for i in range(100):
        path = [vertex_of[r] for r in routes.resource[routes.ptr[i] : routes.ptr[i + 1]].tolist()]
        assert path[0][0] == src[i]
        assert path[-1][1] == dst[i]
        assert all(a[1] == b[0] for a, b in pairwise(path))


def test_cpus_are_not_on_the_rdma_plane(cloudmatrix):
    with pytest.raises(NoRoute, match=r"node00\.cpu1 is not on plane rdma.*use plane ub"):
        rates(cloudmatrix, "roce", "write", 0, 769)
    with pytest.raises(NoRoute, match="is not on plane rdma"):
        rates(cloudmatrix, "roce", "read", 768, 3)


def test_vpc_goes_through_cpu_0_and_the_card(cloudmatrix):
    route = routed(cloudmatrix, "vpc", "node00.npu3.die0", "node07.npu0.die1")
    assert list(route) == [
        "node00.npu3.die0.up", "node00.cpu0.down", "node00.vpc.host.up", "node00.vpc.up",
        "node07.vpc.down", "node07.vpc.host.down", "node07.cpu0.up", "node07.npu0.die1.down",
    ]  # fmt: skip
    assert list(routed(cloudmatrix, "vpc", "node00.cpu0", "node01.cpu0")) == [
        "node00.vpc.host.up", "node00.vpc.up", "node01.vpc.down", "node01.vpc.host.down",
    ]  # fmt: skip
    inside = routed(cloudmatrix, "vpc", "node00.npu0.die0", "node00.npu0.die1")
    assert not any("vpc" in name for name in inside)
    assert routed(cloudmatrix, "vpc", "node00.cpu0", "node00.cpu0") == {}


def test_vpc_shares_the_card_and_caps_a_stream(cloudmatrix):
    assert rates(cloudmatrix, "vpc", "write", 0, 16) == pytest.approx([5])
    sixteen = rates(cloudmatrix, "vpc", "write", np.arange(16), 16 + np.arange(16))
    assert sixteen == pytest.approx([50 / 16] * 16)
    faster = load_fabric("cloudmatrix64", vpc_stream_rate=20e9)
    assert rates(faster, "vpc", "write", 0, 16) == pytest.approx([20])


def test_fourteen_dies_of_a_node_share_the_port_of_one(cloudmatrix):
    flows = rates(cloudmatrix, "aiv", "write", np.arange(2, 16), 0)
    assert flows == pytest.approx([14] * 14, rel=1e-3)


def test_one_die_that_writes_near_and_far_shares_one_engine(cloudmatrix):
    flows = rates(cloudmatrix, "aiv", "write", 0, [2, 16])
    assert flows == pytest.approx([137 / (1 + 137 / 135)] * 2, rel=1e-3)
    assert [f"{rate:.1f}" for rate in flows] == ["68.0", "68.0"]


def test_sixteen_dies_read_one_cpu(cloudmatrix):
    flows = rates(cloudmatrix, "aiv", "read", np.full(16, 768), np.arange(16))
    assert flows == pytest.approx([10] * 16, rel=1e-3)


def test_a_read_and_a_write_of_one_die_do_not_share_an_engine(cloudmatrix):
    put = cloudmatrix.transport("aiv").flows(cloudmatrix, "write", 0, 16, MIB)
    get = cloudmatrix.transport("aiv").flows(cloudmatrix, "read", 32, 0, MIB)
    assert not set(put.route_link.tolist()) & set(get.route_link.tolist())


def test_rdma_does_not_slow_ub_by_a_picosecond():
    fabric = load_fabric("cloudmatrix64")
    ranks = np.arange(64)
    src, dst = (c.ravel() for c in np.meshgrid(ranks, ranks, indexing="ij"))
    ub = fabric.transport("aiv").flows(fabric, "write", src, dst, 64 << 10, targets=63)
    kv = fabric.transport("roce").flows(fabric, "read", ranks, ranks + 64, 288 << 20)
    both = [np.concatenate(pair) for pair in ((ub.nbytes, kv.nbytes),)]
    ptr = np.concatenate([ub.route_ptr, ub.route_ptr[-1] + kv.route_ptr[1:]])
    alone = simulate_flows(
        fabric.capacity, 0, ub.nbytes, ub.route_ptr, ub.route_link, ub.route_share,
        startup_ps=ub.startup_ps,
    )  # fmt: skip
    together = simulate_flows(
        fabric.capacity,
        0,
        both[0],
        ptr,
        np.concatenate([ub.route_link, kv.route_link]),
        np.concatenate([ub.route_share, kv.route_share]),
        startup_ps=np.concatenate([ub.startup_ps, kv.startup_ps]),
    )
    assert together[: len(alone)].tolist() == alone.tolist()
    assert together[len(alone) :].min() > alone.max(), "the transfer goes on all the while"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": 0}, "nodes is 0: a supernode has 1 to 48"),
        ({"nodes": 49}, "nodes is 49"),
        ({"nodes": "8"}, "nodes is '8'"),
        ({"paths": "sprya"}, "paths is 'sprya' on plane ub; did you mean spray"),
        ({"aiv_cores": 0}, "aiv_cores is 0"),
        ({"aiv_cores": 49}, "1 to 48"),
        ({"aiv_cores": 2.5}, "aiv_cores is 2.5"),
        ({"rdma_paths": "ecmp"}, "rdma_paths is 'ecmp'; allowed: hash, spray"),
        ({"rdma_leaf_radix": 1}, "give 2 ports or more"),
        ({"rdma_leaf_radix": 16}, "rdma_leaf_radix 16 is too small.* join 128 dies, not 768"),
        ({"rdma_oversubscription": 0}, "rdma_oversubscription is 0"),
        ({"vpc_stream_rate": -1}, "vpc_stream_rate is -1"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(OptionError, match=words):
        load_fabric("cloudmatrix384", **options)


def test_every_constant_has_a_source_or_is_called_assumed():
    assert len(CONSTANTS) > 40
    for name, constant in CONSTANTS.items():
        assert set(constant.source.split(", ")) <= LETTERS, name
        assert constant.why, name
    fabric = load_fabric("cloudmatrix64")
    for transport in fabric.transports.values():
        assert {"startup_ps", "post_ps", "spread"} <= set(transport.sources)
        assert all(text.split(":")[0] for text in transport.sources.values())
