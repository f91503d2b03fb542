"""Checks of bench results find what is wrong, and tiles of a schedule do all of it."""

from dataclasses import replace

import numpy as np
import pytest

from ubnet.arena import Arena
from ubnet.cli.check import Check
from ubnet.cli.expected import Call, uneven_parts
from ubnet.cli.inputs import Numbers, bench_dtype
from ubnet.cli.tile_memory import TileMemory, fill_inputs
from ubnet.cli.tiles import (
    MANY_OPERATIONS,
    _by_unit,
    _uncrossed,
    common_unit,
    tiles,
)
from ubnet.collectives.build import build
from ubnet.collectives.registry import OPERATIONS
from ubnet.schedule import JOIN, OUTPUT

BEHIND = [(9, 10), (10, 11), (11, 12)]
CASES = [(o.name, a) for o in OPERATIONS.values() for a in o.algorithms if o.name != "barrier"]


def make(op, algorithm, ranks, count, root):
    known = OPERATIONS[op]
    parts = uneven_parts(known.uneven, ranks, count)
    schedule = build(
        op, ranks, count, algorithm=algorithm, root=root if known.rooted else 0, parts=parts or None
    )
    return schedule, Call(op, ranks, count, root, parts)


def run(schedule, call, limit, dtype="float32"):
    """Run a schedule in tiles; return wrong elements, tiles and checked elements."""
    numbers = Numbers.for_sums(3, bench_dtype(dtype), call.ranks)
    wrong = parts = checked = 0
    for tile in tiles(schedule, 4, limit):
        arena = Arena(tile.sizes, bench_dtype(dtype))
        fill_inputs(tile, arena, numbers)
        tile.moves(arena).run(arena)
        wrong += Check(call, numbers).wrong(tile, arena)
        checked += int(tile.sizes[:, OUTPUT].sum())
        parts += 1
    return wrong, parts, checked


@pytest.mark.parametrize(("op", "algorithm"), CASES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 8])
def test_whole_and_tiles_do_and_check_the_same(op, algorithm, ranks):
    for count in (0, 1, 37):
        schedule, call = make(op, algorithm, ranks, count, ranks // 2)
        elements = int(schedule.sizes[:, OUTPUT].sum())
        assert run(schedule, call, 1 << 30) == (0, 1, elements)
        wrong, _, checked = run(schedule, call, 256)
        assert (wrong, checked) == (0, elements)


@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_by_unit_is_right_wherever_there_is_one(op, algorithm):
    schedule, call = make(op, algorithm, 8, 64, 1)
    moving = schedule.kind != JOIN
    unit = common_unit(schedule)
    numbers = Numbers.for_sums(3, np.dtype("float32"), 8)
    if unit == 1:
        pytest.skip("its blocks are uneven")
    wrong, checked = 0, 0
    for tile in _by_unit(schedule, moving, 3, unit):
        arena = Arena(tile.sizes, "float32")
        fill_inputs(tile, arena, numbers)
        tile.moves(arena).run(arena)
        wrong += Check(call, numbers).wrong(tile, arena)
        checked += int(tile.sizes[:, OUTPUT].sum())
    assert (wrong, checked) == (0, int(schedule.sizes[:, OUTPUT].sum()))


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [("all_to_all", "mesh"), ("all_reduce", "mesh"), ("all_to_all", "hierarchical")],
)
def test_tiles_are_small(op, algorithm):
    schedule, call = make(op, algorithm, 8, 1000, 0)
    whole = int(schedule.sizes.sum()) * 4
    limit = whole // (8 * MANY_OPERATIONS if algorithm == "hierarchical" else 8)
    assert int(next(tiles(schedule, 4, limit)).sizes.sum()) * 4 < whole // 4
    assert run(schedule, call, limit)[1] == 8


