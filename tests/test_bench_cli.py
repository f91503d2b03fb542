"""``ubnet bench``: its rows, its tables, its picture; the figures that are published."""

import json
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest

from ubnet.cli.main import run_command
from ubnet.collectives.registry import OPERATIONS
from ubnet.fabrics import load_fabric

FIELDS = [
    *("op", "case", "algorithm", "transport", "plane", "ranks", "size_bytes", "time_us"),
    *("algbw_GBps", "busbw_GBps", "wrong", "efficiency", "busiest_link"),
    "busiest_link_utilisation",
]

# [P Table 1]: us at 512 B and GB/s of one direction.
TABLE_1 = {
    ("read", "near"): (1.2, 167),
    ("read", "far"): (1.9, 164),
    ("read", "cpu-near"): (1.0, 151),
    ("read", "cpu-far"): (1.7, 147),
    ("write", "near"): (1.3, 137),
    ("write", "far"): (2.1, 135),
    ("write", "cpu-near"): (1.1, 110),
    ("write", "cpu-far"): (1.9, 107),
}


@pytest.fixture
def bench(capsys):
    """Run ``ubnet bench ... --json`` and return its rows."""

    def run(line):
        status = run_command(["bench", *line.split(), "--json"])
        out = capsys.readouterr().out
        assert status == 0, out
        return [json.loads(text) for text in out.splitlines()]

    return run


def test_json_has_the_documented_fields(bench):
    rows = bench("p2p --pair near --op write,send --sizes 0,64KiB")
    rows += bench("all_reduce --ranks 3 --sizes 1KiB") + bench("moe --ep 2 --tokens 1 --hidden 8")
    rows += bench("kv --tokens 1")
    for row in rows:
        assert list(row) == FIELDS
        assert row["wrong"] == 0


def test_table_1(bench):
    rows = bench("p2p --op read,write --pair near,far,cpu-near,cpu-far --sizes 512,64MiB")
    found = {(*row["case"].split(), row["size_bytes"]): row for row in rows}
    assert len(found) == 16
    for case, (latency, rate) in TABLE_1.items():
        assert round(found[*case, 512]["time_us"], 1) == latency
        assert found[*case, 64 << 20]["busbw_GBps"] == pytest.approx(rate, rel=0.01)
    for op in ("read", "write"):
        for near, far in (("near", "far"), ("cpu-near", "cpu-far")):
            rates = [found[op, pair, 64 << 20]["busbw_GBps"] for pair in (near, far)]
            assert rates[0] > 1.01 * rates[1]


def test_sdma_against_aiv(bench):
    rows = bench("p2p --op write --pair far --sizes 512,64MiB --transport aiv,sdma")
    aiv, sdma = ([r for r in rows if r["transport"] == t] for t in ("aiv", "sdma"))
    assert sdma[0]["time_us"] - aiv[0]["time_us"] == pytest.approx(9, abs=0.3)
    for cores in (24, 48):
        line = f"p2p --op write --pair far --sizes 64MiB --aiv-cores {cores} --payload size"
        assert bench(line)[0]["time_us"] == pytest.approx(sdma[1]["time_us"], rel=0.05)


def test_auto_changes_over_where_sdma_overtakes_aiv(bench):
    sizes = "p2p --op write --pair far --sizes 1KiB:64MiB:2 --aiv-cores 8 --payload size"
    rows = bench(f"{sizes} --transport aiv,sdma,auto")
    aiv, sdma, auto = np.array_split(rows, 3)
    overtaken = [a["time_us"] > s["time_us"] for a, s in zip(aiv, sdma, strict=True)]
    left = [row["transport"] == "sdma" for row in auto]
    assert overtaken == sorted(overtaken)
    assert left == sorted(left)
    assert left.index(True) > 0
    assert abs(overtaken.index(True) - left.index(True)) <= 1


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_algorithm_of_every_operation(bench, op):
    written = op.replace("_", "")
    rows = bench(f"{written} --ranks 5 --sizes 0,1000,4KiB --algo all")
    algorithms = list(OPERATIONS[op].algorithms)
    assert list(dict.fromkeys(row["algorithm"] for row in rows)) == algorithms
    for row in rows:
        assert (row["op"], row["ranks"], row["wrong"]) == (op, 5, 0)
        assert row["busiest_link_utilisation"] <= 1 + 1e-9
        assert row["efficiency"] <= 1 + 1e-9


