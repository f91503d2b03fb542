"""No collective carries more over any resource than its capacity allows in the time."""

from typing import Any

import numpy as np
import pytest

from ubnet.collectives import OPERATIONS, build
from ubnet.fabrics import load_fabric
from ubnet.memory import capacity_with_memory, resource_name
from ubnet.schedule import Schedule
from ubnet.timing import Timing, time_schedule

FABRIC = load_fabric("cloudmatrix384")
CAPACITY = capacity_with_memory(FABRIC)
RESOURCE = {name: number for number, name in enumerate(FABRIC.resource_names)}
ALL = [
    pytest.param(op.name, name, id=f"{op.name}-{name}")
    for op in OPERATIONS.values()
    for name in op.algorithms
]


def parts(ranks: int, count: int) -> Any:
    """Return uneven parts: up to twice the count for another rank, nothing for a third of them.

    On many ranks only three sizes differ, so that the engine has few ends to tell apart.
    """
    rank = np.arange(ranks)
    both = rank[:, None] + rank
    sent = count * (both % 3)
    if ranks <= 100:
        sent = (rank[:, None] * 7 + rank * 3) % (2 * count + 1) * (both % 3 > 0)
    starts = np.cumsum(sent, axis=1) - sent
    arrives = np.cumsum(sent, axis=0) - sent
    return [(sent[r], starts[r], sent[:, r], arrives[:, r]) for r in rank]


def schedule_of(op: str, algorithm: str, ranks: int, size: int) -> Schedule:
    count = OPERATIONS[op].count_of(size, ranks, 4)
    uneven = parts(ranks, max(count, 1)) if OPERATIONS[op].uneven == "pairs" else None
    if OPERATIONS[op].uneven == "ranks":
        uneven = [max(count, 1) * (rank % 3) for rank in range(ranks)]
    return build(op, ranks, count, algorithm=algorithm, parts=uneven)


def check_bounds(timing: Timing) -> None:
    """Half a picosecond is what an end is rounded by."""
    seconds = (timing.time_ps + 1) * 1e-12
    used = timing.resource_bytes / (CAPACITY * seconds)
    fullest = int(used.argmax())
    assert used[fullest] <= 1, resource_name(FABRIC, fullest)
    assert timing.lower_bound_ps <= timing.time_ps + 1
    assert 0 < timing.efficiency <= 1 + 1e-6
    assert 0 <= timing.busiest_utilisation <= 1 + 1e-6


def check_port_bytes(schedule: Schedule, timing: Timing) -> None:
    """What ports, package links and node uplinks carried is what the schedule sends over them."""
    s = schedule
    moved = s.transfers
    src, dst, nbytes = s.src[moved], s.dst[moved], s.count[moved] * 4
    distance = FABRIC.distance(src, dst)
    names = {
        "up": ([f"{FABRIC.endpoints[r].name}.up" for r in range(s.ranks)], src, distance > 1),
        "down": ([f"{FABRIC.endpoints[r].name}.down" for r in range(s.ranks)], dst, distance > 1),
        "mate": ([f"{FABRIC.endpoints[r].name}.mate" for r in range(s.ranks)], src, distance == 1),
        "uplink": ([f"node{n:02}.uplink" for n in range(48)], src // 16, distance > 2),
        "downlink": ([f"node{n:02}.downlink" for n in range(48)], dst // 16, distance > 2),
    }
    for labels, place, crosses in names.values():
        wanted = np.bincount(place[crosses], nbytes[crosses], len(labels))
        carried = timing.resource_bytes[[RESOURCE[label] for label in labels]]
        assert carried == pytest.approx(wanted)


@pytest.mark.parametrize("ranks", [2, 4, 16, 32])
@pytest.mark.parametrize(("op", "algorithm"), ALL)
def test_no_resource_is_overfilled(op: str, algorithm: str, ranks: int) -> None:
    for size in (1 << 10, 1 << 20, 1 << 26):
        schedule = schedule_of(op, algorithm, ranks, size)
        for transport in ("aiv", "sdma"):
            timing = time_schedule(schedule, FABRIC, np.arange(ranks), 4, transport)
            check_bounds(timing)
            check_port_bytes(schedule, timing)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "algorithm"), ALL)
def test_no_resource_is_overfilled_on_768_ranks(op: str, algorithm: str) -> None:
    schedule = schedule_of(op, algorithm, 768, 1 << 20)
    timing = time_schedule(schedule, FABRIC, np.arange(768), 4)
    check_bounds(timing)
    check_port_bytes(schedule, timing)


@pytest.mark.slow
def test_all_to_all_of_1_mib_a_pair_fills_the_fabric() -> None:
    schedule = schedule_of("all_to_all", "mesh", 768, 768 << 20)
    timing = time_schedule(schedule, FABRIC, np.arange(768), 4)
    assert timing.efficiency >= 0.99
    assert timing.busiest.endswith(".write")
    check_bounds(timing)
