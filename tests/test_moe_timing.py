"""How long dispatch and combine take: the published rows, and what the times must follow."""

from dataclasses import replace

import numpy as np
import pytest

from ubnet.collectives.expert_parallel import ExpertParallel, default_experts
from ubnet.collectives.flow_program import FlowProgram
from ubnet.collectives.fused import Fused
from ubnet.collectives.fused_model import CLOUDMATRIX, FusedModel
from ubnet.collectives.moe_run import run_moe
from ubnet.collectives.routing import Routing
from ubnet.errors import NoRoute, OptionError
from ubnet.fabric import NODE, PACKAGE
from ubnet.fabrics import load_fabric

OPS = ("dispatch", "combine")

TABLE_7 = {
    "dispatch": {8: 116, 32: 133, 256: 152},
    "combine": {8: 118, 32: 146, 256: 149},
}
"""P, Table 7: microseconds by EP."""


def expert_parallel(fabric, op, ranks, routing=None, **options):
    routing = routing or Routing("balanced", default_experts(ranks))
    return ExpertParallel(op, fabric, np.arange(ranks), routing, **options)


def timed(fabric, op, ranks, routing=None, transport="aiv", **options):
    return expert_parallel(fabric, op, ranks, routing, **options).timing(transport)


@pytest.mark.parametrize("op", OPS)
def test_the_published_rows_within_three_percent_and_monotone_between(cloudmatrix, op):
    times = {ep: timed(cloudmatrix, op, ep).time_ps / 1e6 for ep in (8, 16, 32, 64, 128, 256)}
    for ep, published in TABLE_7[op].items():
        assert times[ep] == pytest.approx(published, rel=0.03)
    assert list(times.values()) == sorted(times.values())


def test_every_constant_has_a_source_and_at_most_five_are_fitted():
    sources = CLOUDMATRIX.sources
    constants = set(FusedModel.__dataclass_fields__) - {"sources"}
    assert set(sources) == constants
    assert sum(source.startswith("fitted") for source in sources.values()) <= 5


@pytest.mark.parametrize("op", OPS)
def test_a_balanced_time_is_the_sum_of_its_stages(cloudmatrix, op):
    """EP 8: one package peer, six near ones, each of which gets every token once."""
    model, size = CLOUDMATRIX, {"dispatch": 7680, "combine": 14336}[op]
    spread = 1 + 0.1 * (1 - 1 / 7)
    write = 6 * 128 * size / 137e9 * spread * 1e12
    latency = (0.92 + 0.2 + 0.2 - 0.08) * 1e6
    expected = model.launch_ps + latency + write
    if op == "dispatch":
        flags = 6 * (512 / 137e9 * 1e12 + 0.08e6) * spread + latency
        expected += model.token_ps + model.barrier_ps + flags + 2 * 1024 * size / 1.6
    else:
        expected += (1024 + 128) * size / 1.6
    assert timed(cloudmatrix, op, 8).time_ps == pytest.approx(expected, rel=1e-4)


def bytes_by_rank(fabric, ranks, copies, size):
    """Bytes that cross each rank's port, and each package link, by the routing alone."""
    end = np.arange(ranks)
    near = fabric.distance(end[:, None].repeat(ranks, 1), end[None, :].repeat(ranks, 0))
    port = np.where(near > PACKAGE, copies, 0) * size
    package = np.where(near == PACKAGE, copies, 0) * size
    far = np.where(near > NODE, copies, 0) * size
    return port, package, far


