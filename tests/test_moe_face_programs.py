"""The faces in programs: on part of a world, in several processes, in the example."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.moe_tokens import BF16
from ubnet.moe import Buffer


def test_calls_on_part_of_the_world(tmp_path):
    import ubnet

    def main(comm):
        half = comm.Split(comm.rank % 2, comm.rank)
        x = np.full((1, 128), comm.rank + 1).astype(BF16)
        recv, count, _, _, _ = Buffer(half).low_latency_dispatch(
            x, np.array([[half.size - 1]]), 1, half.size, False
        )
        return count.tolist(), sorted(recv.reshape(-1, 128)[:, 0].astype(int).tolist())

    got = ubnet.run(main, ranks=4).values
    assert got == [([0], [0, 0]), ([0], [0, 0]), ([2], [1, 3]), ([2], [2, 4])]


@pytest.mark.slow
def test_a_program_is_the_same_in_one_process_and_in_two():
    script = Path(__file__).parent / "programs" / "moe_faces.py"
    ubnet_run = [sys.executable, "-m", "ubnet", "run", "-n", "4", str(script)]
    mpirun = Path(sys.executable).parent / "mpirun"
    two = [str(mpirun), "-n", "2", "--oversubscribe", "--allow-run-as-root"]
    outputs = [
        subprocess.run(
            c, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1]
        )
        for c in (ubnet_run, two + ubnet_run)
    ]
    assert outputs[0].returncode == 0, outputs[0].stderr
    assert len(outputs[0].stdout.splitlines()) == 4
    assert outputs[1].stdout == outputs[0].stdout, outputs[1].stderr


def test_the_example_prints_what_it_says():
    root = Path(__file__).parents[1]
    example = root / "examples" / "expert_parallel.py"
    command = [sys.executable, "-m", "ubnet", "run", "-n", "16", str(example)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=root)
    said = example.read_text().split('"""')[1].split("It prints:\n\n")[1]
    wanted = "".join(f"{line[4:]}\n" for line in said.rstrip().splitlines())
    assert done.stdout == wanted, done.stderr
