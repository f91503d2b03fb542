"""What the KV service costs on the machine it runs on."""

from time import perf_counter, process_time

import numpy as np
import pytest

from ubnet.fabrics import load_fabric
from ubnet.kv import Agent, Carrier

DESCRIPTORS, LENGTH = 112_000, 64
POST_S = 0.050


@pytest.fixture(scope="module")
def sides():
    carrier = Carrier(load_fabric("cloudmatrix64"))
    a, b = Agent("a", carrier, 0), Agent("b", carrier, 60)
    size = DESCRIPTORS * LENGTH * 2
    memory = [np.zeros(size, np.uint8), np.zeros(size, np.uint8)]
    a.register_memory(memory[:1])
    b.register_memory(memory[1:])
    a.add_remote_agent(b.get_agent_metadata())
    rows = np.arange(DESCRIPTORS)
    anywhere = np.random.default_rng(1).permutation(DESCRIPTORS)
    lists = []
    for array, order in zip(memory, (rows, anywhere), strict=True):
        address = array.ctypes.data + order * 2 * LENGTH
        lists.append(np.stack([address, np.full(DESCRIPTORS, LENGTH), 0 * rows], 1))
    return carrier, a, lists


def best_s(call, prepare, clock=perf_counter, times=5):
    """Return the least time of some calls: what the work costs, not what else was going on."""
    taken = []
    for _ in range(times):
        given = prepare()
        begin = clock()
        call(given)
        taken.append(clock() - begin)
    return min(taken)


def test_112000_scattered_descriptors_post_in_under_50_ms(sides, record_property):
    carrier, a, (local, remote) = sides

    def handle(_=None):
        return a.initialize_xfer("WRITE", local, remote, "b")

    def fresh():
        carrier.run()
        return handle()

    posted = best_s(a.transfer, fresh)
    # Of this process alone: neighbours on the machine are not what is measured.
    both = best_s(lambda _: a.transfer(handle()), carrier.run, process_time)
    record_property("post_ms", posted * 1e3)
    record_property("check_and_post_ms", both * 1e3)
    print(f"post {posted * 1e3:.2f} ms; checked, merged and posted {both * 1e3:.1f} ms")
    assert posted < POST_S
    assert both < POST_S
