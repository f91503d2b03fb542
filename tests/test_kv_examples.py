"""The KV examples print what their docstrings say."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("kv_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path):
    shown = path.read_text().split('"""')[1].split("Prints:\n\n")[1]
    result = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)}, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout == dedent(shown)


def test_there_are_examples():
    assert [path.stem for path in EXAMPLES] == ["kv_connector", "kv_serving"]
