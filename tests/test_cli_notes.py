"""Long work says on stderr how far it is: by a bar on a terminal, else by a line now and then."""

import sys

import pytest

from ubnet.cli import notes
from ubnet.cli.main import run_command
from ubnet.cli.notes import long_work, progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set by hand."""
    now = [100.0]
    monkeypatch.setattr(notes, "monotonic", lambda: now[0])
    return now


def test_what_is_over_soon_says_nothing(clock, capsys):
    for _ in progress(range(100), "bench"):
        clock[0] += 0.19
    with long_work("summing", "do less") as show:
        for part in range(100):
            clock[0] += 0.19
            show(part / 100)
    assert capsys.readouterr().err == ""


def test_lines_come_after_twenty_seconds_and_then_after_twice_the_time(clock, capsys):
    assert list(progress(range(3), "bench")) == [0, 1, 2]
    for _ in progress(range(100), "bench"):
        clock[0] += 10
    assert capsys.readouterr().err.splitlines() == [
        "ubnet: bench: 2 of 100 done after 20 s",
        "ubnet: bench: 4 of 100 done after 40 s",
        "ubnet: bench: 8 of 100 done after 80 s",
        "ubnet: bench: 16 of 100 done after 3 min",
        "ubnet: bench: 32 of 100 done after 5 min",
        "ubnet: bench: 64 of 100 done after 11 min",
    ]


def test_one_long_piece_of_work_says_its_part_and_what_else_could_be_done(clock, capsys):
    with long_work("moving 16GiB", "--payload size moves no bytes") as show:
        show(0.0)
        clock[0] += 21
        show(0.001)
        clock[0] += 1
        show(0.002)
    assert capsys.readouterr().err == (
        "ubnet: moving 16GiB: 0.1 % done after 21 s, about 5.8 h to go "
        "(--payload size moves no bytes)\n"
    )


def test_on_a_terminal_long_work_has_a_bar_below_that_of_the_rows(clock, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for _ in progress(range(2), "bench"):
        with long_work("moving", "do less") as show:
            show(0.25)
            bar = notes._bars[-1]
            assert [task.visible for task in bar.tasks] == [True, False]
            clock[0] += 3
            show(0.5)
            assert [task.visible for task in bar.tasks] == [True, True]
            assert bar.tasks[1].completed == 0.5
        assert len(bar.tasks) == 1
    assert notes._bars == []


def test_a_bench_of_real_bytes_tells_its_part(clock, capsys, monkeypatch):
    told = []
    monkeypatch.setattr(notes._Notes, "say", lambda self, text, done=0.0: told.append((text, done)))
    arrays = "--ranks 8 --sizes 64MiB"  # some tiles
    for op in (
        f"all_reduce {arrays}",
        f"all_gather {arrays}",
        "dispatch --ep 32",
        "combine --ep 8",
    ):
        told.clear()
        command = f"bench {op} --payload real --json"
        assert run_command(command.split()) in (0, None)
        parts = [done for text, done in told if "%" in text]
        assert parts == sorted(parts)
        assert 0 <= parts[0] < 0.5 <= parts[-1] <= 1


def test_tokens_that_do_not_fit_are_refused_before_they_are_routed(capsys, monkeypatch):
    monkeypatch.setattr("ubnet.cli.expert_rows.Experts.run", lambda *_: pytest.fail("routed"))
    command = "bench moe --ep 768 --tokens 1000000 --payload real"
    assert run_command(command.split()) == 2
    said = capsys.readouterr().err
    assert "dispatch on 768 ranks with real bytes needs 5126.95 GiB" in said
    assert said.count("\n") == 1
