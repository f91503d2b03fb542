"""Compiled kernels on disk: what an older version left there is survived."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ubnet.garbage import SELDOM

KERNEL = """
from typing import NamedTuple
import numpy as np
from ubnet.jit import kernel

class {name}(NamedTuple):
    row: np.ndarray

@kernel
def total(state):
    return state.row[0] + {more}

print(total({name}(np.ones(1))), sum(total.stats.cache_hits.values()))
"""


def run_program(folder, text):
    (folder / "program.py").write_text(text)
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": f"{Path(__file__).parent.parent}{os.pathsep}{folder}",
        "NUMBA_DISABLE_JIT": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", "import program"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_an_index_that_names_a_class_since_renamed_is_a_miss(tmp_path):
    assert run_program(tmp_path, KERNEL.format(name="Queues", more=1)) == ["2.0", "0"]
    assert run_program(tmp_path, KERNEL.format(name="Queues", more=1)) == ["2.0", "1"]
    assert run_program(tmp_path, KERNEL.format(name="Tables", more=2)) == ["3.0", "0"]
    assert run_program(tmp_path, KERNEL.format(name="Tables", more=2)) == ["3.0", "1"]


def test_a_kernel_is_stale_when_one_that_it_calls_has_changed_in_another_file(tmp_path):
    caller = """
from callee import more
from ubnet.jit import kernel

@kernel
def total(x):
    return x + more(x)

print(total(1), sum(total.stats.cache_hits.values()))
"""
    callee = "from ubnet.jit import inner_kernel\n@inner_kernel\ndef more(x):\n    return {}\n"
    (tmp_path / "callee.py").write_text(callee.format("10 * x"))
    assert run_program(tmp_path, caller) == ["11", "0"]
    assert run_program(tmp_path, caller) == ["11", "1"]
    (tmp_path / "callee.py").write_text(callee.format("100 * x"))
    assert run_program(tmp_path, caller) == ["101", "0"]
    assert run_program(tmp_path, caller) == ["101", "1"]
    # What is kept of a kernel holds those that it calls: they are not kept themselves.
    assert [path.name.split("-")[0] for path in tmp_path.rglob("*.nbi")] == ["program.total"]


def test_python_looks_for_garbage_seldom_while_a_kernel_of_ours_is_compiled(tmp_path):
    text = """
import gc
import numba
from numba.core.event import Listener, register
from ubnet.jit import inner_kernel, kernel

class Looks(Listener):
    def on_start(self, event):
        print(gc.get_threshold()[0], end=" ")
    def on_end(self, event):
        pass

@inner_kernel
def more(x):
    return x + 1

@kernel
def total(x):
    return more(x) + more(x)

@kernel
def wrong(x):
    return x.none

@numba.njit
def of_others(x):
    return x

register("numba:compile", Looks())
gc.set_threshold(1234, 5, 6)
total(1)
try:
    wrong(1)
except numba.TypingError:
    print(*gc.get_threshold(), end=" ")
of_others(1)
gc.set_threshold(0, 5, 6)
total(1.0)
print(*gc.get_threshold())
"""
    seldom, program = [str(SELDOM)], ["1234"]
    wanted = [*seldom * 3, *program, "5", "6", *program, "0", "0", "0", "5", "6"]
    assert run_program(tmp_path, text) == wanted


def test_inner_kernels_are_not_searched_for_what_numba_would_rewrite(tmp_path):
    text = """
from numba.core.event import Listener, register
from ubnet.jit import inlined_kernel, inner_kernel, kernel

class Passes(Listener):
    def on_start(self, event):
        if "_rewrites" in event.data["name"]:
            print(event.data["qualname"], end=" ")
    def on_end(self, event):
        pass

@inner_kernel
def ten(x):
    return 10 * x

@inlined_kernel
def eleven(x):
    return ten(x) + x

@kernel
def total(x):
    return eleven(x)

register("numba:run_pass", Passes())
print(total(1))
"""
    *searched, result = run_program(tmp_path, text)
    assert (set(searched), result) == ({"total"}, "11")


@pytest.mark.parametrize("left", [0, 1, 40])
def test_an_index_cut_short_is_a_miss(tmp_path, left):
    run_program(tmp_path, KERNEL.format(name="Queues", more=1))
    (index,) = tmp_path.rglob("*.nbi")
    index.write_bytes(index.read_bytes()[:left])
    assert run_program(tmp_path, KERNEL.format(name="Queues", more=1)) == ["2.0", "0"]
    assert run_program(tmp_path, KERNEL.format(name="Queues", more=1)) == ["2.0", "1"]


def test_kernels_of_the_engine_take_no_classes_of_ours():
    importlib.import_module("ubnet.flow_ends").simulate_flows([1e9], 0, [1], [0, 1], [0])
    for module, name in (("loop", "work"), ("posting", "enqueue")):
        found = getattr(importlib.import_module(f"ubnet.flow_engine.{module}"), name)
        for signature in getattr(found, "signatures", ()):
            assert "ubnet" not in str(signature)
