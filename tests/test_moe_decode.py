"""The decode layer: lanes do one thing at a time, bounds hold, hidden + exposed is everything."""

import runpy
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ubnet.collectives.decode_layer import COMPUTE, NETWORK, Task, decode_layer, run_layers
from ubnet.errors import OptionError

EXAMPLE = Path(__file__).parents[1] / "examples" / "decode_layer.py"

times = st.integers(0, 50)


@given(st.tuples(times, times, times, times, times), st.integers(1, 4), st.integers(1, 3))
@example((1, 0, 3, 2, 0), 1, 3)  # a gate that takes no time, as the experts of another begin
def test_a_time_line_keeps_its_laws(durations, layers, batches):
    tasks = decode_layer(*durations)
    line = run_layers(tasks, layers, batches)
    assert len(line.slices) == len(tasks) * layers * batches
    busy = line.busy_ps()
    total = sum(durations) * layers * batches
    assert sum(busy.values()) == total
    assert max([*busy.values(), sum(durations) * layers]) <= line.time_ps <= total
    for lane in (COMPUTE, NETWORK):
        mine = [s for s in line.slices if s.task.lane == lane and s.task.duration_ps]
        assert all(a.end_ps <= b.start_ps for a, b in pairwise(mine))
    for batch in range(batches):
        own = sorted((s for s in line.slices if s.batch == batch), key=lambda s: s.layer)
        own.sort(key=lambda s: (s.layer, tasks.index(s.task)))
        assert all(a.end_ps <= b.start_ps for a, b in pairwise(own))
    check_hidden(line, durations, layers * batches)


def check_hidden(line, durations, times):
    """Count by the picosecond."""
    computing = set()
    for s in line.slices:
        if s.task.lane == COMPUTE:
            computing.update(range(s.start_ps, s.end_ps))
    found = line.hidden_ps()
    for name, length in (("dispatch", durations[3]), ("combine", durations[4])):
        under = sum(
            t in computing
            for s in line.slices
            if s.task.name == name
            for t in range(s.start_ps, s.end_ps)
        )
        assert found[name] == (under, length * times - under)


def test_one_batch_hides_nothing_and_two_hide_what_fits():
    """Equal tasks: while one batch is on the network the other computes, all the time."""
    tasks = decode_layer(20, 0, 20, 20, 20)
    alone, pair = run_layers(tasks, 10, 1), run_layers(tasks, 10, 2)
    assert alone.time_ps == 800
    assert alone.hidden_ps() == {"dispatch": (0, 200), "combine": (0, 200)}
    assert pair.time_ps == 820
    assert sum(exposed for _, exposed in pair.hidden_ps().values()) == 20


def test_what_cannot_run_is_named():
    with pytest.raises(OptionError, match="0 layers"):
        run_layers(decode_layer(1, 1, 1, 1, 1), 0, 1)
    with pytest.raises(OptionError, match="durations of 0 or more"):
        run_layers([Task("x", COMPUTE, -1)], 1, 1)


def test_the_example_prints_what_it_says(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    shown = capsys.readouterr().out
    said = EXAMPLE.read_text().split('"""')[1].split("Prints:\n\n")[1]
    assert shown == "".join(f"{line[4:]}\n" for line in said.rstrip().splitlines())
