"""What README shows is true: its commands run, its output is theirs, its code does what it says.

``python tests/test_readme.py`` writes today's output of the shown commands into README.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import ubnet

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)\n```", README, re.DOTALL)
CONSOLE = [text for kind, text in BLOCKS if kind == "console"]
PYTHON = [text for kind, text in BLOCKS if kind == "python"]
SHELL = [text for kind, text in BLOCKS if kind == "sh"]
PI = next(text for text in PYTHON if "mpi4py" in text)
ENGINE = next(text for text in PYTHON if "def fair_rates" in text)
FOREIGN = next(text for text in PYTHON if "heapq" in text)
MPIRUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(command: str, folder: Path) -> str:
    """Run a shown command with this Python's ubnet and return what it prints."""
    (folder / "pi.py").write_text(PI + "\n")
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command.replace("ubnet ", f"{sys.executable} -m ubnet ", 1),
        shell=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **MPIRUN, "PATH": tools, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_alike(shown: str, printed: str) -> None:
    """Words must be equal, numbers within 2 %: a constant may be fitted better one day."""
    assert len(shown.splitlines()) == len(printed.splitlines())
    for old, new in zip(shown.splitlines(), printed.splitlines(), strict=True):
        words = list(zip(old.split(), new.split(), strict=True))
        for a, b in words:
            if re.fullmatch(r"-?\d+(\.\d+)?", a):
                assert float(b) == pytest.approx(float(a), rel=0.02), (old, new)
            else:
                assert a == b or re.fullmatch(r"[0-9a-f]{64}", a), (old, new)


@pytest.mark.slow
@pytest.mark.parametrize("block", CONSOLE, ids=lambda block: block.splitlines()[0][2:])
def test_commands_print_what_is_shown(block, tmp_path):
    command, shown = block.split("\n", 1)
    assert_alike(shown, run(command.removeprefix("$ "), tmp_path))


@pytest.mark.slow
def test_picture_and_mpirun_lines(tmp_path):
    (picture,) = [line for line in SHELL if "--plot" in line]
    (tmp_path / "docs").mkdir()
    run(picture, tmp_path)
    (path,) = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert (tmp_path / path).stat().st_size > 20_000
    assert (ROOT / path).stat().st_size > 20_000
    (parallel,) = [line for line in SHELL if line.startswith("mpirun")]
    if shutil.which("mpirun", path=Path(sys.executable).parent) is None:
        pytest.skip("there is no mpirun in this environment")
    shown = next(block for block in CONSOLE if "pi.py" in block).split("\n", 1)[1]
    assert_alike(shown, run(parallel.replace("-n", "--oversubscribe -n", 1), tmp_path))


def test_setup_is_two_commands_of_one_line():
    first, second = SHELL[:2]
    assert first.startswith("python3 -m venv .venv && ")
    assert first.endswith(".venv/bin/ubnet bench")
    assert second.startswith("python3 -m venv .venv && ")
    assert "pytest" in second
    assert "\n" not in first + second
    found = subprocess.run(
        ["bash", "-c", "exec() { :; }; cd() { :; }; . .ci/run"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert found.stdout == f"+ {second}\n", found.stderr


def test_library_lines():
    block = next(text for text in PYTHON if text.startswith(">>>"))
    test = doctest.DocTestParser().get_doctest(block + "\n", {}, "README.md", "README.md", 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_foreign_loop_agrees_with_one_call_and_stays_light(tmp_path):
    code = FOREIGN + "\nimport sys; print(*({'mpi4py', 'click', 'matplotlib'} & {*sys.modules}))"
    code += "\nprint([ended[i] for i in range(8)])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    said, loaded, ends = done.stdout.splitlines()
    assert said.startswith("8 writes of 1 MiB, the last at ")
    assert loaded == ""
    fabric = ubnet.load_fabric("cloudmatrix384")
    dies = np.arange(8)
    c = fabric.transports["aiv"].flows(fabric, "write", dies, dies + 16, 1 << 20)
    whole = ubnet.simulate_flows(
        fabric.capacity,
        dies * 300_000,
        c.nbytes,
        c.route_ptr,
        c.route_link,
        c.route_share,
        rate_cap=c.rate_cap,
        startup_ps=c.startup_ps,
    )
    assert ends == str(whole.tolist())


def test_shown_engine_is_the_engine():
    names: dict[str, object] = {"__name__": "readme"}
    exec(compile(ENGINE, "README.md", "exec"), names)
    make, simulate = names["Flow"], names["simulate"]
    rng = np.random.default_rng(7)
    for _ in range(100):
        links, count = int(rng.integers(1, 6)), int(rng.integers(1, 12))
        capacity = rng.integers(1, 10, links) * 1e9
        flows = []
        for i in range(count):
            route = rng.permutation(links)[: rng.integers(0, links + 1)].tolist()
            flows.append(
                make(
                    nbytes=int(rng.integers(0, 5)) * 1000,
                    route={link: float(rng.choice([0.5, 1, 1.5])) for link in route},
                    start=int(rng.integers(0, 3)) * 1_000_000,
                    startup=int(rng.integers(0, 2)) * 500_000,
                    after=[flows[j] for j in range(i) if rng.random() < 0.15],
                    weight=float(rng.choice([1, 2])),
                    cap=float(rng.choice([np.inf, 2e9])),
                )
            )
        simulate(capacity, flows)
        assert engine_ends(capacity, flows) == pytest.approx([f.end for f in flows], abs=1)


def engine_ends(capacity, flows):
    number = {id(flow): i for i, flow in enumerate(flows)}
    routes, before = (
        [list(f.route) for f in flows],
        [[number[id(d)] for d in f.after] for f in flows],
    )
    return ubnet.simulate_flows(
        capacity,
        [f.start for f in flows],
        [f.nbytes for f in flows],
        np.cumsum([0, *map(len, routes)]),
        np.array([*chain(*routes)], dtype=np.int64),
        np.array([share for f in flows for share in f.route.values()]),
        [f.weight for f in flows],
        [f.cap for f in flows],
        np.cumsum([0, *map(len, before)]),
        np.array([*chain(*before)], dtype=np.int64),
        [f.startup for f in flows],
    )


def refresh() -> None:
    """Put the present output of every shown command into README."""
    text = README
    with TemporaryDirectory() as folder:
        for block in CONSOLE:
            command = block.split("\n", 1)[0]
            printed = run(command.removeprefix("$ "), Path(folder))
            text = text.replace(block, f"{command}\n{printed.rstrip()}")
    (ROOT / "README.md").write_text(text)


if __name__ == "__main__":
    refresh()
