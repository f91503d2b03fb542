"""Mooncake's and NIXL's calls: bytes that arrive, statuses, notifications, telemetry."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ubnet.errors import CapacityExceeded, NoRoute, OptionError
from ubnet.fabrics import load_fabric
from ubnet.kv import Agent, Carrier, Status, Strided, TransferEngine

FABRIC = load_fabric("cloudmatrix64")
A, B = "node00.npu0.die0", "node05.npu0.die0"


def engines(*names, **options):
    carrier = Carrier(FABRIC, **options)
    made = []
    for name in names:
        made.append(TransferEngine())
        assert made[-1].initialize(name, carrier, "rdma", "") == 0
    return carrier, made


def agents(count, **options):
    carrier = Carrier(FABRIC, **options)
    made = [Agent(f"agent{i}", carrier, 7 * i) for i in range(count)]
    for one in made:
        for other in made:
            if one is not other or count == 1:
                one.add_remote_agent(other.get_agent_metadata())
    return carrier, made


def filled(rng, size):
    return rng.integers(0, 256, size, dtype=np.uint8)


def test_mooncake_writes_and_reads_synchronously():
    carrier, (a, b) = engines(A, B + ":12345")
    rng = np.random.default_rng(0)
    mine, theirs = filled(rng, 1000), filled(rng, 1000)
    a.register_memory(mine)
    assert b.register_memory(theirs.ctypes.data, theirs.nbytes) == 0
    assert b.get_first_buffer_address(B + ":12345") == theirs.ctypes.data
    kept = theirs.copy()
    there = theirs.ctypes.data
    assert a.transfer_sync_write(B + ":12345", mine.ctypes.data + 3, there + 501, 77) == 0
    kept[501:578] = mine[3:80]
    assert (theirs == kept).all()
    assert a.transfer_sync_read(B + ":12345", mine.ctypes.data, there, 1000) == 0
    assert (mine == theirs).all()
    assert carrier.now_ps > 10_000_000


def test_mooncake_batches_and_status_names():
    _, (a, b) = engines(A, B, chunk_bytes=4096)
    rng = np.random.default_rng(1)
    mine, theirs = filled(rng, 100_000), np.zeros(100_000, np.uint8)
    a.register_memory(mine)
    b.register_memory(theirs)
    at = np.arange(0, 100_000, 1000)
    lengths = np.full(100, 500)
    batch = a.batch_transfer_async_write(
        B, mine.ctypes.data + at, theirs.ctypes.data + at[::-1], lengths
    )
    assert a.transfer_check_status(batch) is Status.RUNNING
    assert str(a.transfer_check_status(batch)) == "running"
    assert a.get_batch_transfer_status([batch]) == 0
    assert a.transfer_check_status(batch) == 1
    cut = mine.reshape(100, 1000)[:, :500]
    assert (theirs.reshape(100, 1000)[::-1, :500] == cut).all()
    assert a.job(batch).messages == 100
    assert a.batch_transfer_sync_read(B, [mine.ctypes.data], [theirs.ctypes.data], [100_000]) == 0
    assert (mine == theirs).all()


def test_mooncake_time_out_has_a_name_a_number_and_a_reason():
    carrier, (a, b) = engines(A, B, chunk_bytes=1 << 16)
    mine, theirs = np.ones(10**7, np.uint8), np.zeros(10**7, np.uint8)
    a.register_memory(mine)
    b.register_memory(theirs)
    a.timeout_s = 1e-4
    batch = a.transfer_submit_write(B, mine.ctypes.data, theirs.ctypes.data, 10**7)
    while (status := a.transfer_check_status(batch)) == 0:
        pass
    assert (status, status.name, status.value) == (Status.TIMED_OUT, "TIMED_OUT", -2)
    assert a.job(batch).reason.startswith("no end within 100 us: ")
    arrived = theirs.sum()
    assert arrived == a.job(batch).arrived
    carrier.run_until(carrier.now_ps + 10**9)
    assert theirs.sum() == arrived
    assert a.transfer_sync_write(B, mine.ctypes.data, theirs.ctypes.data, 10**7) == -2


def test_mooncake_misuse_is_named():
    _, (a, b) = engines(A, B)
    memory = np.zeros(10, np.uint8)
    with pytest.raises(OptionError, match="takes no part yet"):
        TransferEngine().register_memory(memory)
    with pytest.raises(OptionError, match="metadata_server is 'P2PHANDSHAKE'"):
        TransferEngine().initialize(A, "P2PHANDSHAKE", "rdma", "")
    with pytest.raises(NoRoute, match="no transport 'infiniband'"):
        TransferEngine().initialize(A + ":2", Carrier(FABRIC), "infiniband", "")
    with pytest.raises(OptionError, match="no segment 'node05"):
        a.transfer_sync_write("node05.npu0.die1", 1, 2, 3)
    with pytest.raises(CapacityExceeded, match=f"registered memory of {A}"):
        a.transfer_sync_write(B, memory.ctypes.data, memory.ctypes.data, 10)
    with pytest.raises(OptionError, match="no transfer 7"):
        b.transfer_check_status(7)
    with pytest.raises(OptionError, match="give as many of each"):
        a.batch_transfer_sync_write(B, [1, 2], [1], [1])
    address = a.allocate_managed_buffer(100)
    assert a.free_managed_buffer(address, 100) == 0
    with pytest.raises(OptionError):
        a.unregister_memory(address)


@settings(max_examples=40)
@given(st.data())
def test_random_descriptors_among_1_to_16_agents_arrive(data):
    count = data.draw(st.integers(1, 16))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    _, made = agents(count, chunk_bytes=int(rng.integers(1, 3000)))
    read = [filled(rng, 3000) for _ in made]
    written = [np.zeros(3000, np.uint8) for _ in made]
    expected = [array.copy() for array in written]
    for agent, *arrays in zip(made, read, written, strict=True):
        agent.register_memory(list(arrays))
    room = np.zeros(count, dtype=int)
    handles = []
    for _ in range(int(rng.integers(1, 6))):
        me, other = rng.integers(0, count, 2)
        if me == other and count > 1:
            continue
        operation = ("READ", "WRITE")[int(rng.integers(2))]
        src, dst = (me, other) if operation == "WRITE" else (other, me)
        lengths = rng.integers(0, 50, int(rng.integers(0, 12)))
        starts = rng.integers(0, 2950, len(lengths))
        # Every run gets a target of its own, at any distance from the last one.
        ends = room[dst] + np.cumsum(lengths + rng.integers(0, 5, len(lengths)))
        room[dst] = ends[-1] if len(ends) else room[dst]
        source = np.stack([starts + read[src].ctypes.data, lengths, 0 * lengths], axis=1)
        target = np.stack([ends - lengths + written[dst].ctypes.data, lengths, 0 * lengths], 1)
        local, remote = (source, target) if operation == "WRITE" else (target, source)
        handle = made[me].initialize_xfer(operation, local, remote, made[other].name)
        handles.append((made[me], handle))
        made[me].transfer(handle)
        for start, end, length in zip(starts, ends, lengths, strict=True):
            expected[dst][end - length : end] = read[src][start : start + length]
    for agent, handle in handles:
        while agent.check_xfer_state(handle) == "PROC":
            pass
        assert agent.check_xfer_state(handle) == "DONE"
    for got, right in zip(written, expected, strict=True):
        assert (got == right).all()


def test_strided_runs_prepared_lists_and_posting_again():
    carrier, (a, b) = agents(2)
    rng = np.random.default_rng(5)
    mine, theirs = filled(rng, 64 * 256), np.zeros(64 * 256, np.uint8)
    a.register_memory([mine])
    b.register_memory([theirs])
    local = a.prep_xfer_dlist("NIXL_INIT_AGENT", Strided(mine.ctypes.data, 64, 256, 64))
    remote = a.prep_xfer_dlist("agent1", Strided(theirs.ctypes.data + 128, 64, 256, 64))
    rows = np.arange(0, 64, 3)
    handle = a.make_prepped_xfer("WRITE", local, rows, remote, rows[::-1], b"layer 3")
    for turn in range(3):
        mine += 1
        assert a.transfer(handle) == "PROC"
        with pytest.raises(OptionError, match="on its way"):
            a.transfer(handle)
        with pytest.raises(OptionError, match="telemetry"):
            a.get_xfer_telemetry(handle)
        carrier.run()
        assert a.check_xfer_state(handle) == "DONE"
        cells = theirs.reshape(64, 256)
        assert (cells[rows[::-1], 128:192] == mine.reshape(64, 256)[rows, :64]).all()
        assert b.get_new_notifs() == {"agent0": [b"layer 3"]}
        assert not cells[np.setdiff1d(np.arange(64), rows)].any(), turn
    told = a.get_xfer_telemetry(handle)
    assert (told.totalBytes, told.descCount, told.messages) == (64 * len(rows), len(rows), 22)
    assert told.postDuration == pytest.approx(0.08 * 22)
    assert told.xferDuration > told.postDuration + 5


def test_notifications_of_reads_and_of_their_own():
    carrier, (a, b) = agents(2)
    mine, theirs = np.zeros(100, np.uint8), np.ones(100, np.uint8)
    here, there = a.register_memory([mine]), b.register_memory([theirs])
    handle = a.initialize_xfer("READ", here, there, "agent1", b"free page 9")
    a.transfer(handle)
    while a.check_xfer_state(handle) == "PROC":
        assert b.get_new_notifs() == {}
    assert mine.all()
    assert b.get_new_notifs() == {}, "the message leaves the reader when the bytes are there"
    carrier.run()
    b.send_notif("agent0", b"hello")
    carrier.run()
    assert b.check_remote_xfer_done("agent0", b"free")
    assert not b.check_remote_xfer_done("agent0", b"free")
    assert a.get_new_notifs() == {"agent1": [b"hello"]}


def test_a_transfer_that_times_out_or_is_released_is_quiet_and_told():
    carrier, (a, b) = agents(2, chunk_bytes=1 << 16)
    mine, theirs = np.ones(10**7, np.uint8), np.zeros(10**7, np.uint8)
    here, there = a.register_memory([mine]), b.register_memory([theirs])
    a.timeout_ps = 10**8
    handle = a.initialize_xfer("WRITE", here, there, "agent1", b"never sent")
    a.transfer(handle)
    while (state := a.check_xfer_state(handle)) == "PROC":
        pass
    assert state == "ERR"
    assert a.get_xfer_error(handle).startswith("timed out: no end within 100 us: ")
    a.timeout_ps = None
    a.transfer(handle)
    a.release_xfer_handle(handle)
    arrived = theirs.sum()
    carrier.run_until(carrier.now_ps + 10**10)
    assert theirs.sum() == arrived < 10**7
    assert b.get_new_notifs() == {}


def test_nixl_misuse_is_named():
    _, (a, b) = agents(2)
    mine = np.zeros(100, np.uint8)
    here = a.register_memory([mine])
    with pytest.raises(OptionError, match="allowed: READ, WRITE"):
        a.initialize_xfer("write", here, here, "agent1")
    with pytest.raises(CapacityExceeded, match="registered memory of agent1"):
        a.initialize_xfer("WRITE", here, here, "agent1")
    with pytest.raises(OptionError, match="does not know 'agent7'"):
        a.prep_xfer_dlist("agent7", here)
    mine_prepared = a.prep_xfer_dlist("", here)
    with pytest.raises(OptionError, match="was prepared for agent0"):
        b.make_prepped_xfer("READ", mine_prepared, [0], mine_prepared, [0])
    with pytest.raises(OptionError, match="local_indices holds 0 to 1"):
        a.make_prepped_xfer("READ", mine_prepared, [0, 1], mine_prepared, [0])
    a.deregister_memory(here)
    with pytest.raises(CapacityExceeded):
        a.prep_xfer_dlist("", here)