@pytest.mark.parametrize(
    ("op", "factor"), [("all_reduce", 1.5), ("all_to_all", 0.75), ("reduce", 1)]
)
def test_bandwidths_are_counted_as_nccl_tests_does(bench, op, factor):
    (row,) = bench(f"{op} --ranks 4 --sizes 1MiB")
    assert row["size_bytes"] == 1 << 20
    assert row["algbw_GBps"] == pytest.approx((1 << 20) / row["time_us"] / 1e3)
    assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"] * factor)


def test_size_is_rounded_down_to_what_the_ranks_share(bench):
    rows = bench("alltoall --ranks 768 --sizes 3000,1MiB --payload size")
    assert [row["size_bytes"] for row in rows] == [0, 341 * 4 * 768]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint64", "float8_e4m3fn"])
def test_other_types_stay_exact(bench, dtype):
    for op in ("allreduce", "alltoall"):
        (row,) = bench(f"{op} --ranks 6 --sizes 600 --dtype {dtype}")
        assert row["wrong"] == 0


def test_payload_by_size_and_by_memory(bench, capsys, monkeypatch):
    assert bench("allgather --ranks 4 --sizes 1KiB --payload size")[0]["wrong"] is None

    class Little:
        available = 5 << 20

    monkeypatch.setattr("psutil.virtual_memory", lambda: Little)
    assert run_command(["bench", "allgather", "--ranks", "4", "--sizes", "1MiB", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["wrong"] is None
    assert "size only" in err
    assert (
        run_command(["bench", "p2p", "--pair", "near", "--sizes", "64MiB", "--payload", "real"])
        == 2
    )
    _, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert "0.12 GiB" in err
    assert "--payload size" in err


def test_same_seed_same_line(bench):
    line = "moe --ep 4 --tokens 8 --hidden 32 --routing zipf --skew 4 --seed 7"
    assert bench(line) == bench(line)


def test_ep_doubles_to_its_end(bench):
    rows = bench("dispatch --ep 8:48 --tokens 2 --hidden 16")
    assert [row["case"] for row in rows] == ["ep8", "ep16", "ep32", "ep48"]


@pytest.mark.parametrize("ep", [8, 32, 256])
def test_moe_rows_lie_near_the_published_ones(bench, ep):
    published = {8: (116, 118), 32: (133, 146), 256: (152, 149)}[ep]  # [P Table 7]
    rows = bench(f"moe --ep {ep} --payload size")
    assert [row["time_us"] for row in rows] == pytest.approx(published, rel=0.1)


def test_kv_of_a_prompt_takes_what_its_bytes_need(bench):
    rows = bench("kv --transport roce,vpc --tokens 4096")
    assert [row["size_bytes"] for row in rows] == [4096 * 70_272] * 2
    assert rows[0]["time_us"] == pytest.approx(11_750 + 5, rel=0.02)
    assert [row["wrong"] for row in rows] == [0, 0]


def test_table_says_what_it_shows(capsys):
    assert run_command(["bench", "allreduce", "--ranks", "4", "--sizes", "1KiB,1MiB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# fabric cloudmatrix384, place die, seed 1"
    assert any("busbw = algbw x 2(n-1)/n" in line for line in lines)
    head = next(i for i, line in enumerate(lines) if line.startswith("# op"))
    for title in ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "wrong"):
        assert title in lines[head].split()
    body = [line.split() for line in lines[head + 2 :] if not line.startswith("#")]
    assert [line[0] for line in body] == ["all_reduce", "all_reduce"]
    assert all("float32" in line and "sum" in line for line in body)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_picture_shows_both_transports(tmp_path, capsys, suffix):
    path = tmp_path / f"p2p.{suffix}"
    line = f"bench p2p --pair far --op write --sizes 512:1MiB:8 --payload size --plot {path}"
    assert run_command(line.split()) == 0
    out = capsys.readouterr().out
    assert "aiv" in out
    assert "sdma" in out
    assert path.stat().st_size > 5_000
    if suffix == "svg":
        assert "<svg" in path.read_text()


def test_a_fabric_of_a_file_of_ones_own(tmp_path, bench):
    path = tmp_path / "two.toml"
    path.write_text(
        """
        [fabric]
        name = "two"
        [[endpoints]]
        name = "node{n}.die{d}"
        node = "{n}"
        for = {n = 2, d = 4}
        [[switches]]
        name = "switch"
        latency = "200ns"
        [[links]]
        from = "node{n}.die{d}"
        to = "switch"
        capacity = "200GB/s"
        latency = "100ns"
        for = {n = 2, d = 4}
        """
    )
    (row,) = bench(f"alltoall --fabric {path} --sizes 1MiB")
    assert (row["ranks"], row["wrong"]) == (8, 0)
    assert row["busbw_GBps"] == pytest.approx(200, rel=0.1)
    rows = bench(f"p2p --fabric {path} --sizes 1MiB --op read,write,send")
    assert [row["wrong"] for row in rows] == [0] * 6


@pytest.mark.slow
def test_main_job_has_its_rows_with_real_bytes():
    run = [sys.executable, "-m", "ubnet", "bench", "--json"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["op"]] = counts.get(row["op"], 0) + 1
    assert counts == {
        **{"p2p": 32, "all_to_all": 2, "all_reduce": 2},
        **{"dispatch": 3, "combine": 3, "kv": 2},
    }
    for row in rows:
        assert row["wrong"] == (None if row["case"] == "ep256" else 0)


@pytest.mark.slow
def test_all_to_all_of_1_mib_a_pair_is_at_its_bound(bench):
    (row,) = bench("alltoall --ranks 768 --sizes 768MiB --payload size")
    assert row["efficiency"] > 0.99
    names = load_fabric("cloudmatrix384").resource_names
    assert row["busiest_link"] in names


def test_sizes_that_come_to_the_same_row_are_told_and_are_one_row(capsys):
    command = "bench all_to_all --ranks 48 --algo mesh,pairwise --sizes 1000,1KiB,1100,1152"
    assert run_command(command.split()) == 0
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines() if line.startswith("all_to_all")]
    assert [(row[1], row[2]) for row in rows] == [
        (algorithm, size) for algorithm in ("mesh", "pairwise") for size in ("960", "1152")
    ]
    assert err == (
        "ubnet: all_to_all of float32 on 48 ranks: sizes 1000, 1024, 1100 all come to a count of 5 "
        "and are one row\n"
    )
    assert "\n# sizes that were asked for are rounded down to whole elements (float32)" in out
    command = "bench p2p --op read --pair near --sizes 1001,1003,1004 --dtype float32 --json"
    assert run_command(command.split()) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["size_bytes"] for line in out.splitlines()] == [1000, 1004]
    assert "p2p of float32: sizes 1001, 1003 all come to a count of 250" in err


@pytest.mark.parametrize("command", ["all_reduce --ranks 8", "p2p --pair near", "barrier"])
def test_sizes_that_are_whole_are_not_talked_about(command, capsys):
    sizes = [] if command == "barrier" else ["--sizes", "1KiB,64KiB"]
    assert run_command(["bench", *command.split(), *sizes, "--payload", "size"]) == 0
    out, err = capsys.readouterr()
    assert "rounded" not in out + err
    assert "stream" not in out


@pytest.mark.parametrize(
    "command",
    [
        "p2p --pair near --sizes 64MiB",
        "all_reduce --ranks 4 --place node --sizes 64MiB --payload size",
        "kv --tokens 4096 --payload size",
        "kv-blocks --sizes 64KiB --batch 1 --payload size",
    ],
)
def test_the_cap_of_one_stream_is_named_and_counted(command, capsys):
    assert run_command(["bench", *command.split(), "--transport", "vpc"]) == 0
    out, _ = capsys.readouterr()
    assert "# eff of vpc: one stream carries at most 5 GB/s, which the bound counts, too\n" in out
    assert run_command(["bench", *command.split(), "--transport", "vpc", "--json"]) == 0
    for line in capsys.readouterr().out.splitlines():
        row = json.loads(line)
        alone_us = (1 << 24 if row["op"] == "all_reduce" else row["size_bytes"]) / 5e3
        assert alone_us / row["time_us"] - 1e-3 <= row["efficiency"] <= 1 + 1e-9, row


def test_a_list_of_ranks_gives_the_rows_of_each(bench):
    line = "reduce_scatter --sizes 1KiB,64KiB --algo mesh,ring"
    alone = [bench(f"{line} --ranks {n}") for n in (3, 8, 16)]
    assert bench(f"{line} --ranks 3,8:16,8") == [*chain(*alone)]
