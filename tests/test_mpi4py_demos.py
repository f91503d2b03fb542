"""mpi4py's demonstrations run unchanged, and OSU's tables say what the model says."""

import json
import sys

import mpi4py_demos as demos
import mpi4py_suite as judge
import pytest

import ubnet
from ubnet.cli.main import run_command
from ubnet.mpi.install import uninstall
from ubnet.protocol import CONTROL_BYTES, EAGER_BYTES

READ_ENGINE_GBPS = 164
"""What a die reads from another node, in GB/s: published."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scripts():
    try:
        found = demos.scripts()
    except judge.NoSuite as missing:
        pytest.fail(str(missing), pytrace=False)
    return {script.stem: (script, ranks) for script, ranks in found.items()}


@pytest.fixture
def run(scripts, monkeypatch, capsys):
    """Run a script in this process and return what it printed."""

    def run_demo(name, *options, ranks=None, largest=None):
        script, usual = scripts[name]
        monkeypatch.chdir(script.parent)
        capsys.readouterr()
        status = run_command(
            demos.arguments(script, ranks or usual, *options, short=True, largest=largest)
        )
        printed = capsys.readouterr()
        assert status == 0, printed.err
        return printed.out

    yield run_demo
    uninstall()
    for name in [n for n in sys.modules if n == "mpi4py" or n.startswith("mpi4py.")]:
        del sys.modules[name]


def far(nbytes, op):
    """The microseconds of one transfer between nodes."""
    return ubnet.transfer_time("node00.npu0.die0", "node01.npu0.die0", nbytes, op=op) / 1e6


def test_all_scripts_of_the_book_hold(run, scripts):
    of_book = [name for name, (path, _) in scripts.items() if path.parent.name == demos.BOOK]
    assert len(of_book) == demos.BOOK_SCRIPTS
    for name in of_book:
        run(name)


@pytest.mark.parametrize("name", demos.OSU)
def test_a_script_of_osu_prints_its_table(run, name):
    figures = demos.table(run(name, "--place", "node", largest=1 << 14))
    sizes = list(figures)
    assert sizes in ([0], [0, *(1 << i for i in range(15))], [1 << i for i in range(15)])
    larger = list(figures.values())[1:]
    assert all(figure > 0 for figure in larger)
    assert larger == sorted(larger)  # both times and rates grow with the size


def test_latency_is_that_of_a_write_and_above_the_eager_bound_of_a_request_and_a_read(run):
    figures = demos.table(run("osu_latency", "--place", "node", largest=1 << 18))
    for size, figure in figures.items():
        model = far(size, "write")
        if size > EAGER_BYTES:
            model = far(CONTROL_BYTES, "write") + far(size, "read")
        assert figure == pytest.approx(model, abs=0.0051)
    assert figures[8] == pytest.approx(2.1, abs=0.05)


def test_bandwidth_is_that_of_the_read_engine(run):
    figures = demos.table(run("osu_bw", "--place", "node"))
    assert figures[1 << 22] / 1000 == pytest.approx(READ_ENGINE_GBPS, rel=0.03)


def test_alltoall_agrees_with_the_bench(run, capsys):
    figures = demos.table(run("osu_alltoall", ranks=64, largest=1 << 8))
    del figures[0]
    sizes = [size for size in figures if size >= 4]  # the bench counts float32
    given = ",".join(str(64 * size) for size in sizes)
    command = ["bench", "alltoall", "--ranks", "64", "--sizes", given, "--json", "--payload"]
    assert run_command([*command, "size"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == len(sizes)
    for size, row in zip(sizes, rows, strict=True):
        assert figures[size] == pytest.approx(row["time_us"], abs=0.0051), row
