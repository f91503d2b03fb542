"""GOAL and CSV: every transfer, its bytes and what it waits for stand in the file."""

import csv
import re

import networkx as nx
import numpy as np
import pytest

from ubnet.collectives import build
from ubnet.fabrics import load_fabric
from ubnet.goal import write_goal
from ubnet.schedule_csv import write_csv
from ubnet.timing import time_schedule


@pytest.mark.parametrize("algorithm", ["mesh", "ring", "nhr"])
def test_goal_has_every_message_twice_and_no_circle(algorithm, tmp_path):
    schedule = build("all_reduce", 4, 10, algorithm=algorithm)
    write_goal(schedule, tmp_path / "s.goal", 4, reduce_rate=1e9)
    text = (tmp_path / "s.goal").read_text()
    assert text.startswith("num_ranks 4\nrank 0 {\n")
    sends = re.findall(r"l(\d+)s: send (\d+)b to (\d+) tag (\d+)", text)
    receives = re.findall(r"l(\d+)r: recv (\d+)b from (\d+) tag (\d+)", text)
    moved = np.flatnonzero(schedule.transfers)
    assert sorted(int(op) for op, *_ in sends) == moved.tolist()
    assert sorted(int(op) for op, *_ in receives) == moved.tolist()
    assert sum(int(nbytes) for _, nbytes, *_ in sends) == schedule.bytes_sent(4).sum()
    labels = set(re.findall(r"^(l\w+):", text, re.M))
    edges = re.findall(r"(l\w+) requires (l\w+)", text)
    assert {label for edge in edges for label in edge} <= labels
    assert nx.is_directed_acyclic_graph(nx.DiGraph(edges))
    reduced = re.findall(r"l\d+c: calc (\d+)", text)
    assert len(reduced) == schedule.reduces.sum()


def test_csv_has_a_line_an_operation(tmp_path):
    schedule = build("all_gather", 4, 10, algorithm="ring")
    timing = time_schedule(schedule, load_fabric("cloudmatrix384"), np.arange(4), 4, "aiv")
    write_csv(schedule, tmp_path / "s.csv", timing)
    with open(tmp_path / "s.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(schedule)
    assert [int(row["count"]) for row in rows] == schedule.count.tolist()
    assert max(float(row["end_us"]) for row in rows) == timing.time_ps / 1e6
    assert rows[-1]["after"] == " ".join(map(str, schedule.dep[schedule.dep_ptr[-2] :].tolist()))
