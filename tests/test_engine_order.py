"""Engines that keep the order of a schedule's steps, and the rings that need it."""

from dataclasses import replace

import numpy as np
import pytest

from ubnet.collectives import OPERATIONS, build
from ubnet.fabrics import load_fabric
from ubnet.schedule_builder import ScheduleBuilder
from ubnet.timing import time_schedule

FABRIC = load_fabric("cloudmatrix384")
NEAR_PS = 1_320_000
"""A message between two NPUs of a node: start-up, cables and switch, with its posting."""


def two_sends(in_order, nbytes):
    builder = ScheduleBuilder("two", 3, [nbytes, nbytes, 0], in_order=in_order)
    builder.add([0, 1], 0, [1, 2], 0, 0, nbytes)
    return time_schedule(builder.build(), FABRIC, [0, 2, 4], itemsize=1, transport="aiv")


def test_the_first_has_the_engine_to_itself_and_the_next_hides_its_startup():
    alone = two_sends(True, 1 << 20).op_end_ps
    shared = two_sends(False, 1 << 20).op_end_ps
    wire = (1 << 20) / 137e9 * 1e12 + 80_000
    assert alone[0] == pytest.approx(NEAR_PS - 80_000 + wire, abs=2)
    assert alone[1] - alone[0] == pytest.approx(wire, abs=2)
    assert shared[0] == shared[1] == pytest.approx(alone[1], abs=2)


def test_transfers_of_one_step_share_the_engine():
    """Otherwise all ranks of a mesh would write to the same one at a time."""
    mesh = build("all_gather", 16, 10_000, algorithm="mesh")
    times = [
        time_schedule(replace(mesh, in_order=in_order), FABRIC, np.arange(16), 4, "aiv").time_ps
        for in_order in (True, False)
    ]
    assert times[0] == pytest.approx(times[1], rel=1e-6)


def test_messages_without_bytes_are_posted_one_after_the_other():
    first, second = two_sends(True, 0).op_end_ps.tolist()
    assert [first, second] == [NEAR_PS, NEAR_PS + 80_000]
    assert two_sends(False, 0).op_end_ps.max() == second


def ring_time(op, ranks, size, chunks):
    count = OPERATIONS[op].count_of(size, ranks, 4)
    schedule = build(op, ranks, count, algorithm="ring", chunks=chunks)
    return time_schedule(schedule, FABRIC, np.arange(ranks), 4, "aiv")


def test_two_chunks_a_step_fill_the_write_engine_between_nodes():
    """6 nodes with the blocks of 1 GiB on 768 dies: what 768 dies do is in bench/ring.py."""
    size = (1 << 30) // 768 * 96
    timing = ring_time("all_reduce", 96, size, chunks=2)
    busbw = 2 * 95 / 96 * size / (timing.time_ps * 1e-12)
    assert busbw == pytest.approx(135e9, rel=0.02)
    assert ring_time("all_reduce", 96, size, chunks=1).time_ps > timing.time_ps


@pytest.mark.parametrize("op", ["all_reduce", "all_gather"])
def test_ring_and_mesh_meet_where_published(op):
    """Two nodes of 16 dies [S]: ring far behind at 64 KiB, some percent ahead at 256 MiB."""

    def ratio(size):
        mesh = build(op, 32, OPERATIONS[op].count_of(size, 32, 4), algorithm="mesh")
        mesh_ps = time_schedule(mesh, FABRIC, np.arange(32), 4, "aiv").time_ps
        return ring_time(op, 32, size, 1).time_ps / mesh_ps

    ratios = [ratio(1 << shift) for shift in range(16, 29, 2)]
    assert 3 <= ratios[0] <= 6
    assert ratios == sorted(ratios, reverse=True)
    assert ratio(4 << 20) > 1 > ratio(32 << 20)
    assert 0.8 <= ratios[-1] <= 0.97


def test_a_pipelined_chain_nears_the_rate_of_one_transfer():
    size = 64 << 20
    times = [ring_time("broadcast", 16, size, chunks).time_ps for chunks in (1, 8, 64)]
    assert times == sorted(times, reverse=True)
    assert times[-1] < 1.4 * size / 137e9 * 1e12