@pytest.mark.parametrize("op", ["all_to_all", "all_reduce", "all_gather", "reduce_scatter", "scan"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int8"])
def test_types_that_kernels_do_not_know_are_filled_and_checked_rank_by_rank(op, dtype):
    schedule, call = make(op, "auto", 4, 37, 0)
    elements = int(schedule.sizes[:, OUTPUT].sum())
    wrong, _, checked = run(schedule, call, 256, dtype)
    assert (wrong, checked) == (0, elements)
    idle = replace(schedule, count=np.zeros_like(schedule.count))
    assert 0 < run(idle, call, 256, dtype)[0] <= elements


@pytest.mark.parametrize("count", [100, 1000, 1001])
def test_stages_that_stay_within_a_share_of_the_buffers_are_cut_between_shares(count):
    schedule, call = make("all_reduce", "hierarchical", 24, count, 0)
    whole = int(schedule.sizes.sum()) * 4
    limit = whole // MANY_OPERATIONS
    largest = next(tiles(schedule, 4, limit))
    assert int(largest.sizes.sum()) * 4 < whole // 4
    wrong, parts, checked = run(schedule, call, limit)
    assert (wrong, checked) == (0, 24 * count)
    assert parts > 2


def test_pieces_hold_whole_what_belongs_together():
    first, end = np.array([7, 0, 2]), np.array([9, 3, 5])
    assert list(_uncrossed(first, end, 12, 1)) == [(0, 5), (5, 6), (6, 7), (7, 9), *BEHIND]
    assert list(_uncrossed(first, end, 12, 4)) == [(0, 5), (5, 9), (9, 12)]
    nothing = np.zeros(0, np.int64)
    assert list(_uncrossed(nothing, nothing, 5, 2)) == [(0, 2), (2, 4), (4, 5)]


def test_tiles_that_do_the_same_are_prepared_once():
    schedule, call = make("all_to_all", "hierarchical", 8, 1000, 0)
    limit = int(schedule.sizes.sum()) * 4 // (8 * MANY_OPERATIONS)
    some = list(tiles(schedule, 4, limit))
    assert len({id(tile.operations) for tile in some}) == 1 < len(some)
    numbers, memory = Numbers.for_sums(3, np.dtype("float32"), 8), TileMemory("float32")
    check = Check(call, numbers)
    for tile in some:
        memory.run(tile, numbers)
        assert check.wrong(tile, memory.arena) == 0
    memory.run(replace(some[0], operations=tuple(c[1:] for c in some[0].operations)), numbers)
    assert check.wrong(some[0], memory.arena) > 0


def test_inputs_that_are_only_copied_stand_in_the_output():
    schedule, call = make("all_reduce", "hierarchical", 12, 100, 0)
    (tile,) = tiles(schedule, 4)
    assert tile.in_place
    assert run(schedule, call, 1 << 30)[:2] == (0, 1)


def broken(op, algorithm, ops=slice(None)):
    """Run a whole schedule, or some of it; return call, tile, memory and numbers."""
    schedule, call = make(op, algorithm, 4, 9, 1)
    numbers = Numbers.for_sums(3, np.dtype("float32"), 4)
    (tile,) = tiles(schedule, 4)
    tile = replace(tile, operations=tuple(column[ops] for column in tile.operations))
    arena = Arena(tile.sizes, "float32")
    fill_inputs(tile, arena, numbers)
    tile.moves(arena).run(arena)
    return call, tile, arena, numbers


@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_one_wrong_element_is_one(op, algorithm):
    call, tile, arena, numbers = broken(op, algorithm)
    for rank in range(4):
        output = arena.output(rank)
        if len(output):
            output[len(output) // 2] += 1
    # What an exscan leaves on rank 0 is nobody's affair.
    wrong = int((tile.sizes[:, OUTPUT] > 0).sum()) - (op == "exscan")
    assert Check(call, numbers).wrong(tile, arena) == wrong > 0


def test_an_operation_that_was_left_out_is_seen():
    call, tile, arena, numbers = broken("all_gather", "mesh", slice(1, None))
    assert Check(call, numbers).wrong(tile, arena) == 9
