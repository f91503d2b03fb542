from dataclasses import dataclass

import numpy as np
import pytest

from ubnet.errors import NoRoute, ScheduleError
from ubnet.fabric import Fabric, Ints, Routes
from ubnet.fabric_builder import FabricBuilder
from ubnet.fabrics import load_fabric
from ubnet.flowsim import FlowSim
from ubnet.memory import capacity_with_memory, memory_resources, resource_name
from ubnet.schedule import OUTPUT, REDUCE, SCRATCH, Schedule
from ubnet.schedule_builder import ScheduleBuilder
from ubnet.schedule_flows import ScheduleFlows, fan_out, schedule_flows
from ubnet.timing import Timing, pick_transport, time_schedule
from ubnet.transport import Transport

ALPHA_PS, LATENCY_PS, RATE, MEMORY_RATE = 1_000_000, 200_000, 1e9, 4e9


@dataclass(frozen=True)
class Crossbar:
    """Each endpoint has a port out and a port in; all ports meet in one ideal switch."""

    out: Ints
    into: Ints

    def routes(self, src: Ints, dst: Ints, flow: Ints) -> Routes:
        apart = src != dst
        ptr = np.concatenate([[0], np.cumsum(2 * apart)])
        resource = np.stack([self.out[src], self.into[dst]], axis=1)[apart].reshape(-1)
        latency = np.where(apart, LATENCY_PS, 0)
        return Routes(ptr, resource, np.ones(len(resource)), latency)


def crossbar(endpoints: int, **transport: object) -> Fabric:
    """Build an ideal fabric: equal ports, one transport, a memory that reduces."""
    build = FabricBuilder("crossbar")
    names = [f"e{i}" for i in range(endpoints)]
    here = np.arange(endpoints)
    build.add_endpoints(
        [*names, "host"],
        "die",
        node=np.arange(endpoints + 1),
        package=np.arange(endpoints + 1),
        memory_rate=MEMORY_RATE,
    )
    switch = build.add_switches(["switch"], "L1", latency_ps=LATENCY_PS)
    link = {"capacity": RATE, "latency_ps": 0, "plane": "ub", "tier": "port"}
    hub = np.full(endpoints, switch[0])
    out = build.add_links(here, hub, **link)  # type: ignore[arg-type]
    into = build.add_links(hub, here, **link)  # type: ignore[arg-type]
    build.add_plane("ub", "single", Crossbar(out, into))
    build.add_engines("write", here, capacity=2 * RATE, tier="engine")
    build.add_engines("read", here, capacity=2 * RATE, tier="engine")
    startup = {("write", "*"): ALPHA_PS, ("read", "*"): ALPHA_PS}
    build.add_transport(Transport("wire", "ub", startup, **transport))  # type: ignore[arg-type]
    return build.build()


def mesh_all_to_all(ranks: int, count: int) -> Schedule:
    builder = ScheduleBuilder("all_to_all mesh", ranks, [ranks * count, ranks * count, 0])
    src, dst = (a.reshape(-1) for a in np.indices((ranks, ranks)))
    builder.add(0, src, dst, dst * count, src * count, count)
    return builder.build()


def mesh_all_reduce(ranks: int, count: int) -> Schedule:
    """Build one step of reductions (each rank sums its block) and one of copies."""
    builder = ScheduleBuilder("all_reduce mesh", ranks, [ranks * count, ranks * count, 0])
    here = np.arange(ranks)
    own = builder.add(0, here, here, here * count, here * count, count)
    src = np.repeat(here, ranks - 1)
    dst = (src + np.tile(np.arange(1, ranks), ranks)) % ranks
    order = np.argsort(dst, kind="stable")
    src, dst = src[order], dst[order]
    sums = builder.add(1, src, dst, dst * count, dst * count, count, kind=REDUCE, after=own[dst])
    join = builder.join(2, here, after=sums.reshape(ranks, ranks - 1))
    # Who summed a block sends it to those who sent to it.
    block = dst * count
    builder.add(3, dst, src, block, block, count, src_buf=OUTPUT, after=join[dst])
    return builder.build()


