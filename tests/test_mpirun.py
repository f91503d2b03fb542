"""The same programs under mpirun, on 1 to 4 processes: same times, same ends, nothing left over."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(__file__).parent / "programs"
MPIRUN = Path(sys.executable).with_name("mpirun")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MPIRUN.exists(), reason="no mpirun beside this Python: ubnet[mpi]"),
]


def mpirun(processes, *arguments):
    """Return the command that runs ``ubnet run`` in some processes."""
    launch = [str(MPIRUN), "--allow-run-as-root", "--oversubscribe", "-n", str(processes)]
    return [*launch, sys.executable, "-m", "ubnet", "run", *map(str, arguments)]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def finish(command):
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(), check=False, timeout=240
    )


def alone(*arguments):
    command = [sys.executable, "-m", "ubnet", "run", *map(str, arguments)]
    done = finish(command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(tmp_path, source):
    program = tmp_path / "program.py"
    program.write_text("from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n" + source)
    return program


@pytest.mark.parametrize(("program", "ranks"), [("bodies.py", 5), ("mixed.py", 16)])
def test_times_and_digest_are_the_same_on_any_number_of_processes(program, ranks):
    arguments = ["-n", ranks, "--digest", PROGRAMS / program]
    wanted = alone(*arguments)
    assert "digest" in wanted
    for processes in (1, 2, 3, 4):
        done = finish(mpirun(processes, *arguments))
        assert done.returncode == 0, done.stderr
        # The lines of different processes may come in another order.
        assert sorted(done.stdout.splitlines()) == sorted(wanted.splitlines())


def test_the_bench_finds_the_same_virtual_time_and_digest_in_one_process_and_in_two():
    options = ["--processes", 1, 2, "--ranks", 8, "--steps", 2, "--rounds", 1]
    done = finish([sys.executable, "-m", "bench.processes", *map(str, options)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("virtual time") == done.stdout.count("digest") == 1


def test_one_rank_a_process_by_default_and_shuffled(tmp_path):
    program = written(tmp_path, "print(comm.size, comm.allreduce(comm.rank))\n")
    wanted = alone("-n", 4, "--digest", program)
    for options in ((), ("--shuffle", "7")):
        done = finish(mpirun(4, "--digest", *options, program))
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == sorted(wanted.splitlines())


def test_the_function_returns_the_same_in_every_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import ubnet\n"
        "result = ubnet.run(lambda comm, x: (comm.rank * x, comm.scan(1)), 6, args=(3,))\n"
        "print(result.values, result.time_ps, result.digest, sum(result.report.values()))\n"
    )
    command = mpirun(3)[:-2]
    done = finish([*command[: command.index("-m")], str(script)])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    single = finish([sys.executable, str(script)])
    assert set(done.stdout.splitlines()) == set(single.stdout.splitlines())


@pytest.mark.parametrize(
    ("source", "status", "text"),
    [
        ("comm.recv(source=(comm.rank + 1) % comm.size, tag=6)", 1, "deadlock after"),
        ("while not comm.Iprobe(): pass", 1, "deadlock after"),
        ("1 / (comm.rank - 5)", 1, "ZeroDivisionError: division by zero"),
        ("exit(3) if comm.rank == 2 else comm.recv()", 3, ""),
        (
            "import numpy\na = numpy.zeros(1 + comm.rank // 4)\ncomm.Allreduce(a, a.copy())",
            1,
            "Allreduce: rank 0 gave count 1 where rank 4 gave 2",
        ),
    ],
)
def test_how_a_world_ends(tmp_path, source, status, text):
    program, trace = written(tmp_path, source + "\n"), tmp_path / "trace.json"
    began = time.monotonic()
    done = finish(mpirun(4, "-n", 8, "--trace", trace, program))
    assert time.monotonic() - began < 60
    assert done.returncode == status, done.stderr
    if text:
        assert done.stderr.count(f"{text}") == 1, done.stderr
    if "deadlock" in text:
        assert done.stderr.count(f"{program}:3") == 8
        assert done.stderr.count("the trace up to the deadlock is in") == 1
        pieces = json.loads(trace.read_text())["traceEvents"]
        assert {p["pid"] for p in pieces if p.get("cat") == "deadlock"} == set(range(8))
    else:
        assert not trace.exists()


def test_too_few_ranks_are_refused(tmp_path):
    done = finish(mpirun(3, "-n", 2, written(tmp_path, "")))
    assert done.returncode == 2
    assert done.stderr.count("2 ranks on 3 processes: every process hosts at least one") == 1


def children(pid):
    """Return the processes that descend from a process."""
    listing = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    parents = dict(zip(map(int, listing[::2]), map(int, listing[1::2]), strict=True))
    found = []
    for child in parents:
        above = child
        while above in parents and above != pid:
            above = parents[above]
        if above == pid and child != pid:
            found.append(child)
    return found


def test_killing_one_process_leaves_none_behind(tmp_path):
    program = written(
        tmp_path,
        "import os, time\nprint('pid', os.getpid(), flush=True)\n"
        "while True:\n    comm.allreduce(1)\n    time.sleep(0.01)\n",
    )
    process = subprocess.Popen(
        mpirun(4, program),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    try:
        pids = [int(process.stdout.readline().split()[1]) for _ in range(4)]
        everybody = children(process.pid)
        assert set(pids) <= set(everybody)
        os.kill(pids[2], signal.SIGKILL)
        assert process.wait(20) != 0
        limit = time.monotonic() + 5
        while any(Path(f"/proc/{pid}").exists() for pid in everybody):
            assert time.monotonic() < limit, "processes are left"
            time.sleep(0.05)
    finally:
        process.stdout.close()
        process.kill()
        process.wait()


def test_an_interrupted_process_ends_all_with_130(tmp_path):
    # Open MPI's mpirun kills its processes on Ctrl-C and ends with 1; other launchers pass it on.
    program = written(
        tmp_path, "import os\nprint(os.getpid(), flush=True)\nwhile True: comm.allreduce(1)\n"
    )
    process = subprocess.Popen(
        mpirun(2, program),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        pids = [int(process.stdout.readline()) for _ in range(2)]
        os.kill(pids[1], signal.SIGINT)
        assert process.wait(20) == 130
        said = process.stderr.read()
        assert said.count("ubnet: interrupted") == 1  # the launcher may write on in its line
        assert "Traceback" not in said
    finally:
        process.stdout.close(), process.stderr.close()
        process.kill()
        process.wait()
