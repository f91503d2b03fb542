"""Blocks between the ranks of a program: in one process, and the same under mpirun."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import run

from ubnet.errors import CapacityExceeded, OptionError, UbnetError
from ubnet.kv import BlockList
from ubnet.kv.between_ranks import write_to_ranks

PROGRAM = Path(__file__).parent / "programs" / "kv_between_ranks.py"
spec = importlib.util.spec_from_file_location("kv_between_ranks", PROGRAM)
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)


@settings(max_examples=10)
@given(st.integers(1, 16), st.integers(0, 10**6))
def test_random_blocks_arrive_unchanged_among_1_to_16_ranks(ranks, seed):
    def main(rank):
        target = np.zeros(program.SIZE, np.uint8)
        moves = program.lists_of(rank.number, ranks, seed)
        got = write_to_ranks(moves, program.memory_of(rank.number, seed), target, rank=rank)
        assert (target == program.expected(rank.number, ranks, seed)).all()
        return got, sum(blocks.nbytes for _, blocks in moves)

    got, sent = zip(*run(main, ranks).values, strict=True)
    assert sum(got) == sum(sent)


def test_a_rank_may_write_twice_to_another_and_to_itself():
    def main(rank):
        mine, into = np.arange(8, dtype=np.uint8), np.zeros(8, np.uint8)
        moves = [(r, BlockList([(4 * i, 4 * i + 2, 2)])) for i in (1, 0) for r in (0,)]
        write_to_ranks(moves if rank.number == 0 else [], mine, into, rank=rank)
        return into.tolist()

    assert run(main, 2).values[0] == [0, 0, 0, 1, 0, 0, 4, 5]


@pytest.mark.parametrize(
    ("moves", "text"),
    [
        ([(0, BlockList([(0, 0, 4)]))], "ranks 0 and 1 write the same bytes"),
        ([(0, BlockList([(0, 99, 4)]))], "ends at byte 103 of the target"),
        ([(0, BlockList([(99, 0, 4)]))], "ends at byte 103 of the source"),
        ([(2, BlockList([(0, 0, 4)]))], "ranks are 0 to 1"),
    ],
)
def test_overlaps_and_what_does_not_fit_are_refused(moves, text):
    def main(rank):
        write_to_ranks(moves, np.zeros(100, np.uint8), np.zeros(100, np.uint8), rank=rank)

    with pytest.raises((OptionError, CapacityExceeded, UbnetError), match=text):
        run(main, 2)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 16])
def test_bytes_and_times_are_the_same_under_mpirun(ranks):
    words = [sys.executable, "-m", "ubnet", "run", "-n", str(ranks), str(PROGRAM)]
    mpirun = [str(Path(sys.executable).parent / "mpirun"), "-n", "2", "--oversubscribe"]
    mpirun.append("--allow-run-as-root")
    outputs = [
        subprocess.run(
            command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1]
        )
        for command in (words, mpirun + words)
    ]
    lines = [sorted(output.stdout.splitlines()) for output in outputs]
    assert len(lines[0]) == 3 * ranks, outputs[0].stderr
    assert all(" True " in line for line in lines[0])
    assert lines[1] == lines[0], outputs[1].stderr
