"""Transports: Table 1, start-ups, engines, posting and spread."""

import numpy as np
import pytest

from ubnet.errors import FabricError, NoRoute, OptionError
from ubnet.fabric import FAR, NODE
from ubnet.fabrics import load_fabric
from ubnet.flow_ends import simulate_flows
from ubnet.transport import Transport, ideal_transports

MIB = 1 << 20
DIE, MATE, NEAR, FAR_DIE, CPU_NEAR, CPU_FAR = 0, 1, 3, 77, 769, 775
POST_PS = 80_000


def time_ps(fabric, name, op, active, passive, nbytes, **more):
    """Return the time of one transfer alone; `active` drives it."""
    src, dst = (active, passive) if op == "write" else (passive, active)
    flows = fabric.transport(name).flows(fabric, op, src, dst, nbytes, **more)
    return run(fabric, flows)[0]


def run(fabric, flows):
    return simulate_flows(fabric.capacity, 0, **flows.post_arguments()).tolist()


# arXiv 2506.12708 v2, Table 1: latency of 512 B in us and rate in GB/s.
TABLE_1 = [
    ("read", FAR_DIE, "1.9", 164),
    ("read", NEAR, "1.2", 167),
    ("write", FAR_DIE, "2.1", 135),
    ("write", NEAR, "1.3", 137),
    ("read", CPU_FAR, "1.7", 147),
    ("read", CPU_NEAR, "1.0", 151),
    ("write", CPU_FAR, "1.9", 107),
    ("write", CPU_NEAR, "1.1", 110),
]


@pytest.mark.parametrize(("op", "passive", "latency_us", "rate"), TABLE_1)
def test_table_1_latencies_and_rates(cloudmatrix, op, passive, latency_us, rate):
    assert f"{time_ps(cloudmatrix, 'aiv', op, DIE, passive, 512) / 1e6:.1f}" == latency_us
    large = time_ps(cloudmatrix, "aiv", op, DIE, passive, 64 * MIB)
    assert 64 * MIB / large * 1e3 == pytest.approx(rate, rel=0.01)


def test_sdma_starts_nine_us_later_and_moves_as_fast(cloudmatrix):
    for op, passive, _, _ in TABLE_1:
        aiv, sdma = (time_ps(cloudmatrix, t, op, DIE, passive, 512) for t in ("aiv", "sdma"))
        assert 9.0e6 < sdma - aiv < 9.5e6
        aiv, sdma = (time_ps(cloudmatrix, t, op, DIE, passive, 64 * MIB) for t in ("aiv", "sdma"))
        assert sdma == pytest.approx(aiv, rel=0.05)


@pytest.mark.parametrize(("cores", "part"), [(48, 1.0), (24, 0.95), (8, 0.63), (1, 0.118)])
def test_aiv_draws_what_its_cores_can(cores, part):
    fabric = load_fabric("cloudmatrix64", aiv_cores=cores)
    whole = 64 * MIB / 137e9 * 1e12
    taken = time_ps(fabric, "aiv", "write", DIE, NEAR, 64 * MIB)
    assert whole / taken == pytest.approx(part, rel=0.01)
    sdma = time_ps(fabric, "sdma", "write", DIE, NEAR, 64 * MIB)
    assert (sdma < taken) == (cores <= 24), "SDMA overtakes where the cores do not suffice"


def test_two_dies_of_a_package_need_no_engine_and_no_port(cloudmatrix):
    for op in ("read", "write"):
        assert time_ps(cloudmatrix, "aiv", op, DIE, MATE, 0) == 200_000
        assert time_ps(cloudmatrix, "sdma", op, DIE, MATE, 0) == 10_200_000
        assert time_ps(cloudmatrix, "urma", op, DIE, MATE, 0) == 3_200_000
        large = time_ps(cloudmatrix, "aiv", op, DIE, MATE, 64 * MIB)
        assert large == pytest.approx(200_000 + 64 * MIB / 210e9 * 1e12)