def ring_all_gather(ranks: int, count: int) -> Schedule:
    builder = ScheduleBuilder("all_gather ring", ranks, [count, ranks * count, 0])
    here = np.arange(ranks)
    before = builder.add(0, here, here, 0, here * count, count)
    for k in range(ranks - 1):
        block = (here - k) % ranks * count
        sent = builder.add(
            k + 1, here, (here + 1) % ranks, block, block, count, src_buf=OUTPUT, after=before
        )
        before = np.roll(sent, 1)
    return builder.build()


def time_on(fabric: Fabric, schedule: Schedule, **options: object) -> Timing:
    ranks = np.arange(schedule.ranks)
    return time_schedule(schedule, fabric, ranks, 4, **options)  # type: ignore[arg-type]


def flows_of(schedule: Schedule, fabric: Fabric, op: str = "write") -> ScheduleFlows:
    transport = fabric.transport("wire")
    return schedule_flows(schedule, fabric, np.arange(schedule.ranks), 4, transport, op)


MESSAGE_PS = ALPHA_PS + LATENCY_PS


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("count", [0, 1, 1001])
def test_mesh_all_to_all_takes_one_start_and_all_bytes(ranks: int, count: int) -> None:
    timing = time_on(crossbar(ranks), mesh_all_to_all(ranks, count))
    wire_ps = (ranks - 1) * count * 4 / RATE * 1e12
    assert timing.time_ps == pytest.approx((MESSAGE_PS if ranks > 1 else 0) + wire_ps, abs=1)
    assert timing.efficiency == pytest.approx(1, abs=1e-6)
    assert timing.rank_end_ps.tolist() == [timing.time_ps] * ranks
    if ranks > 1 and count:
        assert timing.busiest == "e0->switch"
        assert timing.busiest_utilisation == pytest.approx(wire_ps / timing.time_ps)


@pytest.mark.parametrize("ranks", [2, 3, 7, 16])
def test_ring_all_gather_takes_a_start_and_a_block_per_step(ranks: int) -> None:
    timing = time_on(crossbar(ranks), ring_all_gather(ranks, 1000))
    step_ps = MESSAGE_PS + 4000 / RATE * 1e12
    assert timing.time_ps == (ranks - 1) * step_ps
    ends = timing.op_end_ps[ranks:].reshape(ranks - 1, ranks)
    assert (ends == step_ps * np.arange(1, ranks)[:, None]).all()
    assert (timing.op_end_ps[:ranks] == 0).all()


@pytest.mark.parametrize("ranks", [2, 3, 7, 16])
def test_mesh_all_reduce_adds_one_pass_over_the_memory(ranks: int) -> None:
    fabric = crossbar(ranks)
    timing = time_on(fabric, mesh_all_reduce(ranks, 1000))
    wire_ps = (ranks - 1) * 4000 / RATE * 1e12
    pass_ps = (ranks - 1) * 4000 / MEMORY_RATE * 1e12
    assert timing.time_ps == pytest.approx(2 * (MESSAGE_PS + wire_ps) + pass_ps, abs=3)
    assert timing.lower_bound_ps == pytest.approx(MESSAGE_PS + 2 * wire_ps, abs=1)
    memory = timing.resource_bytes[memory_resources(fabric)]
    assert memory.tolist() == [(ranks - 1) * 4000.0] * ranks + [0.0]
    sums = slice(ranks, ranks * ranks)
    assert (timing.op_end_ps[sums] == round(MESSAGE_PS + wire_ps + pass_ps)).all()


def test_passes_of_one_memory_share_its_rate_and_local_ones_count() -> None:
    builder = ScheduleBuilder("two passes", 2, [1000, 2000, 1000])
    here = builder.add(0, 1, 1, 0, 0, 1000, kind=REDUCE)
    also = builder.add(1, 1, 1, 0, 1000, 1000, kind=REDUCE)
    builder.add(2, 1, 1, 0, 0, 1000, dst_buf=SCRATCH)
    timing = time_on(crossbar(2), builder.build())
    both_ps = 2 * 4000 / MEMORY_RATE * 1e12
    assert timing.op_end_ps[[here[0], also[0]]].tolist() == [both_ps, both_ps]
    assert timing.op_end_ps[2] == 0
    assert timing.rank_end_ps.tolist() == [0, both_ps]
    assert timing.busiest == "e1.memory"
    assert timing.busiest_utilisation == 1


