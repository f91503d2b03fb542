"""``ubnet run``: what a program finds, how it ends, what the options do."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ubnet.cli.main import run_command
from ubnet.mpi.install import uninstall

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def run(tmp_path, capsys):
    """Write a program, run it in this process, and return status, output and errors."""

    def run_program(source, *options, arguments=()):
        program = tmp_path / "program.py"
        program.write_text(source)
        capsys.readouterr()
        try:
            status = run_command(["run", *map(str, options), str(program), *arguments])
        except SystemExit as leave:
            status = leave.code
        said = capsys.readouterr()
        return status, said.out, said.err

    yield run_program
    uninstall()
    for name in [n for n in sys.modules if n == "mpi4py" or n.startswith("mpi4py.")]:
        del sys.modules[name]


def test_every_rank_has_its_own_main_modules_and_arguments(run, tmp_path):
    (tmp_path / "helper.py").write_text(
        "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\nMPI.COMM_WORLD.Barrier()\nseen = []\n"
    )
    package = tmp_path / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import value\n")
    (package / "inner.py").write_text("from mpi4py import MPI\nvalue = MPI.COMM_WORLD.rank * 10\n")
    status, out, err = run(
        "import sys, pickle, numpy\n"
        "from mpi4py import MPI\n"
        "import helper\n"
        "class Own:\n    pass\n"
        "comm = MPI.COMM_WORLD\n"
        "sys.argv.append(str(comm.rank))\n"
        "helper.seen.append(comm.rank)\n"
        "other = comm.sendrecv(Own(), (comm.rank + 1) % 3, source=(comm.rank - 1) % 3)\n"
        "assert type(other) is Own and sys.modules['__main__'].Own is Own\n"
        "comm.Barrier()\n"
        "import parts\n"
        "import helper as again\n"
        "assert again is helper and __name__ == '__main__' and __file__ == sys.argv[0]\n"
        "print(comm.rank, helper.rank, helper.seen, parts.value, sys.argv[1:], id(numpy))\n",
        "-n",
        3,
        arguments=["-x", "y"],
    )
    assert status == 0, err
    lines = [line.rsplit(" ", 1) for line in out.splitlines()]
    expected = [f"{r} {r} [{r}] {10 * r} ['-x', 'y', '{r}']" for r in range(3)]
    assert [line for line, _ in lines] == expected
    assert len({identity for _, identity in lines}) == 1
    assert "helper" not in sys.modules
    assert not hasattr(sys.modules["__main__"], "Own")


def test_digest_is_that_of_the_events(run, tmp_path):
    events = tmp_path / "events.txt"
    source = (
        "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
        "comm.send(b'x' * 100_000, (comm.rank + 1) % 3, 4) if comm.rank else None\n"
        "comm.recv(source=MPI.ANY_SOURCE) if comm.rank != 1 else None\ncomm.Barrier()\n"
    )
    status, out, err = run(source, "-n", 3, "--digest", "--events", events)
    assert status == 0, err
    digest = hashlib.sha256(events.read_bytes()).hexdigest()
    last = events.read_text().splitlines()[-1].split()
    assert out.splitlines() == [f"virtual time {last[0]} ps", f"digest {digest}"]
    kinds = {line.split()[1] for line in events.read_text().splitlines()}
    assert {"send", "received", "Barrier", "leave"} <= kinds
    for option in (("--shuffle", 3), ("--rendezvous", "read"), ("--compute", "free")):
        assert run(source, "-n", 3, "--digest", *option)[1] == out
    for option in (
        ("--rendezvous", "write"),
        ("--eager", "1MiB"),
        ("--transport", "sdma"),
        ("--place", "node"),
        ("--place", "node07.npu0.die0,node00.npu0.die0,node00.npu0.die1"),
    ):
        status, changed, err = run(source, "-n", 3, "--digest", *option)
        assert status == 0, err
        assert changed.splitlines()[0] != out.splitlines()[0], option


def test_measured_computing_takes_virtual_time(run):
    source = "from mpi4py import MPI\nsum(range(300_000))\nMPI.COMM_WORLD.Barrier()\n"
    times = []
    for compute in ("free", "measured:0.5", "measured:500"):
        status, out, err = run(source, "-n", 2, "--digest", "--compute", compute)
        assert status == 0, err
        times.append(int(out.split()[2]))
    assert times[0] < 100e6 < times[1] * 100
    assert times[0] < times[1] < times[2] / 10


def test_a_trace_is_written_whole_or_not_at_all(run, tmp_path):
    trace = tmp_path / "trace.json"
    trace.write_text("old")
    assert run("", "-n", 0, "--trace", trace)[0] == 2
    assert trace.read_text() == "old"  # nothing has run
    # What stands there once ranks run is nobody's, whatever ends them, a SIGKILL too.
    failing = f"import os\nraise SystemExit(4 if os.path.exists({str(trace)!r}) else 3)"
    assert run(failing, "-n", 2, "--trace", trace)[0] == 3
    assert not trace.exists()
    assert run("", "-n", 2, "--trace", trace)[0] == 0
    assert json.loads(trace.read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "trace.json"]


@pytest.mark.parametrize("what", ["trace", "events"])
def test_a_full_disk_is_told_by_the_name_of_the_file_and_hides_no_deadlock(run, what):
    words = f"ubnet: the {what} cannot be written to /dev/full: No space left on device\n"
    comm = "from mpi4py import MPI\nc = MPI.COMM_WORLD\nc.barrier()\n"
    status, _, said = run(comm, "-n", 2, f"--{what}", "/dev/full")
    assert (status, said) == (1, words)
    status, _, said = run(comm + "c.recv()", "-n", 2, f"--{what}", "/dev/full")
    assert status == 1
    assert said.startswith(words + "ubnet: deadlock after")


def test_a_deadlock_leaves_the_trace_up_to_it(run, tmp_path):
    trace = tmp_path / "trace.json"
    source = (
        "from mpi4py import MPI\nimport numpy as np\ncomm = MPI.COMM_WORLD\n"
        "if comm.rank < 2:\n    comm.Sendrecv(np.zeros(10**6), 1 - comm.rank, "
        "recvbuf=np.zeros(10**6))\n"
        "if comm.rank == 0:\n    comm.recv(source=1, tag=7)\n"
        "elif comm.rank == 1:\n    comm.Barrier()\n"
    )
    status, out, said = run(source, "-n", 3, "--trace", trace)
    assert (status, out) == (1, "")
    assert said.startswith(f"ubnet: the trace up to the deadlock is in {trace}\nubnet: deadlock")
    plain = run(source, "-n", 3)
    assert plain[:2] == (1, "")
    assert said.partition("\n")[2] == plain[2]
    events = json.loads(trace.read_text())["traceEvents"]
    pieces = [event for event in events if event["ph"] == "X"]
    stuck = {event["pid"]: event for event in pieces if event["cat"] == "deadlock"}
    assert {rank: event["name"] for rank, event in stuck.items()} == {
        0: "recv, never ends",
        1: "Barrier, never ends",
    }
    assert "recv from rank 1, tag 7, on MPI_COMM_WORLD" in stuck[0]["args"]["waits for"]
    assert f"{tmp_path / 'program.py'}:7" in stuck[0]["args"]["waits for"]
    sends = [event for event in pieces if event["name"].startswith("data ")]
    assert len(sends) == 4
    last = max(event["ts"] + event["dur"] for event in sends)
    for event in stuck.values():
        assert event["ts"] == pytest.approx(last, rel=0.01)
        assert event["dur"] > 0.04 * last
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "trace.json"]


def test_two_outputs_need_two_files(run, tmp_path):
    status, _, said = run("", "--trace", tmp_path / "a", "--events", tmp_path / "x" / ".." / "a")
    assert (status, said.count("\n")) == (2, 1)
    assert "give each a file of its own" in said
    assert not (tmp_path / "a").exists()


def test_output_is_tagged_by_rank(run):
    source = (
        "from mpi4py import MPI\nimport sys\ncomm = MPI.COMM_WORLD\n"
        "print('be', end='')\ncomm.Barrier()\nprint('gun\\nand', comm.rank)\n"
        "print('to stderr', file=sys.stderr)\nprint('no end', end='')\n"
    )
    status, out, err = run(source, "-n", 2, "--tag-output")
    assert status == 0
    lines = out.splitlines()
    assert lines[:2] == ["[0] begun", "[0] and 0"]
    assert sorted(lines) == sorted(
        ["[0] begun", "[0] and 0", "[1] begun", "[1] and 1", "[0] no end", "[1] no end"]
    )
    assert err.splitlines() == ["[0] to stderr", "[1] to stderr"]


@pytest.mark.parametrize(
    ("leave", "status", "text"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit(0)", 0, ""),
        ("sys.exit('bye')", 1, "bye"),
        ("raise KeyError('lost')", 1, "KeyError: 'lost'"),
        ("comm.Abort(5)", 5, "rank 2 called Abort(5)"),
        ("comm.Abort()", 1, "rank 2 called Abort(0)"),
        ("comm.Recv(bytearray(2), source=1)", 1, "MPI_ERR_TRUNCATE: message truncated: a message"),
        ("comm.send(lambda: 0, 0)", 1, "PicklingError|AttributeError"),
        (
            "comm.Allreduce(numpy.zeros(3), numpy.zeros(3))",
            1,
            "gave count 3 where rank|gave count 2",
        ),
        ("comm.recv(source=0)", 1, "rank 2: recv from rank 0, any tag, on MPI_COMM_WORLD at"),
        ("comm.irecv(source=0).wait()", 1, "rank 2: recv from rank 0, any tag, on MPI_COMM_WORLD"),
        ("comm.Ibarrier(); sys.exit(0)", 0, ""),
    ],
)
def test_how_one_rank_ends_the_world(run, leave, status, text):
    source = (
        "from mpi4py import MPI\nimport sys, numpy\ncomm = MPI.COMM_WORLD\n"
        "if comm.rank == 1:\n    comm.Send(bytes(8), 2)\n"
        f"if comm.rank == 2:\n    {leave}\n"
        "else:\n    comm.Allreduce(numpy.zeros(2), numpy.zeros(2))\n"
    )
    if status == 0:  # its own end alone ends nothing
        source = source.replace("else:", "elif False:")
    found, _, err = run(source, "-n", 4)
    assert found == status
    import re

    assert re.search(text.replace("(", r"\(").replace(")", r"\)"), err) if text else not err


def test_a_traceback_begins_with_the_programs_own_line(run):
    status, _, err = run("def broken():\n    return 1 / 0\nbroken()\n", "-n", 2)
    assert status == 1
    assert err.startswith("ubnet: rank 0 failed:\nTraceback (most recent call last):\n  File")
    assert err.count("  File ") == 2
    assert 'program.py", line 2, in broken' in err


def test_deadlock_is_reported_at_once(run):
    for wait in ("comm.Recv(numpy.zeros(1), 1 - comm.rank)", "while not comm.iprobe(): pass"):
        began = time.monotonic()
        status, _, err = run(
            f"import numpy\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n{wait}\n", "-n", 2
        )
        assert status == 1
        assert err.startswith("ubnet: deadlock after")
        assert err.count("program.py:4") == 2
        assert time.monotonic() - began < 2


def test_what_a_rank_registers_for_its_end_runs_on_that_rank(run):
    status, out, err = run(
        "import atexit\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
        "def last():\n    print('last', comm.allreduce(1))\n"
        "atexit.register(last)\natexit.register(MPI.Finalize)\nprint('body')\n",
        "-n",
        2,
    )
    assert (status, out.split("\n")) == (0, ["body", "body", "last 2", "last 2", ""]), err


def test_a_program_may_hide_modules_that_ubnet_needs(run):
    status, out, err = run(
        "import sys\nsys.modules['numba'] = None\nfrom mpi4py import MPI\n"
        "print(MPI.COMM_WORLD.allreduce(1))\n"
        "try:\n    import numba\nexcept ImportError:\n    print('hidden')\n",
        "-n",
        2,
    )
    assert (status, out.split()) == (0, ["2", "hidden", "2", "hidden"]), err
    assert sys.modules["numba"] is not None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--fabric", "cloudmatrix383"], "there is no fabric 'cloudmatrix383'"),
        (["-n", "0"], "0 ranks: there must be at least 1"),
        (["-n", "10000"], "10000 ranks do not fit: fabric cloudmatrix384 by --place die has pl"),
        (["-n", "many"], "Invalid value for '-n'"),
        (["--eager", "64X"], "'64X' is not a size: write 64KiB"),
        (["--place", "shelf"], "place is 'shelf'"),
        (["--place", "node00.npu0.die9,x"], "node00.npu0.die9"),
        (["--compute", "fast"], "compute is 'fast'; give free, measured, or measured:2.5"),
        (["--transport", "pigeon"], "pigeon"),
        (["--paths", "straight"], "straight"),
        (["--rendezvous", "maybe"], "is not one of 'read', 'write'"),
    ],
)
def test_bad_options_are_one_line_and_status_2(run, options, text):
    status, out, err = run("print('ran')", *options)
    assert (status, out) == (2, "")
    assert text in err
    assert len(err.splitlines()) == 1


def test_programs_that_are_none(run, tmp_path, capsys):
    assert run_command(["run", str(tmp_path / "missing.py")]) == 2
    assert "give the path of a Python file" in capsys.readouterr().err
    assert run_command(["run"]) == 2
    assert "Missing argument 'PROGRAM'" in capsys.readouterr().err
    status, _, err = run("this is no python\n")
    assert status == 1
    assert "SyntaxError" in err
    status, _, err = run("pass", "--events", tmp_path / "no" / "folder")
    assert status == 1
    assert "cannot be written" in err


def test_both_modules_run_programs():
    wanted = None
    for module in (["ubnet", "run"], ["ubnet.run"]):
        done = subprocess.run(
            [sys.executable, "-m", *module, "-n", "4", "--digest", str(PROGRAMS / "mixed.py")],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        wanted = wanted or done.stdout
        assert done.stdout == wanted


def test_the_module_of_the_name_run_is_the_function():
    import importlib

    import ubnet

    module = importlib.import_module("ubnet.run")
    assert ubnet.run(lambda comm: comm.rank, 2).values == [0, 1]
    assert module(lambda comm: comm.size).values == [1]


@pytest.mark.slow
def test_ctrl_c_ends_with_130():
    process = subprocess.Popen(
        [sys.executable, "-m", "ubnet", "run", "-n", "2", "/dev/stdin"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    process.stdin.write("print('on', flush=True)\nwhile True: pass\n")
    process.stdin.close()
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert process.stderr.read() == "ubnet: interrupted\n"
    process.stdout.close(), process.stderr.close()