def test_cpus_hold_no_engine(cloudmatrix):
    flows = cloudmatrix.transport("aiv").flows(cloudmatrix, "write", CPU_NEAR, CPU_FAR, MIB)
    tiers = [cloudmatrix.resource_tiers[r] for r in flows.route_link]
    assert tiers == ["cpu port", "node uplink", "node downlink", "cpu port"]
    assert run(cloudmatrix, flows)[0] == pytest.approx(720_000 + 1_150_000 + MIB / 160e9 * 1e12)


def test_a_transfer_to_oneself_takes_no_time(cloudmatrix):
    for name in cloudmatrix.transports:
        assert time_ps(cloudmatrix, name, "write", 5, 5, MIB) == 0


def test_posting_is_occupancy_of_the_engine(cloudmatrix):
    aiv = cloudmatrix.transport("aiv")
    alone = time_ps(cloudmatrix, "aiv", "write", DIE, NEAR, 4096)
    flows = aiv.flows(cloudmatrix, "write", DIE, np.arange(2, 16), 4096)
    ends = run(cloudmatrix, flows)
    assert len(set(ends)) == 1, "equal messages stay equal"
    service = POST_PS + 4096 / 137e9 * 1e12
    assert ends[0] == pytest.approx(alone + 13 * service, abs=2)


def test_a_message_of_no_bytes_still_pays_for_its_posting(cloudmatrix):
    assert time_ps(cloudmatrix, "aiv", "write", DIE, NEAR, 0) == 920_000 + 400_000
    tokens = time_ps(cloudmatrix, "aiv", "write", DIE, NEAR, 0, messages=0)
    assert tokens == 920_000 + 400_000 - POST_PS
    several = time_ps(cloudmatrix, "aiv", "write", DIE, NEAR, 0, messages=3)
    assert several == 920_000 + 400_000 + 2 * POST_PS


def test_many_targets_widen_the_share_of_the_engine(cloudmatrix):
    aiv = cloudmatrix.transport("aiv")
    shares = [
        aiv.flows(cloudmatrix, "write", DIE, NEAR, MIB, targets=k, messages=0).route_share[0]
        for k in (1, 2, 100)
    ]
    assert shares == pytest.approx([1, 1 + aiv.spread / 2, 1 + aiv.spread * 0.99])


def test_far_and_cpu_flows_take_a_larger_share_of_their_engine(cloudmatrix):
    aiv = cloudmatrix.transport("aiv")
    goals = {FAR_DIE: 137 / 135, NEAR: 1, CPU_NEAR: 137 / 110, CPU_FAR: 137 / 107}
    for passive, share in goals.items():
        flows = aiv.flows(cloudmatrix, "write", DIE, passive, MIB, messages=0)
        assert flows.route_share[0] == pytest.approx(share)
        assert cloudmatrix.resource_names[flows.route_link[0]] == "node00.npu0.die0.write"
    flows = aiv.flows(cloudmatrix, "read", FAR_DIE, DIE, MIB, messages=0)
    assert flows.route_share[0] == pytest.approx(167 / 164)
    assert cloudmatrix.resource_names[flows.route_link[0]] == "node00.npu0.die0.read"


def test_roce_holds_engines_of_its_own_and_carries_headers(cloudmatrix):
    flows = cloudmatrix.transport("roce").flows(cloudmatrix, "read", 40, DIE, 64 * MIB)
    names = [cloudmatrix.resource_names[r] for r in flows.route_link]
    assert names[0] == "node00.npu0.die0.nic_read"
    assert flows.route_share[1:] == pytest.approx([4178 / 4096] * (len(names) - 1))
    assert 64 * MIB / run(cloudmatrix, flows)[0] * 1e3 == pytest.approx(24.5, rel=0.005)
    # Table: a prompt of 4,096 tokens, 70,272 bytes each, takes 11.75 ms and the start-up.
    kv = time_ps(cloudmatrix, "roce", "read", DIE, 40, 4096 * 70_272)
    assert kv / 1e9 == pytest.approx(11.75, rel=0.002)


