"""Expert parallelism's budgets on the machine it runs on: EP320 with 96 tokens a die."""

import json
import subprocess
import sys

import pytest

CASE = ["--ep", "320", "--tokens", "96", "--hidden", "7168", "--quant", "int8", "--json"]
BUDGET = {"real": (60.0, 12e9), "size": (3.0, 12e9)}
"""Seconds and bytes of a process that runs one operator."""

CHILD = """
import resource, sys
from ubnet.cli.main import run_command
status = run_command(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
sys.exit(status)
"""


@pytest.mark.parametrize("op", ["dispatch", "combine"])
@pytest.mark.parametrize("payload", BUDGET)
def test_ep320(benchmark, op, payload):
    seconds, most = BUDGET[payload]
    line = [sys.executable, "-c", CHILD, "bench", op, *CASE, "--payload", payload]
    peaks = []

    def run():
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        row, peak = done.stdout.splitlines()
        assert json.loads(row)["wrong"] == (0 if payload == "real" else None)
        peaks.append(int(peak))

    benchmark.pedantic(run, rounds=2, warmup_rounds=1)
    assert max(peaks) < most
    if benchmark.stats is not None:
        benchmark.extra_info.update(budget_s=seconds, peak_bytes=max(peaks))
        assert benchmark.stats.stats.min < seconds