def test_a_free_memory_costs_no_time() -> None:
    build = FabricBuilder("free")
    build.add_endpoints(["a"], "die", node=0, package=0)
    build.add_endpoints(["b"], "die", node=0, package=1, memory_rate=1e9)
    nowhere = np.zeros(0, dtype=np.int64)
    build.add_plane("ub", "none", Crossbar(nowhere, nowhere))
    fabric = build.build()
    assert memory_resources(fabric).tolist() == [-1, 0]
    assert capacity_with_memory(fabric).tolist() == [1e9]
    assert resource_name(fabric, 0) == "b.memory"
    builder = ScheduleBuilder("sum", 2, [1000, 1000, 0])
    builder.add(0, [0, 1], [0, 1], 0, 0, 1000, kind=REDUCE)
    wire = Transport("wire", "ub", {})
    timing = time_schedule(builder.build(), fabric, [0, 1], 4, wire)
    assert timing.rank_end_ps.tolist() == [0, 4_000_000]


def test_spread_counts_the_distinct_targets_of_a_step() -> None:
    builder = ScheduleBuilder("fan", 5, [10, 10, 0])
    builder.add(7, 0, [0, 1, 2, 2, 3], 0, 0, 1)
    builder.add(9, [0, 0, 1], [1, 2, 2], 0, 0, 1)
    s = builder.build()
    moved = np.flatnonzero(s.transfers)
    fabric = crossbar(5, spread=0.1)
    place = np.arange(5)
    wire = fabric.transport("wire")
    assert fan_out(s, moved, fabric, place, wire, "write").tolist() == [3, 3, 3, 3, 2, 2, 1]
    assert fan_out(s, moved, fabric, place, wire, "read").tolist() == [1, 1, 1, 1, 1, 2, 2]
    none = crossbar(5).transport("wire")
    assert fan_out(s, moved, fabric, place, none, "write").tolist() == [1] * 7


def test_mates_of_a_package_are_no_targets_of_the_engine() -> None:
    fabric = load_fabric("cloudmatrix384")
    s = mesh_all_to_all(4, 1)
    moved = np.flatnonzero(s.transfers)
    place = np.array([0, 1, 2, 3])
    assert set(fan_out(s, moved, fabric, place, fabric.transport("aiv"), "write")) == {2}


def test_post_is_paid_once_per_operation_by_the_driving_engine() -> None:
    post = {"post_ps": 100_000, "engine": {"write": "write", "read": "read"}}
    fabric = crossbar(4, **post)
    builder = ScheduleBuilder("one to three", 4, [30, 30, 0])
    builder.add(0, 0, [1, 2, 3], 0, 0, 1)
    timing = time_on(fabric, builder.build())
    engine = fabric.engines["write"][0]
    busy_ps = timing.resource_bytes[engine] / (2 * RATE) * 1e12
    assert busy_ps == pytest.approx(3 * 100_000 + 3 * 4 / (2 * RATE) * 1e12)
    # The start-up holds one posting, which is the occupancy of the first message.
    assert timing.time_ps == pytest.approx(MESSAGE_PS - 100_000 + busy_ps, abs=1)
    reading = time_on(fabric, builder.build(), op="read")
    assert reading.resource_bytes[fabric.engines["read"][[1, 2, 3]]] == pytest.approx(
        [busy_ps / 3 * 2 * RATE / 1e12] * 3
    )


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_the_pass_of_a_chunk_overlaps_the_transfer_of_the_next(chunks: int) -> None:
    count = 10_000 // chunks
    builder = ScheduleBuilder("reduce", 2, [chunks * count] * 3)
    before = None
    for k in range(chunks):
        # The next chunk waits for the arrival of this one, not for its reduction.
        off, scratch = k * count, {"dst_buf": SCRATCH, "after": before}
        before = builder.add(2 * k, 1, 0, off, off, count, **scratch)
        builder.add(2 * k + 1, 0, 0, off, off, count, src_buf=SCRATCH, kind=REDUCE, after=before)
    timing = time_on(crossbar(2), builder.build())
    transfer_ps, pass_ps = (count * 4 / rate * 1e12 for rate in (RATE, MEMORY_RATE))
    assert timing.time_ps == chunks * (MESSAGE_PS + transfer_ps) + pass_ps


