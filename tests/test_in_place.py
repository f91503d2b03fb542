"""Schedules in place: nothing is overwritten before it was read; time and result are the same."""

import numpy as np
import pytest

from ubnet.cli.expected import Call, uneven_parts
from ubnet.cli.in_place_run import wrong_in_place
from ubnet.cli.inputs import Numbers
from ubnet.cli.main import run_command
from ubnet.collectives import OPERATIONS, build
from ubnet.errors import ScheduleError
from ubnet.fabrics import load_fabric
from ubnet.in_place import in_place, placed
from ubnet.timing import time_schedule

FABRIC = load_fabric("cloudmatrix384")
CASES = [(o.name, a) for o in OPERATIONS.values() for a in o.algorithms if o.name != "barrier"]


def make(op, algorithm, ranks, count, root=0):
    known = OPERATIONS[op]
    parts = uneven_parts(known.uneven, ranks, count)
    root = root if known.rooted else 0
    schedule = build(op, ranks, count, algorithm=algorithm, root=root, parts=parts or None)
    return schedule, Call(op, ranks, count, root, parts)


@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_what_can_be_done_in_place_is_right_and_takes_the_same_time(op, algorithm):
    if algorithm in OPERATIONS[op].apart:
        pytest.skip("needs both buffers: see the next test")
    numbers = Numbers.for_sums(2, np.dtype("int32"), 8)
    for ranks, count, root in [(1, 3, 0), (2, 1, 1), (3, 7, 2), (5, 5, 0), (8, 11, 3), (4, 0, 1)]:
        schedule, call = make(op, algorithm, ranks, count, root)
        shared = in_place(schedule, placed(schedule.sizes))
        shared.validate()
        assert wrong_in_place(call, schedule, np.dtype("int32"), numbers) == 0
        for how in ("aiv", "sdma"):
            apart, together = (
                time_schedule(s, FABRIC, np.arange(ranks), 4, how) for s in (schedule, shared)
            )
            assert apart.rank_end_ps.tolist() == together.rank_end_ps.tolist()


@pytest.mark.parametrize(
    ("op", "algorithm"), [case for case in CASES if case[1] in OPERATIONS[case[0]].apart]
)
def test_what_needs_both_buffers_would_overwrite_what_is_not_sent(op, algorithm):
    schedule, _ = make(op, algorithm, 4, 5)
    with pytest.raises(ScheduleError, match="in no fixed order"):
        in_place(schedule, placed(schedule.sizes)).validate()


def test_the_table_says_both_and_ends_as_nccl_tests_does(capsys):
    line = "bench all_to_all --algo mesh,bruck --ranks 4 --sizes 1KiB:4KiB:4"
    assert run_command(line.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = next(text for text in lines if text.startswith("# op"))
    assert titles.split().count("busbw") == titles.split().count("wrong") == 2
    rows = [text.split() for text in lines if text.startswith("all_to_all")]
    for row in rows:
        figures = row[7:11]
        assert row[11:15] == (figures if row[1] == "bruck" else ["N/A"] * 4)
    assert lines[-1] == "# Out of bounds values : 0 OK"
    assert run_command(line.replace("mesh,bruck", "mesh").split()) == 0
    lines = capsys.readouterr().out.splitlines()
    rates = [float(text.split()[8]) for text in lines if text.startswith("all_to_all")]
    assert lines[-2] == "# Out of bounds values : 0 OK"
    assert float(lines[-1].partition(":")[2]) == pytest.approx(sum(rates) / 2, abs=1e-3)


def test_a_wrong_result_in_place_fails(monkeypatch, capsys):
    monkeypatch.setattr("ubnet.cli.collective_rows.wrong_in_place", lambda *call: 3)
    assert run_command(["bench", "all_reduce", "--ranks", "4", "--sizes", "1KiB"]) == 1
    assert "# Out of bounds values : 3 FAILED" in capsys.readouterr().out
