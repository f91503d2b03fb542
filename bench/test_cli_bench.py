"""The command line's own budgets: ``pytest bench/test_cli_bench.py --benchmark-enable``.

Each case is a process of its own, as a user starts it; compiled kernels are kept from the warm-up.
"""

import subprocess
import sys

import pytest

BUDGET_S = {
    "--help": 0.3,
    "bench": 6,
    "bench alltoall --ranks 768 --sizes 1MiB --payload real --json": 10,
    "bench alltoall --ranks 768 --sizes 1MiB --payload size --json": 2,
    "bench alltoall --ranks 768 --sizes 768MiB --payload size --json": 10,
    "bench all --ranks 64": 60,
}


@pytest.mark.parametrize("line", BUDGET_S)
def test_command(benchmark, line):
    def run():
        command = [sys.executable, "-m", "ubnet", *line.split()]
        subprocess.run(command, check=True, capture_output=True)

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    if benchmark.stats is not None:
        benchmark.extra_info["budget_s"] = BUDGET_S[line]
        assert benchmark.stats.stats.min < BUDGET_S[line]
