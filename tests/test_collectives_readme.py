"""collectives/README.md is what its command writes, as far as no simulation is needed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_table_has_not_aged():
    command = [sys.executable, ROOT / "bench" / "collectives_readme.py", "--check"]
    ended = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()
