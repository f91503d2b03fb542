"""Bad input: one clear line on stderr and status 2; how a command ends otherwise."""

import gc
import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from errno import ENOSPC

import pytest

from ubnet.cli.main import run_command
from ubnet.garbage import seldom_collected

BAD = {
    "bench alltoall --fabric nope": ["no fabric 'nope'", "cloudmatrix384"],
    "bench alltoall --sizes 64X": ["'64X' is not a size", "64KiB"],
    "bench alltoall --ranks 0": ["0 ranks", "1 to 768"],
    "bench alltoall --ranks 8,1000": ["1000 ranks", "1 to 768"],
    "bench alltoall --ranks 8,x": ["--ranks 8,x", "8,32 or 8:320"],
    "bench alltoall --ranks 0:8": ["0:8 must grow"],
    "bench alltoall --ranks ²": ["--ranks ²", "8,32 or 8:320"],
    "bench alltoall --ranks=": ["--ranks :", "8,32 or 8:320"],
    "bench alltoall --sizes 1KiB:1MiB:²": ["1KiB:1MiB:²"],
    "bench alltoall --ranks 10000": ["10000 ranks", "1 to 768"],
    "bench alltoall --ranks x": ["--ranks x", "8,32"],
    "bench alltoal": ["'alltoal'", "did you mean all_to_all"],
    "bench alltoall --algo rng": ["no algorithm 'rng'", "pairwise"],
    "bench alltoall --plane ibv": ["no plane 'ibv'", "ub, rdma, vpc"],
    "bench alltoall --transport roce --plane ub": ["roce", "plane rdma"],
    "bench alltoall --transport tcp": ["no transport 'tcp'", "aiv"],
    "bench alltoall --place rack": ["'rack'", "die, npu, node, cpu"],
    "bench alltoall --place nod": ["'nod'", "did you mean node"],
    "bench alltoall --place foo": ["'foo'", "die, npu, node, cpu"],
    "bench alltoall --place node00.npu0.die9": [
        "node00.npu0.die9",
        "did you mean node00.npu0",
    ],
    "bench alltoall --place node00.npu0.die0,foo": ["foo"],
    "bench p2p --pair near:far": ["'near:far'", "near,far", "node00.npu0.die0:"],
    "bench p2p --pair node00.npu0.die0:far": ["'far' is a pair already"],
    "bench alltoall --paths random": ["paths", "spray, ecmp, hash"],
    "bench alltoall --aiv-cores 0": ["aiv_cores", "1 to 48"],
    "bench alltoall --dtype float33": ["'float33'", "float32"],
    "bench alltoall --sizes 4KiB:1KiB:2": ["must grow"],
    "bench alltoall --sizes 1:2:3:4": ["from:to:factor"],
    "bench alltoall --payload none": ["'auto', 'real', 'size'"],
    "bench alltoall --plot a.doc": ["a.doc", ".png"],
    "bench alltoall --bogus": ["No such option"],
    "bench allgather --algo mesh --chunks 2 --ranks 4": ["chunks"],
    "bench alltoall --root 1": ["No such option"],
    "bench broadcast --root 999": ["root 999", "0 to 767"],
    "bench p2p --pair nearr": ["'nearr'", "near"],
    "bench p2p --pair node00:node01": ["node00", "did you mean"],
    "bench p2p --op put": ["put", "read, write, send"],
    "bench dispatch --ranks 8": ["--ep 8"],
    "bench dispatch --ep 8:4": ["must grow"],
    "bench dispatch --ep 7 --experts 10": ["14"],
    "bench dispatch --ep 8 --quant fp9": ["fp9", "int8"],
    "bench dispatch --ep 8 --skew 99": ["skew", "1 to 32"],
    "bench kv --tokens 0": ["--tokens 0"],
    "bench kv-serve --rate 0": ["--rate 0", "above 0"],
    "bench kv-serve --rate nan": ["--rate nan", "above 0"],
    "bench kv-serve --rate 1e-300 --requests 3": ["3 requests at 1e-300 a second", "13 days"],
    "bench kv-serve --slots 0": ["--slots", "x>=1"],
    "bench kv-serve --prefill-groups 0": ["--prefill-groups", "x>=1"],
    "bench kv-serve --decode-dp 0": ["--decode-dp must be at least 1, not 0"],
    "bench kv-serve --prefill-tp 31": [
        "--prefill-tp 31 to --decode-tp 1, --decode-dp 320 gives ratio 31",
        "--prefill-tp 31 with --decode-dp 310 or --decode-dp 341",
    ],
    "bench kv-serve --model llama-3.1-70b --decode-tp 3": ["--decode-tp 3 does not share out 8"],
    "bench kv-serve --decode-dp 736": [
        "--prefill-groups 3 of --prefill-tp 32 and --decode-dp 736 of --decode-tp 1 need 832 dies"
    ],
    "bench kv --model gpt5": ["gpt5", "deepseek-r1"],
    "bench dispatch --ep 8 --experts 0": ["--experts", "0", "x>=1"],
    "bench dispatch --ep 8 --experts -8": ["--experts", "x>=1"],
    "bench dispatch --ep 8 --replicas -1": ["--replicas", "x>=0"],
    "bench dispatch --ep 8 --tokens -1": ["--tokens", "x>=0"],
    "bench dispatch --ep 8 --tokens 1000000000": ["1000000000 tokens", "GiB", "fewer --tokens"],
    "bench dispatch --ep 8 --tokens 100000000 --routing zipf": ["GiB", "fewer --tokens"],
    "bench dispatch --ep 8 --hidden 0": ["--hidden", "1<=x"],
    "bench dispatch --ep 8 --hidden 9999999999": ["--hidden", "1<=x"],
    "bench dispatch --ep 8 --late 1e30s": ["1e30s", "too large"],
    "bench alltoall --sizes 1e30": ["1e30", "too large", "bytes"],
    "bench alltoall --sizes 9223372036854775807": ["too large"],
    "bench alltoall --sizes 1e999999KiB": ["too large"],
    "bench alltoall --sizes 1:9000000000000000000:2": ["too large"],
    "bench allreduce --algo ring --ranks 4 --sizes 64MiB --chunks 100000000": ["chunks", "1 to"],
    f"run --eager 1e30 {__file__}": ["1e30", "too large"],
    "run --shuffle -3 x.py": ["--shuffle", "x>=0"],
    "benhc": ["'benhc'", "did you mean bench"],
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_clear_line(line, capsys):
    assert run_command(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ubnet: ")
    assert err.count("\n") == 1
    for word in BAD[line]:
        assert word in err


def test_misspelt_key_of_a_fabric_file(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text('[[endpoints]]\nname = "a"\nknd = "die"\n')
    assert run_command(["bench", "alltoall", "--fabric", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for word in ("knd", "kind", "endpoints"):
        assert word in err


def test_help_at_every_level(capsys):
    for line in ("--help", "bench --help", "bench p2p --help", "bench alltoall --help", "", "topo"):
        assert run_command(line.split()) == 0
        assert "Usage: ubnet" in capsys.readouterr().out
    assert run_command(["bench", "alltoall", "--help"]) == 0
    assert "S is the part of one rank times the ranks" in " ".join(capsys.readouterr().out.split())


def test_wrong_results_end_with_status_1(monkeypatch, capsys):
    monkeypatch.setattr("ubnet.replay.Moves.run", lambda *columns: None)
    assert run_command(["bench", "alltoall", "--ranks", "4", "--sizes", "1KiB", "--json"]) == 1
    out, err = capsys.readouterr()
    assert '"wrong": 1024' in out
    assert "1 of 1 rows" in err


def test_picture_that_cannot_be_written(tmp_path, capsys):
    line = f"bench p2p --sizes 1KiB --plot {tmp_path}/none/p.png"
    assert run_command(line.split()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "none" in err


FULL = ("topo list", "topo show cloudmatrix64", "bench p2p --sizes 1KiB", "paper --section shape")


@pytest.mark.parametrize("line", FULL)
def test_output_that_cannot_be_written(line):
    with open("/dev/full", "w") as full:
        run = [sys.executable, "-m", "ubnet", *line.split()]
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "ubnet: cannot write the output: No space left on device\n"


def test_more_chunks_than_elements_are_as_many_as_elements(capsys):
    line = "bench allreduce --ranks 4 --sizes 64 --algo ring --json --chunks"
    for chunks in ("16", "100000000"):
        assert run_command([*line.split(), chunks]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_the_largest_size_has_a_time(capsys):
    line = "bench allreduce --ranks 4 --sizes 1125899906842624 --payload size --algo all --json"
    assert run_command(line.split()) == 0
    for row in map(json.loads, capsys.readouterr().out.splitlines()):
        assert row["time_us"] > 1e6 * row["size_bytes"] / 1e12
        assert 0 < row["efficiency"] <= 1


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("bench allreduce --ranks 4 --sizes 3 --json", 0),
        ("bench allreduce --ranks 4 --sizes 7 --json", 4),
        ("bench alltoall --ranks 4 --sizes 15 --json", 0),
        ("bench p2p --op read --pair far --dtype float64 --sizes 7 --json", 0),
        ("bench p2p --op read --pair far --sizes 0 --json", None),
    ],
)
def test_a_size_of_which_nothing_is_left_is_told(line, used, capsys):
    assert run_command(line.split()) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["size_bytes"] == (used or 0)
    assert ("the row has 0 bytes" in err) == (used == 0)


@pytest.mark.parametrize(
    "line",
    [
        "bench p2p --op read --pair cpu-near --sizes 1KiB --json --transport",
        "bench allreduce --place cpu --ranks 4 --sizes 1KiB --json --transport",
    ],
)
def test_of_several_transports_those_that_do_not_fit_are_left_out(line, capsys):
    assert run_command([*line.split(), "aiv,roce"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(row)["transport"] for row in out.splitlines()] == ["aiv"]
    assert "a row is left out" in err
    for alone in ("roce", "roce,roce"):
        assert run_command([*line.split(), alone]) == 2
        assert "not on plane rdma" in capsys.readouterr().err


def test_one_name_is_a_place(capsys):
    line = "bench allreduce --sizes 4 --json --place node03.npu1.die0"
    assert run_command(line.split()) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == 1


@pytest.mark.parametrize("broken", [True, False])
def test_a_picture_is_there_whole_or_not_at_all(tmp_path, monkeypatch, capsys, broken):
    from matplotlib.figure import Figure

    def half(figure, path, **options):
        path.write_bytes(b"half")
        raise OSError(ENOSPC, "No space left on device")

    if broken:
        monkeypatch.setattr(Figure, "savefig", half)
    path = tmp_path / "p.png"
    path.write_bytes(b"old")
    assert run_command(["bench", "p2p", "--sizes", "1KiB", "--plot", str(path)]) == broken
    assert list(tmp_path.iterdir()) == [path]
    assert (path.read_bytes() == b"old") == broken
    if broken:
        words = f"ubnet: cannot write or read {path}: No space left on device\n"
        assert capsys.readouterr().err.endswith(words)


CLOSED = ("topo show cloudmatrix64", "bench --help", "run -n 4 {program}")


@pytest.mark.parametrize("line", CLOSED)
def test_a_reader_that_closes_early_leaves_status_0(line, tmp_path):
    program = tmp_path / "speaks.py"
    program.write_text("print('x' * 100_000, flush=True)\n")
    command = f"{sys.executable} -m ubnet {line.format(program=program)}"
    script = f"set -o pipefail; {command} | head -c 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_leaves_the_look_for_garbage_as_it_was(monkeypatch, capsys):
    seen = []

    @contextmanager
    def seldom():
        seen.append(gc.get_threshold())
        with seldom_collected():
            yield

    monkeypatch.setattr("ubnet.cli.main.seldom_collected", seldom)
    before = gc.get_threshold()
    assert run_command(["topo", "list"]) == run_command(["run", "--help"]) == 0
    assert seen == [before]  # a program sees to its own
    assert gc.get_threshold() == before


def test_help_comes_at_once():
    run = [sys.executable, "-m", "ubnet", "--help"]
    subprocess.run(run, check=True, capture_output=True)
    took = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(run, check=True, capture_output=True)
        took.append(time.perf_counter() - start)
    assert min(took) < 0.3


@pytest.mark.slow
def test_ctrl_c():
    run = [sys.executable, "-m", "ubnet", "bench", "all", "--payload", "size", "--json"]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("{")  # a row stands there, others are under way
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "ubnet: interrupted"


def test_progress_on_a_terminal_leaves_results_alone(tmp_path):
    run = [sys.executable, "-m", "ubnet", "bench", "alltoall", "--ranks", "2", "--json"]
    terminal, other_side = pty.openpty()
    with (tmp_path / "out").open("w") as out:
        subprocess.run(run, stdout=out, stderr=other_side, check=True)
    os.close(other_side)
    assert b"bench" in os.read(terminal, 1 << 16)
    lines = (tmp_path / "out").read_text().splitlines()
    assert len(lines) == 9
    assert all(line.startswith('{"op": "all_to_all"') for line in lines)
