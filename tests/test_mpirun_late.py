"""Ranks that come at different times, under mpirun: the same results and times, and no hang."""

import pytest
from test_mpirun import PROGRAMS, alone, finish, mpirun, pytestmark, written

__all__ = ["pytestmark"]  # slow, and skipped where there is no mpirun


@pytest.mark.parametrize(
    ("program", "ranks", "processes"),
    [
        (["late_members.py"], 5, (2, 3)),
        (["random_calls.py", "2"], 7, (2, 3)),
        (["random_calls.py", "3"], 7, (3,)),
        (["random_calls.py", "4"], 4, (4,)),
    ],
)
def test_late_ranks_change_nothing(program, ranks, processes):
    arguments = ["-n", ranks, "--digest", PROGRAMS / program[0], *program[1:]]
    wanted = sorted(alone(*arguments).splitlines())
    assert sorted(alone("--shuffle", 5, *arguments).splitlines()) == wanted
    for count in processes:
        done = finish(mpirun(count, *arguments))
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == wanted


@pytest.mark.parametrize("processes", [1, 2])
def test_a_reduction_that_raises_ends_the_world_with_the_programs_lines(tmp_path, processes):
    source = (
        "import numpy as np\n"
        "def bad(left, right, datatype):\n"
        "    raise ValueError('no such sum')\n"
        "comm.Reduce(np.ones(4), np.zeros(4), MPI.Op.Create(bad), 0)\n"
    )
    done = finish(mpirun(processes, "-n", 4, written(tmp_path, source)))
    assert done.returncode == 1
    assert "ValueError: no such sum" in done.stderr
    assert "local_collective" not in done.stderr
    assert "click" not in done.stderr


def test_a_reduction_may_not_communicate(tmp_path):
    source = (
        "import numpy as np\n"
        "def talks(left, right, datatype):\n"
        "    comm.barrier()\n"
        "comm.Reduce(np.ones(4), np.zeros(4), MPI.Op.Create(talks), 0)\n"
    )
    done = finish(mpirun(1, "-n", 2, written(tmp_path, source)))
    assert done.returncode == 1
    assert "may not communicate" in done.stderr


def test_a_rank_leaves_with_its_own_status_under_mpirun(tmp_path):
    program = written(tmp_path, "import sys\nif comm.rank == 1:\n    sys.exit(3)\ncomm.barrier()\n")
    done = finish(mpirun(2, "-n", 4, program))
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_opened_ends_all_processes(tmp_path):
    program = written(tmp_path, "comm.barrier()\n")
    done = finish(mpirun(2, "-n", 2, "--events", tmp_path / "none" / "events", program))
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_rank_returns_must_travel(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import ubnet\nubnet.run(lambda comm: (lambda: 1), 2)\n")
    command = mpirun(2)[:-2]
    done = finish([*command[: command.index("-m")], str(script)])
    assert done.returncode != 0
    assert "rank 0 failed" in done.stderr


def test_calls_that_fail_between_processes_fail_as_in_one(tmp_path):
    source = (
        "import numpy as np\n"
        "left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size\n"
        "heard = []\n"
        "own = MPI.Comm.Create_errhandler(lambda handle, code: heard.append(code))\n"
        "comm.Set_errhandler(own)\n"
        "for size in (4, 40_000):\n"
        "    request = comm.Isend(np.zeros(size), right)\n"
        "    try:\n        comm.Recv(np.zeros(2), left)\n"
        "    except MPI.Exception as error:\n        assert error.error_class == MPI.ERR_TRUNCATE\n"
        "    request.Wait()\n"
        "try:\n    comm.send(lambda: 0, right)\n"
        "except Exception as error:\n    assert 'pickle' in str(error)\n"
        "assert heard == [MPI.ERR_TRUNCATE] * 2, heard\n"
        "never = comm.irecv(source=left, tag=9)\n"
        "print('all failed', comm.allreduce(comm.rank))\n"
        "comm.Bcast(np.zeros(1, 'f8' if comm.rank == 3 else 'i8'))\n"
    )
    done = finish(mpirun(2, "-n", 4, written(tmp_path, source)))
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["all failed 6"] * 4
    assert done.stderr.count("gave datatype i8 where rank 3 gave f8: all ranks must") == 1
