"""The carrier: transfers in one clock, their chunks, time-outs and what a stopped one leaves."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ubnet.errors import CapacityExceeded, FabricError, NoRoute, OptionError
from ubnet.fabrics import load_fabric
from ubnet.kv import BlockList, Carrier, Move, Status, Strided, plan_bytes, transfer
from ubnet.kv.descriptors import as_descriptors, pair_rows
from ubnet.kv.plan import plan_rows
from ubnet.kv.regions import Regions

SRC, DST = "node00.npu0.die0", "node05.npu0.die0"


@pytest.fixture(scope="module")
def fabric():
    return load_fabric("cloudmatrix64")


def registered(*arrays):
    regions = Regions("somebody")
    for array in arrays:
        regions.add(array)
    return regions


def plan_of(source, target, rows, chunk_bytes, merge=True):
    base = np.array([source.ctypes.data, target.ctypes.data, 0])
    rows = np.asarray(rows, dtype=np.int64).reshape(-1, 3) + base
    return plan_rows(
        rows, registered(source), registered(target), chunk_bytes=chunk_bytes, merge=merge
    )


def random_rows(rng, n, size):
    """Runs of random lengths, zero among them, at unaligned places, targets apart."""
    length = rng.integers(0, 40, n)
    gap = rng.integers(0, 9, n)
    target = np.cumsum(length + gap) - length
    source = rng.integers(0, size - 40, n)
    return np.stack([source, target, length], axis=1)[rng.permutation(n)]


@given(st.integers(0, 10**6), st.integers(0, 60), st.integers(1, 300), st.booleans())
def test_a_plan_writes_what_plain_loops_would(seed, n, chunk_bytes, merge):
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 256, 4000, dtype=np.uint8)
    target = np.zeros(4000, dtype=np.uint8)
    expected = target.copy()
    rows = random_rows(rng, n, len(source))
    plan = plan_of(source, target, rows, chunk_bytes, merge)
    for begin, to, length in rows.tolist():
        expected[to : to + length] = source[begin : begin + length]
    for chunk in range(plan.chunks):
        before = target.copy()
        plan.write(chunk)
        assert (target != before).sum() <= plan.chunk_bytes[chunk] <= chunk_bytes
    assert (target == expected).all()
    assert plan.nbytes == rows[:, 2].sum()
    filled = (rows[:, 2] > 0).sum()
    assert plan.messages <= filled if merge else plan.messages == filled


def test_neighbours_in_one_region_are_one_message_and_in_two_regions_two():
    both = np.arange(200, dtype=np.uint8)
    target = np.zeros(200, dtype=np.uint8)
    rows = [(0, 0, 100), (100, 100, 100)]
    assert plan_of(both, target, rows, 1000).messages == 1
    base = np.array([both.ctypes.data, target.ctypes.data, 0])
    halves = registered(both[:100], both[100:])
    plan = plan_rows(np.array(rows) + base, halves, registered(target), chunk_bytes=1000)
    plan.write(0)
    assert plan.messages == 2
    assert (target == both).all()


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(0, 0, 10), (20, 9, 10)], "descriptors 0 and 1 write the same bytes"),
        ([(0, 95, 10)], "not inside registered memory"),
        ([(95, 0, 10)], "not inside registered memory"),
    ],
)
def test_what_overlaps_or_leaves_registered_memory_is_refused(rows, text):
    source, target = np.zeros(100, np.uint8), np.zeros(100, np.uint8)
    with pytest.raises((OptionError, CapacityExceeded), match=text):
        plan_of(source, target, rows, 64)


def test_reading_what_is_written_is_refused():
    memory = np.zeros(100, np.uint8)
    with pytest.raises(OptionError, match="reads bytes at address"):
        plan_of(memory, memory, [(0, 5, 10)], 64)
    plan_of(memory, memory, [(0, 10, 10)], 64)


def test_a_read_only_target_is_refused_and_a_read_only_source_is_not():
    memory, fixed = np.zeros(100, np.uint8), np.zeros(100, np.uint8)
    fixed.flags.writeable = False
    plan_of(fixed, memory, [(0, 0, 10)], 64)
    with pytest.raises(OptionError, match="read-only"):
        plan_of(memory, fixed, [(0, 0, 10)], 64)


def test_registering_memory_twice_or_in_part_is_refused():
    memory = np.zeros(100, np.uint8)
    regions = registered(memory[10:50])
    for part in (memory, memory[:20], memory[40:], memory[20:30]):
        with pytest.raises(OptionError, match="registered by somebody already"):
            regions.add(part)
    regions.add(memory[50:])
    regions.remove(memory[10:].ctypes.data)
    regions.add(memory[:50])
    with pytest.raises(OptionError, match="no memory of somebody"):
        regions.remove(7)


def test_descriptors_are_checked_and_strided_ones_written_out():
    rows = as_descriptors([Strided(100, 8, 32, 3), Strided(500, 4, 4, 2, device=1)])
    assert rows.tolist() == [[100, 8, 0], [132, 8, 0], [164, 8, 0], [500, 4, 1], [504, 4, 1]]
    wide = np.array([[2**47, 5, 0]], dtype=np.uint64)
    assert as_descriptors(wide).tolist() == wide.tolist()
    for bad in ([(1.5, 2)], [(-1, 2)], np.array([[2**63, 1, 0]], np.uint64), [(1, 2, 3, 4)]):
        with pytest.raises(OptionError):
            as_descriptors(bad)
    with pytest.raises(OptionError, match="1 source descriptors and 2"):
        pair_rows(as_descriptors([(0, 8)]), as_descriptors([(0, 8), (8, 8)]))
    with pytest.raises(OptionError, match="8 bytes long at the source and 9"):
        pair_rows(as_descriptors([(0, 8)]), as_descriptors([(0, 9)]))


@pytest.mark.parametrize("chunk_bytes", [1 << 18, 1 << 20, 10**9])
@pytest.mark.parametrize("messages", [1, 1000])
def test_chunks_do_not_change_the_time(fabric, chunk_bytes, messages):
    nbytes = 50_000_000
    size = nbytes // messages
    rows = [(i * size, 2 * i * size, size) for i in range(messages)]
    blocks = [Move(SRC, DST, BlockList(rows))]
    expected = transfer(fabric, blocks).time_ps
    carrier = Carrier(fabric)
    source = np.zeros(nbytes, np.uint8)
    target = np.zeros(2 * nbytes, np.uint8)
    job = carrier.submit(SRC, DST, plan_of(source, target, rows, chunk_bytes))
    assert carrier.wait(job) is Status.DONE
    # A chunk's end is rounded to a picosecond; messages are paid by the chunk they begin in.
    assert job.time_ps == pytest.approx(expected, abs=job.chunks + 1)
    assert job.messages == messages


def test_jobs_share_the_fabric_as_flows_do(fabric):
    carrier = Carrier(fabric)
    jobs = [
        carrier.submit(SRC, DST, plan_bytes(10_000_000, chunk_bytes=size))
        for size in (10**5, 10**6)
    ]
    carrier.run()
    ends = transfer(fabric, [Move(SRC, DST, BlockList([(0, 0, 10_000_000)]))] * 2).end_ps
    assert [job.end_ps for job in jobs] == pytest.approx(ends.tolist(), rel=1e-3)


def test_after_a_time_out_no_byte_of_the_target_changes(fabric):
    carrier = Carrier(fabric, chunk_bytes=1 << 16)
    rng = np.random.default_rng(3)
    source = rng.integers(1, 256, 5_000_000, dtype=np.uint8)
    target = np.zeros_like(source)
    plan = plan_of(source, target, [(0, 0, len(source))], carrier.chunk_bytes)
    other = carrier.submit(SRC, DST, 50_000_000)
    job = carrier.submit(SRC, DST, plan, timeout_ps=100_000_000)
    assert carrier.wait(job) is Status.TIMED_OUT
    assert 0 < job.arrived < len(source)
    drained_ps = job.end_ps - 100_000_000
    assert 0 <= drained_ps < 2 * 65536 / 24.5e9 * 1e12 * 1.01
    assert f"{job.arrived} of 5000000 bytes have arrived" in job.reason
    kept = target.copy()
    assert (kept[: job.arrived] == source[: job.arrived]).all()
    assert not kept[job.arrived :].any()
    carrier.run()
    assert other.status is Status.DONE
    assert carrier.now_ps > 2 * job.end_ps
    assert (target == kept).all()


def test_a_stopped_transfer_leaves_its_bandwidth_to_the_others(fabric):
    carrier = Carrier(fabric)
    short = carrier.submit(SRC, DST, plan_bytes(10**9, chunk_bytes=10**4), timeout_ps=10**9)
    long = carrier.submit(SRC, DST, 100_000_000)
    carrier.run()
    assert short.status is Status.TIMED_OUT
    # It had half of the card for 1 ms.
    rate = 25e9 * 4096 / 4178
    expected = (10**8 + short.arrived) / rate * 1e12
    assert long.time_ps == pytest.approx(expected, rel=2e-3)


def test_what_arrives_at_the_instant_of_its_time_out_is_done(fabric):
    first = Carrier(fabric)
    job = first.submit(SRC, DST, plan_bytes(10**6))
    first.run()
    second = Carrier(fabric)
    same = second.submit(SRC, DST, plan_bytes(10**6), timeout_ps=job.time_ps)
    assert second.wait(same) is Status.DONE
    late = second.submit(
        SRC, DST, plan_bytes(10**6, chunk_bytes=10**5), timeout_ps=job.time_ps // 2
    )
    assert second.wait(late) is Status.TIMED_OUT


def test_cancelling_drains_and_a_job_that_has_not_begun_ends_at_once(fabric):
    carrier = Carrier(fabric)
    waiting = carrier.submit(SRC, DST, 10**6, start_ps=10**9)
    assert carrier.cancel(waiting) is Status.CANCELLED
    assert (carrier.now_ps, waiting.arrived) == (0, 0)
    flying = carrier.submit(SRC, DST, plan_bytes(10**8, chunk_bytes=10**6))
    assert carrier.run_until(10**9) == [waiting]
    assert carrier.cancel(flying) is Status.CANCELLED
    assert carrier.now_ps == flying.end_ps
    assert carrier.cancel(flying) is Status.CANCELLED
    assert carrier.run_until(3 * 10**9) == [flying]


def test_an_endpoint_that_dies_takes_its_transfers_along(fabric):
    carrier = Carrier(fabric)
    source, target = np.ones(10**6, np.uint8), np.zeros(10**6, np.uint8)
    hit = carrier.submit(SRC, DST, plan_of(source, target, [(0, 0, 10**6)], 10**5))
    later = carrier.submit(DST, SRC, 1000, start_ps=10**12)
    other = carrier.submit("node01.npu0.die0", "node02.npu0.die0", 10**6)
    carrier.run_until(20_000_000)
    arrived = target.sum()
    assert carrier.fail(DST, "node05 is dead") == [hit, later]
    carrier.run()
    assert (hit.status, later.status) == (Status.FAILED, Status.FAILED)
    assert "node05 is dead" in hit.reason
    assert other.status is Status.DONE
    assert target.sum() == arrived == hit.arrived


def test_advance_reports_the_jobs_of_one_instant_by_number(fabric):
    carrier = Carrier(fabric)
    pairs = [(f"node{i:02}.npu0.die0", f"node{i + 1:02}.npu1.die0") for i in (4, 2, 0)]
    jobs = [carrier.submit(a, b, 10**6) for a, b in pairs]
    seen = []
    while ended := carrier.advance():
        assert {job.end_ps for job in ended} == {carrier.now_ps}
        seen += ended
    assert sorted(seen, key=lambda job: job.number) == jobs
    assert carrier.advance(carrier.now_ps + 5) == []
    assert carrier.poll(jobs[0]) is Status.DONE


def test_jobs_may_be_submitted_when_others_end(fabric):
    carrier = Carrier(fabric)
    chain = []

    def again(job):
        if len(chain) < 5:
            chain.append(carrier.submit(SRC, DST, 10**5, then=again))

    chain.append(carrier.submit(SRC, DST, 10**5, then=again))
    carrier.run()
    assert [b.submitted_ps - a.end_ps for a, b in pairwise(chain)] == [0] * 4
    assert len({job.time_ps for job in chain}) == 1


def test_misuse_is_named(fabric):
    carrier = Carrier(fabric)
    with pytest.raises(OptionError, match="its time-out is above 0"):
        carrier.submit(SRC, DST, 1, timeout_ps=0)
    with pytest.raises(OptionError, match="0 bytes or more"):
        carrier.submit(SRC, DST, -1)
    with pytest.raises(NoRoute, match="no transport"):
        carrier.submit(SRC, DST, 1, transport="pigeon")
    with pytest.raises(FabricError):
        carrier.submit(SRC, 10**6, 1)
    with pytest.raises(OptionError, match="chunk"):
        Carrier(fabric, chunk_bytes=0)
    carrier.join("a", SRC)
    with pytest.raises(OptionError, match="takes part already"):
        carrier.join("a", DST)
