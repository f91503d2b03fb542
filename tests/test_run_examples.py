"""The examples for `ubnet run` print what their docstrings say, and their traces hold together."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("data_parallel", "expert_parallel", "halo_exchange", "ring_latency", "work_pool")

pytestmark = pytest.mark.slow


def ubnet_run(*arguments):
    command = [sys.executable, "-m", "ubnet", "run", *map(str, arguments)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ps(event, key):
    """A time of the trace in whole picoseconds."""
    return round(Fraction(repr(event[key])) * 10**6)


def check_slices(events):
    """No two slices of a track overlap."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = ps(event, "ts")
            assert ps(event, "dur") >= 0
            tracks[event["tid"]].append((start, start + ps(event, "dur"), event["pid"]))
    assert tracks
    for slices in tracks.values():
        slices.sort()
        assert len({pid for _, _, pid in slices}) == 1
        for (_, end, _), (start, _, _) in pairwise(slices):
            assert end <= start
    return tracks


def check_arrows(events, tracks):
    """Every arrow has both ends, the later one not before the first, each inside a slice."""
    ends = {kind: {e["id"]: e for e in events if e["ph"] == kind} for kind in "sf"}
    assert ends["s"].keys() == ends["f"].keys()
    inside = {(tid, start, end) for tid, slices in tracks.items() for start, end, _ in slices}
    by_track = defaultdict(list)
    for tid, start, end in inside:
        by_track[tid].append((start, end))
    for number, begin in ends["s"].items():
        finish = ends["f"][number]
        assert ps(begin, "ts") <= ps(finish, "ts")
        for event in (begin, finish):
            at = ps(event, "ts")
            assert any(start <= at <= end for start, end in by_track[event["tid"]])


def check_sums(events, summary):
    """What the summary says of a rank is the sum of its slices."""
    calls = defaultdict(lambda: defaultdict(int))
    kinds = defaultdict(lambda: defaultdict(int))
    for event in events:
        if event["ph"] == "X" and event["cat"] in ("compute", "blocked"):
            calls[event["pid"]][event["name"]] += ps(event, "dur")
            kinds[event["pid"]][event["cat"]] += ps(event, "dur")
    lines = summary.split("# rank")[1].split("# busiest")[0].splitlines()[2:]
    assert lines
    for line in lines:
        rank, compute, blocked, *_ = line.split()
        assert close(compute, kinds[int(rank)]["compute"])
        assert close(blocked, kinds[int(rank)]["blocked"])
        shown = dict(re.findall(r"(\w+) ([\d.]+)(?:,|$)", line))
        waited = {n: t for n, t in calls[int(rank)].items() if n != "compute"}
        assert shown.keys() == waited.keys()
        assert all(close(shown[name], time) for name, time in waited.items())


def close(shown, time_ps):
    """Whether a printed figure, in us, is a time up to its last digit."""
    decimals = len(shown.partition(".")[2])
    return abs(float(shown) - time_ps / 1e6) <= 0.5001 * 10**-decimals


def test_all_examples_of_ranks_are_here():
    paths = sorted((ROOT / "examples").glob("*.py"))
    assert [path.stem for path in paths if "`ubnet run" in path.read_text()] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_it_says_and_its_trace_holds_together(name, tmp_path):
    path = ROOT / "examples" / f"{name}.py"
    text = path.read_text().split('"""')[1]
    arguments = re.search(r"`ubnet run (.*?)`", text)[1].split()
    shown = dedent(text.split("It prints:\n\n")[1])
    trace = tmp_path / "trace.json"
    printed = ubnet_run("--trace", trace, "--summary", *arguments)
    assert printed.startswith(shown)
    summary = printed.removeprefix(shown)
    events = json.loads(trace.read_text())["traceEvents"]
    tracks = check_slices(events)
    check_arrows(events, tracks)
    check_sums(events, summary)
    assert any(event["ph"] == "s" for event in events)