def test_columns_agree_with_flows_asked_for_one_by_one(cloudmatrix):
    rng = np.random.default_rng(11)
    src, dst = rng.integers(0, 960, (2, 50))
    sizes = rng.integers(0, MIB, 50)
    aiv = cloudmatrix.transport("aiv")
    many = aiv.flows(cloudmatrix, "read", src, dst, sizes, targets=7)
    for i in range(50):
        one = aiv.flows(cloudmatrix, "read", src[i], dst[i], sizes[i], targets=7)
        part = slice(many.route_ptr[i], many.route_ptr[i + 1])
        assert many.route_link[part].tolist() == one.route_link.tolist()
        assert many.route_share[part].tolist() == one.route_share.tolist()
        assert many.startup_ps[i] == one.startup_ps[0]
        assert many.latency_ps[i] == one.latency_ps[0]


def test_no_transfers_give_no_columns(cloudmatrix):
    none = np.zeros(0, dtype=np.int64)
    for name in cloudmatrix.transports:
        flows = cloudmatrix.transport(name).flows(cloudmatrix, "write", none, none, none)
        assert flows.route_ptr.tolist() == [0]
        assert len(flows.nbytes) == len(flows.route_link) == 0


def test_what_is_wrong_is_named(cloudmatrix):
    aiv = cloudmatrix.transport("aiv")
    with pytest.raises(OptionError, match="op is 'put'; allowed: read, write"):
        aiv.flows(cloudmatrix, "put", 0, 1, 5)
    with pytest.raises(FabricError, match="no endpoint number 960: give 0 to 959"):
        aiv.flows(cloudmatrix, "write", 0, 960, 5)
    with pytest.raises(OptionError, match=r"lies in \(0, 1\], not 0"):
        aiv.with_fraction(0)
    only = Transport("only", "ub", {("write", "die"): 5})
    with pytest.raises(NoRoute, match="only has no write whose passive side is a cpu"):
        only.flows(cloudmatrix, "write", 0, CPU_NEAR, 5)


def test_a_plane_without_a_transport_gets_an_ideal_one():
    given = Transport("dma", "b", {("write", "*"): 0, ("read", "*"): 0})
    made = ideal_transports(["a", "b", "c"], [given])
    assert [(t.name, t.plane) for t in made] == [("wire", "a"), ("wire_c", "c")]
    assert made[0].startup_of("read", "die") == 0
    taken = Transport("wire", "b", {})
    assert [t.name for t in ideal_transports(["a", "b"], [taken])] == ["wire_a"]


def test_shares_stand_for_what_table_1_measures():
    share = load_fabric("cloudmatrix64").transport("aiv").share
    assert share["write", "die", FAR] == 137 / 135
    assert share["read", "cpu", NODE] == 167 / 151
    assert ("write", "die", NODE) not in share


@pytest.mark.parametrize("size", [0, 1, 8])
def test_many_small_messages_of_one_die_follow_each_other(cloudmatrix, size):
    """Flags without bytes are posted like others: k of them hold the engine k times."""
    targets = np.arange(16, 116)
    k = len(targets)
    flows = cloudmatrix.transport("aiv").flows(cloudmatrix, "write", DIE, targets, size, targets=k)
    spread = 1 + cloudmatrix.transport("aiv").spread * (1 - 1 / k)
    end = max(run(cloudmatrix, flows))
    start = int(flows.startup_ps.max())
    assert end - start == pytest.approx(k * POST_PS * spread, rel=0.01)


def test_auto_leaves_out_what_must_be_asked_for(cloudmatrix):
    names = [t.name for t in cloudmatrix.automatic_transports("ub")]
    assert names == ["aiv", "sdma"]
    with pytest.raises(NoRoute, match="no plane 'nvlink'"):
        cloudmatrix.automatic_transports("nvlink")
