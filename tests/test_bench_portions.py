"""Checks of bench results find what is wrong, and portions of a schedule do all of it."""

import numpy as np
import pytest

from ubnet.cli.expected import Call, fill_inputs, uneven_parts, wrong_elements
from ubnet.cli.inputs import Numbers
from ubnet.cli.portions import largest_portion, portions
from ubnet.collectives.build import build
from ubnet.collectives.registry import OPERATIONS
from ubnet.replay import Arena, replay
from ubnet.schedule import OUTPUT

CASES = [(o.name, a) for o in OPERATIONS.values() for a in o.algorithms if o.name != "barrier"]


def make(op, algorithm, ranks, count, root):
    known = OPERATIONS[op]
    parts = uneven_parts(known.uneven, ranks, count)
    schedule = build(
        op, ranks, count, algorithm=algorithm, root=root if known.rooted else 0, parts=parts or None
    )
    return schedule, Call(op, ranks, count, root, parts)


def run(schedule, call, limit):
    """Run a schedule in portions; return wrong elements, portions and checked elements."""
    numbers = Numbers.for_sums(3, np.dtype("float32"), call.ranks)
    wrong = parts = checked = 0
    for portion in portions(schedule, 4, limit):
        arena = Arena(portion.schedule.sizes, "float32")
        fill_inputs(arena, numbers, portion.input_first)
        replay(portion.schedule, arena)
        wrong += wrong_elements(call, arena, numbers, portion.output_first)
        checked += int(portion.schedule.sizes[:, OUTPUT].sum())
        parts += 1
    return wrong, parts, checked


@pytest.mark.parametrize(("op", "algorithm"), CASES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 8])
def test_whole_and_portions_do_and_check_the_same(op, algorithm, ranks):
    for count in (0, 1, 37):
        schedule, call = make(op, algorithm, ranks, count, ranks // 2)
        elements = int(schedule.sizes[:, OUTPUT].sum())
        assert run(schedule, call, 1 << 30) == (0, 1, elements)
        wrong, _, checked = run(schedule, call, 256)
        assert (wrong, checked) == (0, elements)


@pytest.mark.parametrize(("op", "algorithm"), [("all_to_all", "mesh"), ("all_reduce", "mesh")])
def test_portions_are_small(op, algorithm):
    schedule, call = make(op, algorithm, 8, 1000, 0)
    whole = int(schedule.sizes.sum()) * 4
    assert largest_portion(schedule, 4, whole // 8) < whole // 4
    assert run(schedule, call, whole // 8)[1] == 8


@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_one_wrong_element_is_one(op, algorithm):
    schedule, call = make(op, algorithm, 4, 9, 1)
    numbers = Numbers.for_sums(3, np.dtype("float32"), 4)
    arena = Arena(schedule.sizes, "float32")
    nothing = np.zeros(4, dtype=np.int64)
    fill_inputs(arena, numbers, nothing)
    replay(schedule, arena)
    for rank in range(4):
        output = arena.output(rank)
        if len(output):
            output[len(output) // 2] += 1
    # What an exscan leaves on rank 0 is nobody's affair.
    broken = int((schedule.sizes[:, OUTPUT] > 0).sum()) - (op == "exscan")
    assert wrong_elements(call, arena, numbers, nothing) == broken > 0


def test_an_operation_that_was_left_out_is_seen():
    schedule, call = make("all_gather", "mesh", 4, 5, 0)
    numbers = Numbers.for_sums(3, np.dtype("float32"), 4)
    arena = Arena(schedule.sizes, "float32")
    nothing = np.zeros(4, dtype=np.int64)
    fill_inputs(arena, numbers, nothing)
    replay(schedule, arena, ops=np.arange(1, len(schedule)))
    assert wrong_elements(call, arena, numbers, nothing) == 5