def test_zero_byte_messages_cost_their_start_up() -> None:
    builder = ScheduleBuilder("barrier", 3, [0, 0, 0])
    here = np.arange(3)
    first = builder.add(0, here, (here + 1) % 3, 0, 0, 0)
    builder.add(1, here, (here + 2) % 3, 0, 0, 0, after=np.roll(first, 1))
    timing = time_on(crossbar(3), builder.build())
    assert timing.time_ps == 2 * MESSAGE_PS
    assert (timing.busiest, timing.busiest_utilisation) == ("", 0)
    assert timing.lower_bound_ps == MESSAGE_PS


def test_nothing_to_do_takes_no_time() -> None:
    timing = time_on(crossbar(1), ScheduleBuilder("nothing", 1, [0, 0, 0]).build())
    assert (timing.time_ps, timing.efficiency, timing.busiest) == (0, 1, "")


def test_rank_ends_wait_for_all_that_a_rank_sends_and_receives() -> None:
    rng = np.random.default_rng(2)
    for schedule in (
        mesh_all_to_all(5, 10),
        mesh_all_reduce(5, 10),
        ring_all_gather(5, 10),
        random_sends(rng, 6, 60),
    ):
        for op in ("write", "read"):
            timing = time_on(crossbar(schedule.ranks), schedule, op=op)
            for rank in range(schedule.ranks):
                mine = (schedule.src == rank) | (schedule.dst == rank)
                latest = timing.op_end_ps[mine].max(initial=0)
                # The source of a reduction does not wait for the pass over the memory.
                mine &= ~(schedule.reduces & (schedule.dst != rank))
                own = timing.op_end_ps[mine].max(initial=0)
                assert own <= timing.rank_end_ps[rank] <= latest
            assert timing.time_ps == timing.op_end_ps.max()