@pytest.mark.parametrize("routing", [Routing("balanced", skew=8), Routing("zipf", seed=4)])
@pytest.mark.parametrize("op", OPS)
def test_the_bytes_on_the_links_are_those_of_the_routing(cloudmatrix, op, routing):
    ranks = 32
    run = expert_parallel(cloudmatrix, op, ranks, routing)
    carried = dict(zip(cloudmatrix.resource_names, run.timing("aiv").resource_bytes, strict=True))
    # Counted from the routing token by token, not from the plan.
    copies = np.zeros((ranks, ranks), dtype=np.int64)
    for rank in range(ranks):
        for expert in routing.of(rank, 128)[0].ravel():
            copies[rank, expert // 8] += 1
    size, flag = {"dispatch": (7680, 512), "combine": (14336, 0)}[op]
    sent = (copies if op == "dispatch" else copies.T) * size + flag
    port, package, far = bytes_by_rank(cloudmatrix, ranks, sent, 1)
    for rank in range(ranks):
        name = cloudmatrix.endpoints[rank].name
        assert carried[f"{name}.up"] == pytest.approx(port[rank].sum(), rel=1e-12)
        assert carried[f"{name}.down"] == pytest.approx(port[:, rank].sum(), rel=1e-12)
    links = [v for k, v in carried.items() if "package" in tier(cloudmatrix, k)]
    assert sum(links) == pytest.approx(package.sum(), rel=1e-12)
    ups = [v for k, v in carried.items() if tier(cloudmatrix, k) == "node uplink"]
    assert sum(ups) == pytest.approx(far.sum(), rel=1e-12)


def tier(fabric, name):
    return fabric.resource_tiers[fabric.resource_names.index(name)]


def needs_us(fabric, copies, size):
    """What each of 32 ranks needs for sending these copies by its engine, and in by its port."""
    far = bytes_by_rank(fabric, 32, copies, size)[2]
    port, package, _ = bytes_by_rank(fabric, 32, copies, size)
    fan = ((port + package) > 0).sum(axis=1)
    engine = (port - far).sum(axis=1) / 137e3 + far.sum(axis=1) / 135e3
    return engine * (1 + 0.1 * (1 - 1 / fan)), port.sum(axis=0) / 196e3


def test_a_hot_expert_costs_what_the_fullest_rank_needs_for_its_extra_bytes(cloudmatrix):
    """EP 32, 8 times the mean: the fullest rank's port in the dispatch, its engine in combine."""
    even = expert_parallel(cloudmatrix, "dispatch", 32).plan.copies
    hot = expert_parallel(cloudmatrix, "dispatch", 32, Routing("balanced", skew=8)).plan.copies
    memory = {"dispatch": 2 * (hot.sum(axis=0).max() - 1024) * 7680 / 1.6e6, "combine": 0}
    for op, size, resource in (("dispatch", 7680, "down"), ("combine", 14336, "write")):
        was = timed(cloudmatrix, op, 32)
        now = timed(cloudmatrix, op, 32, Routing("balanced", skew=8))
        assert now.busiest == f"node00.npu0.die0.{resource}"
        before, after = (
            max(need.max() for need in needs_us(cloudmatrix, c if op == "dispatch" else c.T, size))
            for c in (even, hot)
        )
        moving = now.stage_end_ps["tokens"].max() - was.stage_end_ps["tokens"].max()
        assert moving / 1e6 == pytest.approx(after - before, rel=0.05)
        # The fullest rank's memory has more rows to assemble, too.
        longer = (now.time_ps - was.time_ps) / 1e6
        assert longer == pytest.approx(after - before + memory[op], rel=0.05)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("ranks", [2, 4, 16, 32])
@pytest.mark.parametrize("routing", ["balanced", "uniform", "zipf"])
def test_no_resource_carries_more_than_it_can(cloudmatrix, op, ranks, routing):
    timing = timed(cloudmatrix, op, ranks, Routing(routing))
    most = cloudmatrix.capacity * timing.time_ps / 1e12
    assert (timing.resource_bytes <= most * (1 + 1e-9)).all()
    assert 0 < timing.lower_bound_ps <= timing.time_ps
    assert 0 < timing.efficiency <= 1
    assert 0 < timing.busiest_utilisation <= 1
    for ends in timing.stage_end_ps.values():
        assert (ends <= timing.rank_end_ps).all()


@pytest.mark.parametrize("op", OPS)
def test_sdma_pays_its_start_up_and_auto_takes_the_fastest(cloudmatrix, op):
    run = expert_parallel(cloudmatrix, op, 16)
    times = {name: run.timing(name).time_ps for name in ("aiv", "urma", "sdma")}
    assert times["aiv"] < times["urma"] < times["sdma"]
    assert times["sdma"] - times["aiv"] > 9e6 * (2 if op == "dispatch" else 1)
    auto = run.timing()
    assert (auto.transport, auto.time_ps) == ("aiv", times["aiv"])
    assert all(name in auto.reason for name in ("aiv", "sdma"))
    assert run.timing(plane="rdma").transport == "roce"


@pytest.mark.parametrize("op", OPS)
def test_fewer_cores_take_longer(op):
    times = [
        timed(load_fabric("cloudmatrix64", aiv_cores=cores), op, 8).time_ps for cores in (48, 24, 8)
    ]
    assert times == sorted(times)
    assert times[2] > 1.5 * times[0]


@pytest.mark.parametrize("op", OPS)
def test_more_tokens_take_longer_and_none_still_meet(cloudmatrix, op):
    times = [timed(cloudmatrix, op, 8, tokens=n).time_ps for n in (0, 1, 7, 128, 1000)]
    assert times == sorted(times)
    assert times[0] >= CLOUDMATRIX.launch_ps + (CLOUDMATRIX.barrier_ps if op == "dispatch" else 0)


def test_one_rank_uses_no_link(cloudmatrix):
    for op in OPS:
        timing = timed(cloudmatrix, op, 1)
        assert timing.resource_bytes.sum() == 0
        assert timing.busiest == ""
        assert timing.busiest_utilisation == 0
        assert timing.time_ps > CLOUDMATRIX.launch_ps


def test_ranks_with_tokens_of_their_own_number(cloudmatrix):
    """Only rank 0 sends: the others wait for its flag and for nothing else."""
    copies = np.zeros((4, 4), dtype=np.int64)
    copies[0] = [0, 10, 20, 30]
    fused = Fused(cloudmatrix, np.arange(4) * 2, copies, np.array([60, 0, 0, 0]))
    aiv = cloudmatrix.transport("aiv")
    timing = fused.dispatch(aiv).timed(cloudmatrix, aiv, fused.started)
    tokens = timing.stage_end_ps["tokens"]
    assert (tokens[1:] == CLOUDMATRIX.launch_ps).all()
    assert (timing.stage_end_ps["arrived"][1:] > tokens[0] + CLOUDMATRIX.barrier_ps).all()
    assert np.argmax(timing.rank_end_ps) == 3


def test_the_constants_are_what_they_say(cloudmatrix):
    run = expert_parallel(cloudmatrix, "dispatch", 8)
    slower = replace(CLOUDMATRIX, launch_ps=CLOUDMATRIX.launch_ps + 5, barrier_ps=0)
    later = replace(run, model=slower).timing("aiv").time_ps
    assert later == run.timing("aiv").time_ps + 5 - CLOUDMATRIX.barrier_ps


def test_a_run_for_a_table(cloudmatrix):
    result = run_moe("dispatch", cloudmatrix, np.arange(8), tokens=32, hidden=32, skew=3)
    assert (result.wrong, result.algorithm, result.timing.transport) == (0, "fused", "aiv")
    assert result.size_bytes == 32 * 8 * (32 + 512)
    assert result.hottest == 3
    assert run_moe("combine", cloudmatrix, np.arange(8), tokens=4, real=False).wrong is None


def test_what_is_not_allowed_is_named(cloudmatrix):
    with pytest.raises(OptionError, match="did you mean combine"):
        expert_parallel(cloudmatrix, "combin", 8)
    with pytest.raises(OptionError, match="multiple of the ranks, such as 264"):
        expert_parallel(cloudmatrix, "combine", 24, Routing("balanced", 256))
    with pytest.raises(OptionError, match="tokens of 0 or more"):
        expert_parallel(cloudmatrix, "combine", 8, tokens=-1)
    with pytest.raises(NoRoute, match="allowed: aiv"):
        timed(cloudmatrix, "combine", 8, transport="carrier pigeon")
    with pytest.raises(NoRoute, match="no plane"):
        expert_parallel(cloudmatrix, "combine", 8).timing(plane="sky")


def test_a_flow_program_waits_as_it_says():
    program = FlowProgram(3)
    first = program.meet([1, 2, 3])
    second = program.meet(10, (np.array([0, 0, 2]), first[[1, 2, 0]]))
    assert program.run(np.ones(1))[second].tolist() == [13, 10, 11]


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("ep", [8, 32])
def test_the_published_rows_with_real_bytes(cloudmatrix, op, ep):
    assert expert_parallel(cloudmatrix, op, ep).wrong() == 0
