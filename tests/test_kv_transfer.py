"""KV transfers: bytes that arrive, and times over RDMA, VPC and UB, alone and beside others."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ubnet.kv.delivery
from ubnet.errors import CapacityExceeded, FabricError, NoRoute, OptionError
from ubnet.fabrics import load_fabric
from ubnet.flowsim import FlowSim
from ubnet.kv import (
    DEEPSEEK_R1,
    BlockList,
    Move,
    connect,
    post_moves,
    transfer,
    transfer_prompt,
)
from ubnet.kv.cache import PagedCache, prompt_blocks
from ubnet.kv.checksum import checksum
from ubnet.kv.model import KVModel

PROMPT = DEEPSEEK_R1.prompt_bytes(4096)
ROCE_RATE = 25e9 * 4096 / 4178
MESSAGE_S = 0.08e-6


@pytest.fixture(scope="module")
def fabric(cloudmatrix):
    return cloudmatrix


@pytest.fixture(scope="module")
def sprayed():
    return load_fabric("cloudmatrix384", rdma_paths="spray")


def one_block(nbytes):
    return BlockList([(0, 0, nbytes)])


def timed(fabric, src, dst, nbytes, transport, op="write"):
    return transfer(fabric, [Move(src, dst, one_block(nbytes))], transport=transport, op=op)


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="288 MB byte by byte")
def test_a_prompt_over_rdma_takes_its_bytes_at_the_payload_rate(fabric):
    result = transfer_prompt(fabric)
    assert (result.nbytes, result.blocks, result.messages) == (287_834_112, 15_616, 61)
    assert (result.transport, result.plane, result.op) == ("roce", "rdma", "write")
    startup_ps = transfer_prompt(fabric, tokens=0, payload=False).time_ps
    assert result.time_ps == pytest.approx(11.75e9 + startup_ps, rel=0.02)
    assert result.rate == pytest.approx(24.5e9, rel=0.02)
    assert result.delivery.checksum_ok
    assert result.wrong == 0
    assert result.load.busiest == "node00.npu0.die0.nic_write"
    assert 0.99 < result.load.utilisation <= 1
    assert result.load.lower_bound_ps <= result.time_ps


def test_the_time_of_a_prompt_is_start_up_cables_postings_and_bytes(fabric):
    bytes_s = PROMPT / ROCE_RATE + 61 * MESSAGE_S
    # Same leaf: one switch and two cables; 5 us of start-up hold one posting.
    expected = 5e-6 - MESSAGE_S + 0.2e-6 + 2 * 0.1e-6 + bytes_s
    assert transfer_prompt(fabric, payload=False).time_ps == pytest.approx(expected * 1e12, abs=2)


def test_a_prompt_over_vpc_is_one_stream_of_5_gb_per_second(fabric):
    result = transfer_prompt(fabric, transport="vpc", tokens=64)
    startup_ps = transfer_prompt(fabric, transport="vpc", tokens=0).time_ps
    assert result.time_ps - startup_ps == pytest.approx(PROMPT / 64 / 5e9 * 1e12, rel=1e-6)
    assert result.wrong == 0
    assert result.load.efficiency == pytest.approx(1)
    assert result.load.utilisation == pytest.approx(0.1, rel=0.1)


def test_streams_add_up_on_the_vpc_card_until_it_is_full(fabric):
    def time_of(streams):
        moves = [
            Move(f"node00.cpu{i % 4}", "node09.cpu0", one_block(10**9)) for i in range(streams)
        ]
        return transfer(fabric, moves, transport="vpc").time_ps

    assert time_of(2) == pytest.approx(0.2e12, rel=0.001)
    assert time_of(20) == pytest.approx(0.4e12, rel=0.001)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("tokens", [0, 1, 15, 16, 17, 100])
def test_every_token_arrives_in_pages_in_a_row_and_anywhere(fabric, tokens, scattered):
    result = transfer_prompt(fabric, tokens=tokens, scattered=scattered, seed=tokens)
    assert result.nbytes == tokens * 70_272
    assert result.wrong == 0
    assert result.delivery.sent == result.delivery.received
    assert (result.delivery.sent[0] == 0) is (tokens == 0)
    assert result.messages <= result.blocks == 61 * -(-tokens // 16)


@pytest.mark.parametrize("scattered", [False, True])
def test_layer_by_layer_is_what_the_whole_cache_holds(fabric, scattered):
    model, tokens, seed = KVModel("odd", layers=3, heads=1, parts=(5,), itemsize=1), 77, 4
    result = transfer_prompt(
        fabric, model=model, tokens=tokens, page_tokens=7, scattered=scattered, seed=seed
    )
    rng, cache = np.random.default_rng(seed), PagedCache(model, 12, 7)
    tables = [rng.permutation(11) if scattered else np.arange(11) for _ in range(2)]
    blocks = prompt_blocks(cache, tables[0] + 1, cache, tables[1] + 1, tokens)
    words = (int(rng.integers(2**32)) + np.arange(cache.nbytes // 8 + 1)).astype(np.uint64)
    source = (words * np.uint64(0x9E3779B97F4A7C15)).view(np.uint8)
    assert result.delivery.sent == (checksum(blocks.sources(source)),)
    assert (result.blocks, result.nbytes) == (len(blocks), blocks.nbytes)


def test_scattered_pages_pay_a_posting_each(fabric):
    row, spread = (
        transfer_prompt(fabric, scattered=scattered, payload=False) for scattered in (False, True)
    )
    more = spread.messages - row.messages
    assert spread.messages > 15_000
    assert spread.time_ps - row.time_ps == pytest.approx(more * MESSAGE_S * 1e12, abs=2)


def test_messages_are_the_merged_runs_unless_told_otherwise(fabric):
    blocks = BlockList([(64 * i, 64 * i, 64) for i in range(1000)])
    move = [Move("node00.npu0.die0", "node05.npu0.die0", blocks)]
    merged, apart = transfer(fabric, move), transfer(fabric, move, merge=False)
    assert (merged.messages, apart.messages) == (1, 1000)
    assert apart.time_ps - merged.time_ps == pytest.approx(999 * MESSAGE_S * 1e12, abs=2)


@given(data=st.data())
def test_random_block_lists_between_random_endpoints_arrive(fabric, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    moves = []
    for _ in range(data.draw(st.integers(0, 4))):
        lengths = rng.integers(0, 40, data.draw(st.integers(0, 20)))
        to = rng.permutation(len(lengths)) * 41
        rows = np.stack([rng.integers(0, 500, len(lengths)), to, lengths], axis=1)
        source = rng.integers(0, 256, 540, dtype=np.uint8)
        src, dst = rng.integers(0, 960, 2).tolist()
        moves.append(Move(src, dst, BlockList(rows), source, np.zeros(41 * 20, dtype=np.uint8)))
    result = transfer(fabric, moves, transport="sdma", op="read")
    assert result.wrong == (0 if moves else None)
    for move in moves:
        expected = np.zeros_like(move.target)
        for begin, to, length in move.blocks.rows:
            expected[to : to + length] = move.source[begin : begin + length]
        assert move.target.tolist() == expected.tolist()


def test_a_byte_that_goes_wrong_is_seen(fabric, monkeypatch):
    def careless(rows, source, target):
        target[:8] = source[:8]
        target[2:4] += 1

    monkeypatch.setattr(ubnet.kv.delivery, "copy_blocks", careless)
    source = np.arange(8, dtype=np.uint8)
    move = Move(0, 16, one_block(8), source, np.zeros(8, dtype=np.uint8))
    result = transfer(fabric, [move])
    assert not result.delivery.checksum_ok
    assert result.wrong == 2


@pytest.mark.parametrize(
    ("src", "dst", "op", "rate"),
    [
        ("node00.cpu0", "node00.npu3.die0", "read", 151e9),
        ("node07.cpu2", "node00.npu3.die0", "read", 147e9),
        ("node00.npu3.die0", "node00.cpu0", "write", 110e9),
        ("node00.npu3.die0", "node07.cpu2", "write", 107e9),
    ],
)
def test_npu_and_cpu_memory_exchange_blocks_over_ub(fabric, src, dst, op, rate):
    rows = [(2**16 * (63 - i), 2**16 * i, 2**16) for i in range(64)]
    source = np.arange(2**22 // 8, dtype=np.int64)
    target = np.zeros_like(source)
    result = transfer(
        fabric, [Move(src, dst, BlockList(rows), source, target)], transport="sdma", op=op
    )
    assert result.wrong == 0
    assert target[0] == 63 * 2**13
    startup_ps = timed(fabric, src, dst, 0, "sdma", op).time_ps
    # The empty transfer is a message, too, so 63 more are paid.
    expected = (2**22 / rate + 63 * MESSAGE_S) * 1e12
    assert result.time_ps - startup_ps == pytest.approx(expected, abs=2)


def test_a_card_of_the_rdma_plane_belongs_to_a_die(fabric):
    with pytest.raises(NoRoute, match=r"node00\.cpu0 is not on plane rdma"):
        timed(fabric, "node00.cpu0", "node01.npu0.die0", 64, "roce")


def all_to_all_flows(fabric, ranks, nbytes):
    src, dst = np.divmod(np.arange(ranks * ranks), ranks)
    off = src != dst
    return fabric.transport("sdma").flows(
        fabric, "write", src[off], dst[off], nbytes, targets=ranks - 1
    )


def post_columns(sim, columns):
    first = sim.post(**columns.post_arguments())
    return slice(first, first + len(columns.nbytes))


def test_kv_on_rdma_slows_a_ub_all_to_all_by_no_picosecond(fabric):
    columns = all_to_all_flows(fabric, 64, 10**6)
    alone = FlowSim(fabric.capacity)
    post_columns(alone, columns)
    alone.run()
    moves = [Move(die, die + 32, one_block(10**6)) for die in range(32)]
    beside = FlowSim(fabric.capacity)
    kv = post_moves(beside, fabric, moves)
    mine = post_columns(beside, columns)
    beside.run()
    assert (beside.finish_ps[mine] == alone.finish_ps).all()
    quiet = FlowSim(fabric.capacity)
    ids = post_moves(quiet, fabric, moves)
    quiet.run()
    assert (beside.finish_ps[kv] == quiet.finish_ps[ids]).all()


def test_kv_on_the_same_plane_does_slow_it(fabric):
    columns = all_to_all_flows(fabric, 64, 10**6)
    makespans = []
    for moves in ([], [Move(die, die + 32, one_block(10**7)) for die in range(32)]):
        sim = FlowSim(fabric.capacity)
        mine = post_columns(sim, columns)
        post_moves(sim, fabric, moves, transport="sdma")
        sim.run()
        makespans.append(sim.finish_ps[mine].max())
    assert makespans[1] > makespans[0]


def test_a_later_start_shifts_the_end(fabric):
    sim = FlowSim(fabric.capacity)
    move = [Move("node00.npu0.die0", "node02.npu0.die0", one_block(10**6))]
    ids = [*post_moves(sim, fabric, move), *post_moves(sim, fabric, move, start_ps=10**9)]
    sim.run()
    ends = sim.finish_ps[ids]
    assert ends[1] - ends[0] == 10**9


def test_the_mapping_loads_32_sources_equally_and_is_32_times_as_fast(sprayed):
    links = connect(prefill_tp=32, decode_tp=1, decode_dp=320)
    size = DEEPSEEK_R1.prompt_bytes(64)
    decode = (32 + links.decode).tolist()
    spread, crowded = (
        transfer(
            sprayed,
            [Move(s, d, one_block(size)) for s, d in zip(sources, decode, strict=True)],
        )
        for sources in (links.prefill.tolist(), [0] * 320)
    )
    startup_ps = timed(sprayed, 0, 100, 0, "roce").time_ps
    assert spread.time_ps - startup_ps == pytest.approx(10 * size / ROCE_RATE * 1e12, rel=0.01)
    assert crowded.time_ps - startup_ps == pytest.approx(320 * size / ROCE_RATE * 1e12, rel=0.01)
    assert crowded.load.busiest == "node00.npu0.die0.nic_write"


def test_no_resource_carries_more_than_it_can(fabric):
    moves = [Move(int(s), int(s) + 300, one_block(10**6 + s)) for s in range(0, 320, 3)]
    result = transfer(fabric, moves)
    assert 0 < result.load.utilisation <= 1 + 1e-9
    assert result.load.lower_bound_ps <= result.time_ps


def test_moves_of_one_pair_take_paths_of_their_own(fabric):
    moves = [Move("node00.npu0.die0", "node30.npu0.die0", one_block(10**6)) for _ in range(2)]
    sim = FlowSim(fabric.capacity)
    post_moves(sim, fabric, moves)
    sim.run_until(20_000_000)
    busy = np.flatnonzero(sim.link_bytes())
    tiers = [fabric.resource_tiers[i] for i in busy]
    assert tiers.count("RDMA port") == 2
    assert tiers.count("RDMA leaf uplink") == 2


def test_inside_a_package_and_to_oneself(fabric):
    assert timed(fabric, 3, 3, 10**6, "sdma").time_ps == 0
    inside = timed(fabric, 0, 1, 210 * 10**6, "sdma")
    assert inside.time_ps == pytest.approx(1e9 + 10.2e6, rel=1e-6)


def shared_moves(case):
    memory, other = np.zeros(64, dtype=np.uint8), np.zeros(64, dtype=np.uint8)
    first = Move(0, 2, BlockList([(0, 0, 8)]), memory, other)
    return {
        "written twice": [first, Move(4, 6, BlockList([(20, 7, 2)]), memory, other)],
        "handed on": [first, Move(2, 4, BlockList([(7, 40, 2)]), other, memory)],
        "onto itself": [Move(0, 2, BlockList([(0, 4, 8)]), memory, memory)],
    }[case]


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("written twice", "moves 0 and 1 write the same bytes"),
        ("handed on", "move 1 reads bytes that move 0 writes"),
        ("onto itself", "move 0 reads bytes that move 0 writes"),
    ],
)
def test_moves_that_meet_in_memory_are_refused(fabric, case, said):
    with pytest.raises(OptionError, match=said):
        transfer(fabric, shared_moves(case))


def test_neighbours_in_one_memory_are_allowed(fabric):
    memory = np.arange(64, dtype=np.uint8)
    blocks = BlockList([(0, 8, 8), (16, 24, 8), (0, 63, 0)])
    assert transfer(fabric, [Move(0, 2, blocks, memory, memory)]).wrong == 0
    assert memory[8:16].tolist() == list(range(8))


def test_memory_is_checked_before_anything_moves(fabric):
    source, target = np.ones(8, dtype=np.uint8), np.zeros(8, dtype=np.uint8)
    with pytest.raises(CapacityExceeded, match="byte 9 of the source, which has 8 bytes"):
        transfer(fabric, [Move(0, 2, one_block(9), source, target)])
    with pytest.raises(OptionError, match="move 0 has memory on the source side alone"):
        transfer(fabric, [Move(0, 2, one_block(8), source)])
    target.flags.writeable = False
    with pytest.raises(OptionError, match="read-only"):
        transfer(fabric, [Move(0, 2, one_block(8), source, target)])
    assert not target.any()


def test_unknown_names_are_answered_with_the_known_ones(fabric):
    with pytest.raises(NoRoute, match=r"no transport 'rocee'; did you mean roce"):
        transfer_prompt(fabric, transport="rocee")
    with pytest.raises(FabricError, match=r"no endpoint 'node00\.npu0'"):
        timed(fabric, "node00.npu0", 5, 8, "sdma")
    with pytest.raises(OptionError, match=r"endpoint 960 is not in fabric.*0 to 959"):
        timed(fabric, 960, 5, 8, "sdma")
    with pytest.raises(OptionError, match="no KV model"):
        transfer_prompt(fabric, model="gpt")


def test_the_same_seed_gives_the_same_bytes(fabric):
    runs = [transfer_prompt(fabric, tokens=3, seed=seed).delivery.sent for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