def random_sends(rng: np.random.Generator, ranks: int, sends: int) -> Schedule:
    builder = ScheduleBuilder("random", ranks, [64, 64, 0])
    for step in range(sends):
        src, dst = rng.integers(0, ranks, 2)
        after = rng.integers(-1, step, rng.integers(0, 4)) if step else np.zeros(0, dtype=int)
        kind = int(rng.integers(0, 2))
        builder.add(step // 3, src, dst, 0, 0, rng.integers(0, 65), kind=kind, after=after.tolist())
    s = builder.build()
    try:
        s.validate(ordering=False)
    except ScheduleError:
        return random_sends(rng, ranks, sends)
    return s


def test_flows_posted_in_parts_end_as_posted_at_once() -> None:
    fabric = crossbar(5)
    for schedule in (mesh_all_reduce(5, 100), ring_all_gather(5, 100)):
        flows = flows_of(schedule, fabric)
        whole = FlowSim(capacity_with_memory(fabric))
        whole.post(**flows.post_arguments())
        whole.run()
        parts = FlowSim(capacity_with_memory(fabric))
        posted = np.full(len(flows), -1)
        # Ranks arrive one by one at the same instant: what a rank completes is posted, ascending.
        for rank in range(5):
            here = np.flatnonzero((posted < 0) & (flows.flow_ranks <= rank).all(axis=1))
            while len(here):
                waits = [flows.dep[flows.dep_ptr[f] : flows.dep_ptr[f + 1]] for f in here.tolist()]
                able = [
                    f
                    for f, dep in zip(here.tolist(), waits, strict=True)
                    if (posted[dep] >= 0).all()
                ]
                if not able:
                    break
                parts.post(**flows.select(np.array(able), parts.size, posted))
                here = np.flatnonzero((posted < 0) & (flows.flow_ranks <= rank).all(axis=1))
        assert (posted >= 0).all()
        parts.run()
        assert parts.finish_ps[posted].tolist() == whole.finish_ps.tolist()


def test_flows_that_wait_for_unposted_ones_are_refused() -> None:
    flows = flows_of(ring_all_gather(3, 10), crossbar(3))
    with pytest.raises(ScheduleError, match="flow 6 waits for flows that are not posted"):
        flows.select(np.array([6]), 0, np.full(len(flows), -1))


def test_a_chain_inside_one_pass_is_refused() -> None:
    builder = ScheduleBuilder("chain", 3, [4, 4, 0])
    first = builder.add(0, 1, 0, 0, 0, 4, kind=REDUCE)
    builder.add(0, 2, 0, 0, 0, 4, kind=REDUCE, after=first)
    with pytest.raises(ScheduleError, match="one pass"):
        flows_of(builder.build(), crossbar(3))


def test_an_unknown_transport_or_plane_is_refused() -> None:
    with pytest.raises(NoRoute, match="no transport 'wir'; did you mean wire"):
        time_on(crossbar(2), mesh_all_to_all(2, 1), transport="wir")
    with pytest.raises(NoRoute, match="no plane 'rdma'"):
        time_on(crossbar(2), mesh_all_to_all(2, 1), plane="rdma")


@pytest.mark.parametrize("ranks", [2, 4, 16, 32])
@pytest.mark.parametrize("op", ["write", "read"])
@pytest.mark.parametrize("transport", ["auto", "aiv", "sdma", "roce", "vpc"])
def test_no_resource_carries_more_than_its_capacity(ranks: int, op: str, transport: str) -> None:
    fabric = load_fabric("cloudmatrix384")
    capacity = capacity_with_memory(fabric)
    for make in (mesh_all_to_all, mesh_all_reduce, ring_all_gather):
        for count in (1, 1000, 100_000):
            timing = time_on(fabric, make(ranks, count), transport=transport, op=op)
            used = timing.resource_bytes / (timing.time_ps * 1e-12)
            assert (used <= capacity * (1 + 1e-9)).all()
            assert 0 < timing.efficiency <= 1
            assert timing.busiest_utilisation <= 1
            need = timing.resource_bytes / capacity
            most = np.flatnonzero(need >= need.max() * (1 - 1e-9))
            assert timing.busiest == resource_name(fabric, int(most[0]))


def test_auto_weighs_the_largest_step_of_a_rank() -> None:
    fabric = load_fabric("cloudmatrix384", aiv_cores=8)
    place = np.arange(32)
    small, large = mesh_all_to_all(32, 1), mesh_all_to_all(32, 1 << 20)
    assert pick_transport(small, fabric, place, 4)[0].name == "aiv"
    chosen, reason = pick_transport(large, fabric, place, 4)
    assert chosen.name == "sdma"
    assert reason.startswith("sdma: 124MiB in")
    times = {n: time_on(fabric, large, transport=n).time_ps for n in ("aiv", "sdma")}
    timing = time_on(fabric, large)
    assert timing.time_ps == min(times.values()) == times[timing.transport]
    assert (timing.transport, timing.reason) == ("sdma", reason)
    local = mesh_all_to_all(1, 1)
    assert pick_transport(local, fabric, place, 4) == (
        fabric.transport("aiv"),
        "nothing crosses the fabric",
    )


def test_all_to_all_on_768_dies_is_near_its_bound() -> None:
    fabric = load_fabric("cloudmatrix384")
    timing = time_on(fabric, mesh_all_to_all(768, 1 << 18))
    assert timing.lower_bound_ps <= timing.time_ps <= 1.01 * timing.lower_bound_ps
    assert timing.busiest == "node00.npu0.die0.write"
    assert timing.busiest_utilisation > 0.99
