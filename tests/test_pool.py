"""The memory pool against a dict: blocks, tenants, tiers, and the death of a node."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ubnet.errors import AccessRefused, CapacityExceeded, OptionError
from ubnet.fabrics import load_fabric
from ubnet.kv import DEEPSEEK_R1, Carrier
from ubnet.pool import HashRing, MemoryPool, Outcome, Tier, outside, prefix_keys

FABRIC = load_fabric("cloudmatrix64")
DIE = "node03.npu2.die1"


def pool_of(tenants=("alice",), **options):
    pool = MemoryPool(Carrier(FABRIC), **options)
    for tenant in tenants:
        pool.create_namespace(f"{tenant}'s", tenant)
    return pool


def block(seed, size=1000):
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def stored(pool, client, key, data, namespace="alice's"):
    return pool.wait(client.put(namespace, key, data))


def fetched(pool, client, key, namespace="alice's"):
    request = client.get(namespace, key)
    return pool.wait(request), request.data


def test_what_was_put_is_found_by_every_die_and_what_was_not_is_missing():
    pool = pool_of()
    writer = pool.client("alice", "node00.npu0.die0")
    assert stored(pool, writer, b"a", block(1)) is Outcome.STORED
    for reader in ("node00.npu0.die0", "node07.npu7.die1", "node02.cpu1"):
        outcome, data = fetched(pool, pool.client("alice", reader), b"a")
        assert outcome is Outcome.FOUND
        assert (data == block(1)).all()
    assert fetched(pool, writer, b"b") == (Outcome.MISSING, None)
    into = np.zeros(1000, np.uint8)
    assert pool.wait(writer.get("alice's", b"a", into)) is Outcome.FOUND
    assert (into == block(1)).all()


@settings(max_examples=60)
@given(st.data())
def test_the_pool_is_a_dict_that_may_lose_what_a_dead_node_had(data):
    """Puts, gets and deletes one after the other; room for two blocks a CPU, so that most move."""
    share = data.draw(st.sampled_from(["tenant", "pool"]))
    pool = pool_of(("alice", "bob"), dram_bytes=2500, cpus=FABRIC.of_kind("cpu")[:6], share=share)
    clients = {t: pool.client(t, die) for t, die in (("alice", 80), ("bob", 100))}
    model = {}
    lost = set()
    killed = False
    for _ in range(data.draw(st.integers(1, 40))):
        tenant = data.draw(st.sampled_from(["alice", "bob"]))
        client, space = clients[tenant], f"{tenant}'s"
        name = (space, bytes([data.draw(st.integers(1, 14))]))
        action = data.draw(st.sampled_from(["put", "put", "get", "get", "get", "delete", "kill"]))
        if action == "put":
            value = data.draw(st.integers(0, 12))
            outcome = stored(pool, client, name[1], block(value), space)
            assert outcome in (Outcome.STORED, Outcome.KNOWN)
            model[name] = value
            # A block that was lost is whole again for every key that leads to it.
            again = {n for n in lost if model.get(n) == value and same(n, name, share)}
            lost -= again | {name}
        elif action == "get":
            outcome, got = fetched(pool, client, name[1], space)
            if name not in model:
                assert outcome is Outcome.MISSING
            elif name in lost:
                assert outcome is Outcome.LOST
                assert got is None
            else:
                assert outcome is Outcome.FOUND
                assert (got == block(model[name])).all()
        elif action == "delete":
            assert client.delete(space, name[1]) == (name in model)
            model.pop(name, None)
            lost.discard(name)
        elif not killed:
            killed = True
            dying = [n for n in model if pool.tier_of(*n) is Tier.DRAM]
            dying = [n for n in dying if FABRIC.node_of[pool.home_of(*n)] == 0]
            pool.kill(0)
            lost |= set(dying)
        check_books(pool)
    assert {n for n in model if pool.tier_of(*n) is Tier.LOST} == lost


def same(a, b, share):
    return share == "pool" or a[0] == b[0]


def check_books(pool):
    for shelf in pool.tiers.shelves.values():
        assert shelf.used == sum(b.nbytes for b in shelf.blocks()) <= shelf.capacity
    known = pool._directory
    kept = [b for b in known.blocks.values() if b.tier is Tier.SSD]
    assert pool.ssd_used_bytes == sum(b.nbytes for b in kept)
    assert Counter(pool._directory._keys.values()) == {
        c: b.names for c, b in pool._directory.blocks.items()
    }


def test_another_tenants_get_put_delete_and_match_are_refused():
    pool = pool_of(("alice", "bob"))
    alice, bob = pool.client("alice", 0), pool.client("bob", 60)
    stored(pool, alice, b"k", block(1))
    for call in (
        lambda: bob.get("alice's", b"k"),
        lambda: bob.put("alice's", b"k", block(2)),
        lambda: bob.delete("alice's", b"k"),
        lambda: bob.match("alice's", [b"k"]),
    ):
        with pytest.raises(AccessRefused, match='tenant bob may not use namespace "alice\'s"'):
            call()
    assert fetched(pool, bob, b"k", "bob's") == (Outcome.MISSING, None)
    assert fetched(pool, alice, b"k")[0] is Outcome.FOUND
    with pytest.raises(OptionError, match="did you mean alice's"):
        alice.get("alices", b"k")
    with pytest.raises(OptionError, match="exists already"):
        pool.create_namespace("bob's", "alice")


def test_equal_blocks_are_kept_once_and_go_with_their_last_key():
    pool = pool_of(("alice", "bob"))
    alice, bob = pool.client("alice", 0), pool.client("bob", 60)
    first = alice.put("alice's", b"1", block(7, 10**6))
    pool.wait(first)
    again = alice.put("alice's", b"2", block(7, 10**6))
    assert pool.wait(again) is Outcome.KNOWN
    assert again.time_ps < first.time_ps / 3
    assert pool.used_bytes == 10**6
    assert stored(pool, bob, b"1", block(7, 10**6), "bob's") is Outcome.STORED
    assert pool.used_bytes == 2 * 10**6
    assert alice.delete("alice's", b"1")
    assert fetched(pool, alice, b"2")[0] is Outcome.FOUND
    assert alice.delete("alice's", b"2")
    assert pool.used_bytes == 10**6
    shared = pool_of(("alice", "bob"), share="pool")
    stored(shared, shared.client("alice", 0), b"1", block(7))
    bobs = shared.client("bob", 60)
    assert stored(shared, bobs, b"x", block(7), "bob's") is Outcome.KNOWN
    assert fetched(shared, bobs, b"1", "bob's")[0] is Outcome.MISSING


def test_equal_blocks_put_at_the_same_time_are_written_once():
    pool = pool_of()
    clients = [pool.client("alice", die) for die in (0, 30, 60)]
    puts = [c.put("alice's", bytes([i]), block(1, 10**6)) for i, c in enumerate(clients, 1)]
    pool.carrier.run()
    assert [p.outcome for p in puts] == [Outcome.STORED, Outcome.KNOWN, Outcome.KNOWN]
    assert pool.used_bytes == 10**6


def test_the_block_used_longest_ago_goes_to_ssd_and_comes_back_the_same():
    pool = pool_of(cpus=FABRIC.of_kind("cpu")[:1], dram_bytes=3000)
    client = pool.client("alice", DIE)
    for i in range(3):
        stored(pool, client, bytes([i + 1]), block(i))
    assert fetched(pool, client, b"\x01")[0] is Outcome.FOUND
    stored(pool, client, b"\x04", block(3))
    tiers = [pool.tier_of("alice's", bytes([i + 1])) for i in range(4)]
    assert tiers == [Tier.DRAM, Tier.SSD, Tier.DRAM, Tier.DRAM]
    assert (pool.used_bytes, pool.ssd_used_bytes) == (3000, 1000)
    slow = client.get("alice's", b"\x02")
    assert pool.wait(slow) is Outcome.FOUND
    assert (slow.data == block(1)).all()
    quick = client.get("alice's", b"\x02")
    pool.wait(quick)
    assert (slow.tier, quick.tier) == ("ssd", "dram")
    # Out with another block, then back in: two trips over VPC of 50 us each.
    assert slow.time_ps > quick.time_ps + 100_000_000


def test_many_gets_of_one_block_on_ssd_load_it_once():
    pool = pool_of(cpus=FABRIC.of_kind("cpu")[:1], dram_bytes=1000)
    client = pool.client("alice", DIE)
    for i in range(2):
        stored(pool, client, bytes([i + 1]), block(i))
    jobs = pool.carrier.jobs
    gets = [pool.client("alice", die).get("alice's", b"\x01") for die in range(20)]
    pool.carrier.run()
    assert {g.outcome for g in gets} == {Outcome.FOUND}
    assert all((g.data == block(0)).all() for g in gets)
    # 20 lookups and reads, one block out, one in.
    assert pool.carrier.jobs - jobs == 42


def test_ssd_that_is_full_forgets_the_block_that_came_first():
    pool = pool_of(cpus=FABRIC.of_kind("cpu")[:1], dram_bytes=1000, ssd_bytes=2000)
    client = pool.client("alice", DIE)
    for i in range(5):
        stored(pool, client, bytes([i + 1]), block(i))
    found = [fetched(pool, client, bytes([i + 1]))[0] for i in range(2)]
    assert found == [Outcome.MISSING, Outcome.MISSING]
    assert pool.ssd_used_bytes == 2000
    assert fetched(pool, client, b"\x03")[0] is Outcome.FOUND


def test_a_block_that_no_cpu_can_hold_is_refused_and_a_full_one_waits():
    pool = pool_of(cpus=FABRIC.of_kind("cpu")[:1], dram_bytes=2000)
    client = pool.client("alice", DIE)
    with pytest.raises(CapacityExceeded, match="a block of 2001 bytes does not fit"):
        client.put("alice's", b"big", block(0, 2001))
    assert pool.tier_of("alice's", b"big") is None
    puts = [client.put("alice's", bytes([i + 1]), block(i)) for i in range(8)]
    pool.carrier.run()
    assert {p.outcome for p in puts} == {Outcome.STORED}
    for i in range(8):
        outcome, data = fetched(pool, client, bytes([i + 1]))
        assert outcome is Outcome.FOUND
        assert (data == block(i)).all()
    check_books(pool)


@pytest.mark.parametrize("after_us", [0, 12, 50])
def test_a_node_dies_among_1000_gets_and_nothing_wrong_is_returned(after_us):
    pool = pool_of()
    writers = [pool.client("alice", die) for die in range(32, 128, 8)]
    keys = [bytes([i // 250 + 1, i % 250]) for i in range(200)]
    for i, key in enumerate(keys):
        writers[i % len(writers)].put("alice's", key, block(i, 50_000))
    pool.carrier.run()
    there = [key for key in keys if FABRIC.node_of[pool.home_of("alice's", key)] == 1]
    assert 10 < len(there) < 60
    gets = []
    for number in range(1000):
        pool.carrier.run_until(pool.carrier.now_ps + 100_000)
        if number == 500:
            pool.carrier.run_until(pool.carrier.now_ps + after_us * 10**6)
            assert pool.kill(1) == len(there)
        client = pool.client("alice", 32 + number % 96)
        gets.append((number % 200, client.get("alice's", keys[number % 200])))
    pool.carrier.run()
    outcomes = Counter(g.outcome for _, g in gets)
    assert set(outcomes) == {Outcome.FOUND, Outcome.LOST}
    for i, get in gets:
        if get.outcome is Outcome.FOUND:
            assert (get.data == block(i, 50_000)).all()
        else:
            assert keys[i] in there
            assert get.data is None
    assert all(g.outcome is Outcome.LOST for i, g in gets[500:] if keys[i] in there)
    assert outcomes[Outcome.LOST] >= 2 * len(there)
    for key in there:
        i = keys.index(key)
        assert stored(pool, writers[0], key, block(i, 50_000)) is Outcome.STORED
        assert fetched(pool, writers[1], key)[0] is Outcome.FOUND
    check_books(pool)


def test_a_dead_node_asks_for_nothing_and_the_last_one_cannot_die():
    pool = pool_of()
    client = pool.client("alice", 16)
    put = client.put("alice's", b"k", block(1, 10**7))
    pool.carrier.run_until(30_000_000)
    pool.kill(1)
    pool.carrier.run()
    assert put.outcome is Outcome.LOST
    with pytest.raises(OptionError, match="on a dead node"):
        client.get("alice's", b"k")
    other = pool.client("alice", 0)
    assert fetched(pool, other, b"k")[0] is Outcome.LOST
    assert stored(pool, other, b"k", block(1, 10**7)) is Outcome.STORED
    small = pool_of(cpus=FABRIC.of_kind("cpu")[:4])
    with pytest.raises(OptionError, match="the last one of the pool"):
        small.kill(0)
    with pytest.raises(OptionError, match="no node 8"):
        small.kill(8)


def test_prefix_keys_match_up_to_the_first_block_that_differs():
    pool = pool_of()
    client = pool.client("alice", DIE)
    prompt = np.arange(1024)
    for i, key in enumerate(prefix_keys(prompt)):
        stored(pool, client, key, block(i))
    other = prompt.copy()
    other[700] += 1
    assert client.match("alice's", prefix_keys(prompt)) == 8
    assert client.match("alice's", prefix_keys(other)) == 5
    assert client.match("alice's", prefix_keys(np.arange(100))) == 0
    # Equal tokens behind a difference are another prefix, and have another key.
    assert prefix_keys(other)[6:] != prefix_keys(prompt)[6:]


@given(st.integers(2, 40), st.integers(0, 10**6))
def test_few_keys_move_when_owners_come_and_go(owners, seed):
    rng = np.random.default_rng(seed)
    keys = [rng.bytes(8) for _ in range(300)]
    ring = HashRing(range(owners))
    before = [ring.owner(key) for key in keys]
    gone = int(rng.integers(owners))
    ring.remove(gone)
    after = [ring.owner(key) for key in keys]
    assert all(a == b or b == gone for a, b in zip(after, before, strict=True))
    assert gone not in after
    ring.add(gone)
    assert [ring.owner(key) for key in keys] == before


def test_keys_spread_over_all_owners():
    ring = HashRing(range(192))
    loads = np.bincount([ring.owner(b"%d" % i) for i in range(50_000)], minlength=192)
    assert loads.min() / loads.mean() > 0.5
    assert loads.max() / loads.mean() < 1.7


def test_reads_take_lookup_start_up_and_bytes_and_vpc_is_a_stream():
    nbytes = DEEPSEEK_R1.prompt_bytes(128)
    times = {}
    for transport, rate in (("sdma", 147e9), ("vpc", 5e9)):
        pool = pool_of(transport=transport)
        client = pool.client("alice", DIE)
        pool.wait(client.put("alice's", b"k", nbytes))
        assert FABRIC.node_of[pool.home_of("alice's", b"k")] != 3
        get = client.get("alice's", b"k")
        assert pool.wait(get) is Outcome.FOUND
        times[transport] = get.time_ps
        assert get.transfer_ps == pytest.approx(nbytes / rate * 1e12, rel=0.2)
    assert 15 < times["vpc"] / times["sdma"] < 30


def test_the_way_outside_uses_one_card_alone():
    way = outside(FABRIC, "ssd", streams=10)
    names = [FABRIC.resource_names[i] for i in way.flows(FABRIC, "write", 5, 5, 8).route_link]
    assert names[-2:] == ["node00.vpc.host.up", "node00.vpc.up"]
    assert not any(name.startswith("node0") and name[:6] != "node00" for name in names)
    with pytest.raises(OptionError, match="joins one endpoint to the outside"):
        way.flows(FABRIC, "read", 5, 6, 8)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_requests_at_the_same_time_never_get_what_was_not_put_under_their_key(seed):
    rng = np.random.default_rng(seed)
    pool = pool_of(dram_bytes=2500, ssd_bytes=6000, cpus=FABRIC.of_kind("cpu")[:5])
    clients = [pool.client("alice", die) for die in (5, 40, 70, 100)]
    ever, requests, dead = {}, [], set()
    for _ in range(60):
        client = clients[int(rng.integers(4))]
        if client.endpoint in dead:
            continue
        key, value = bytes([int(rng.integers(1, 9))]), int(rng.integers(6))
        choice = rng.random()
        if choice < 0.45:
            ever.setdefault(key, []).append(value)
            requests.append((key, client.put("alice's", key, block(value))))
        elif choice < 0.9:
            requests.append((key, client.get("alice's", key)))
        elif choice < 0.97:
            client.delete("alice's", key)
        elif not dead:
            pool.kill(0)
            dead = set(np.flatnonzero(FABRIC.node_of == 0).tolist())
        if rng.random() < 0.5:
            pool.carrier.run_until(pool.carrier.now_ps + int(rng.integers(1, 10**8)))
    pool.carrier.run()
    for key, request in requests:
        assert request.done
        if request.outcome is Outcome.FOUND:
            assert any((request.data == block(value)).all() for value in ever[key])
        if request.outcome is Outcome.LOST:
            assert dead
    check_books(pool)
    assert not {Tier.WRITING, Tier.EVICTING, Tier.LOADING} & {
        b.tier for b in pool._directory.blocks.values()
    }
