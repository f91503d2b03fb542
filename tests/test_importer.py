"""ubnet as a library: a foreign event loop drives it, and importing it brings nothing along."""

import heapq
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from ubnet.fabrics import load_fabric
from ubnet.flow_ends import simulate_flows
from ubnet.flowsim import FlowSim

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "foreign_loop.py"
FLOWS = 1000


@pytest.fixture(scope="module")
def fabric():
    return load_fabric("cloudmatrix64")


def flow_columns(fabric, seed):
    """Return 1,000 flows of mixed length between dies and CPUs, by AIV-Direct."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, len(fabric.endpoints), (2, FLOWS))
    nbytes = rng.choice([0, 1, 512, 65_536, 10**6], FLOWS)
    return fabric.transport("aiv").flows(fabric, "write", src, dst, nbytes)


def at_once(fabric, columns, start_ps):
    return simulate_flows(fabric.capacity, start_ps, **columns.post_arguments())


def post_rows(sim, columns, rows):
    """Post some of the flows as they are, now; return their ids in the engine."""
    spans = [slice(*columns.route_ptr[row : row + 2]) for row in rows]
    lengths = [span.stop - span.start for span in spans]
    first = sim.post(
        columns.nbytes[rows],
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([columns.route_link[span] for span in spans]),
        np.concatenate([columns.route_share[span] for span in spans]),
        rate_cap=columns.rate_cap[rows],
        startup_ps=columns.startup_ps[rows],
    )
    return range(first, first + len(rows))


def by_a_foreign_loop(fabric, columns, start_ps):
    """Let a loop with a clock of its own post each flow when its time has come."""
    sim = FlowSim(fabric.capacity)
    agenda = [(int(t), row) for row, t in enumerate(start_ps)]
    heapq.heapify(agenda)
    row_of, ends, seen, clock = {}, np.full(FLOWS, -1), 0, -1
    while len(row_of) < FLOWS or sim.next_event() is not None:
        times = [t for t in (agenda[0][0] if agenda else None, sim.next_event()) if t is not None]
        assert min(times) >= clock
        clock = min(times)
        sim.run_until(clock)
        assert sim.now_ps == clock
        rows = []
        while agenda and agenda[0][0] == clock:
            rows.append(heapq.heappop(agenda)[1])
        if rows:
            row_of.update(zip(post_rows(sim, columns, rows), rows, strict=True))
        finish = sim.finish_ps
        for flow, row in row_of.items():
            if ends[row] < 0 <= finish[flow]:
                ends[row] = finish[flow]
                assert finish[flow] == clock
                seen += 1
    assert seen == FLOWS
    return ends


@pytest.mark.parametrize(
    "spread_ps", [1, 10_000, 10**8], ids=["all at once", "in bursts", "one by one"]
)
def test_a_foreign_loop_gets_the_ends_of_one_call(fabric, spread_ps):
    columns = flow_columns(fabric, seed=spread_ps)
    start_ps = np.random.default_rng(7).integers(0, spread_ps, FLOWS)
    if spread_ps == 10_000:
        start_ps = start_ps // 1000 * 10**7
    expected = at_once(fabric, columns, start_ps)
    assert by_a_foreign_loop(fabric, columns, start_ps).tolist() == expected.tolist()


def test_looking_at_the_next_event_changes_nothing(fabric):
    columns = flow_columns(fabric, seed=3)
    sim = FlowSim(fabric.capacity)
    post_rows(sim, columns, range(FLOWS))
    while (first := sim.next_event()) is not None:
        before = sim.now_ps, sim.link_bytes().tolist()
        assert sim.next_event() == first
        assert (sim.now_ps, sim.link_bytes().tolist()) == before
        sim.run_until(first)
    assert sim.finish_ps.tolist() == at_once(fabric, columns, 0).tolist()


def test_the_example_prints_what_it_says(capsys):
    documented = textwrap.dedent(EXAMPLE.read_text().split("Prints:\n\n")[1].split('"""')[0])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert textwrap.dedent(capsys.readouterr().out) == documented
    assert documented.count("decode starts") == 3


@pytest.mark.parametrize(
    ("code", "kept_out"),
    [
        ("import ubnet", ["numpy", "numba", "networkx", "rich", "greenlet"]),
        ("import ubnet; ubnet.transfer_time(0, 16, 512)", ["rich", "greenlet"]),
        ("import ubnet; ubnet.FlowSim([1e9]).post([8], [0, 1], [0])", ["networkx", "rich"]),
    ],
    ids=["import", "transfer_time", "FlowSim"],
)
def test_neither_mpi_nor_the_command_line_nor_pictures_come_along(code, kept_out):
    names = ["mpi4py", "click", "matplotlib", *kept_out]
    check = f"{code}\nimport sys\nprint([n for n in {names} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
