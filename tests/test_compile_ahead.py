"""The first run compiles on two cores: what it needs is on disk afterwards, and it says so once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CALL = "from ubnet.cli.compile_ahead import compile_ahead; compile_ahead()"
COUNT = (
    "from ubnet.flow_engine.loop import work; from ubnet.flowsim import FlowSim; "
    "FlowSim([1.0]).run(); print(sum(work.stats.cache_hits.values()))"
)


def python(code, folder=None, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=True,
    )


@pytest.mark.slow
def test_the_clockwork_is_on_disk_after_the_first_run_alone(tmp_path):
    # Nor does another ubnet in the present folder, a clone for example, take its place.
    other = tmp_path / "ubnet" / "__init__.py"
    other.parent.mkdir()
    other.write_text("raise ImportError")
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "folder": tmp_path}
    assert "once after an installation" in python(CALL, **cache).stderr
    assert python(COUNT, **cache).stdout == "1\n"
    assert python(CALL, **cache).stderr == ""


def test_nothing_is_compiled_where_compiling_is_off():
    assert python(CALL, NUMBA_DISABLE_JIT="1").stderr == ""
