"""``ubnet bench kv-blocks``, ``pool`` and ``model-load``: rows, tables, pictures, misuse."""

import json

import pytest
from click.testing import CliRunner

from ubnet.cli.bench import bench
from ubnet.errors import OptionError
from ubnet.report.bars import Bars, plot_bars
from ubnet.report.plot import series_of
from ubnet.report.row import Row


def rows_of(*words):
    result = CliRunner().invoke(bench, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_blocks_move_and_are_timed_alike_with_and_without_bytes():
    words = ["kv-blocks", "--fabric", "cloudmatrix64", "--sizes", "4KiB,1MiB", "--repeats", "3"]
    real, size = (rows_of(*words, "--payload", payload) for payload in ("real", "size"))
    assert [row["wrong"] for row in real] == [0] * 12
    assert [row["wrong"] for row in size] == [None] * 12
    for a, b in zip(real, size, strict=True):
        assert a["time_us"] == pytest.approx(b["time_us"], rel=1e-6)
        assert a["latency_avg_us"] == pytest.approx(
            a["prepare_us"] + a["post_us"] + a["transfer_us"]
        )
        assert a["latency_avg_us"] <= a["latency_p99_us"] * (1 + 1e-9)
        assert 0 < a["efficiency"] <= 1
    big = next(r for r in real if r["block_bytes"] == 1 << 20 and r["transport"] == "roce")
    assert big["algbw_GBps"] == pytest.approx(24.5 / (1 + 5.4 / 42.8), rel=0.03)
    assert {r["batch"] for r in real} == {1, 64}


def test_many_pairs_share_the_fabric():
    words = ["kv-blocks", "--fabric", "cloudmatrix64", "--sizes", "16MiB", "--batch", "1"]
    words += ["--payload", "size", "--transport", "vpc"]
    one, many = (rows_of(*words, "--pairs", n)[0] for n in ("1", "64"))
    assert many["latency_avg_us"] > 1.3 * one["latency_avg_us"]
    assert many["algbw_GBps"] == pytest.approx(4 * 50, rel=0.05)


def test_serving_shows_queues_and_the_hot_source():
    words = ["kv-serve", "--requests", "300", "--streaming", "prompt,layers"]
    rows = rows_of(*words)
    assert [r["case"] for r in rows] == [
        "spread, prompt", "spread, layers", "first, prompt", "first, layers",
    ]  # fmt: skip
    spread, layers, first, _ = rows
    assert first["hot_busy"] > 5 * spread["hot_busy"]
    assert first["even_busy"] == pytest.approx(spread["even_busy"], rel=0.05)
    assert layers["transfer_avg_us"] < spread["transfer_avg_us"] / 10
    assert spread["total_avg_us"] > spread["queue_avg_us"] + spread["transfer_avg_us"]
    table = CliRunner().invoke(bench, [*words, "--sources", "2"]).output
    assert table.count("node00.npu0.die0") >= 2


def test_pool_rows_show_the_ratio_of_the_planes():
    words = ["pool", "--fabric", "cloudmatrix64", "--tokens", "128", "--readers", "1,8"]
    rows = rows_of(*words)
    assert [(r["transport"], r["wrong"]) for r in rows] == [("sdma", 0), ("vpc", 0)] * 2
    for ub, vpc in (rows[:2], rows[2:]):
        assert ub["block_bytes"] == vpc["block_bytes"] == 128 * 70_272
        assert 15 < vpc["latency_avg_us"] / ub["latency_avg_us"] < 30
        assert 60 < ub["latency_avg_us"] < 120
    table = CliRunner().invoke(bench, [*words, "--payload", "size"])
    assert "p99 lat" in table.output
    assert "ratio 1.0" in table.output


def test_model_loading_is_shown_beside_the_published_table():
    rows = rows_of("model-load", "--cache", "none")
    assert [r["case"] for r in rows] == ["none cold start", "none mean switch"]
    assert all(abs(r["error"]) < 0.03 for r in rows)
    assert [r["fitted"] for r in rows] == [False, True]
    other = rows_of(
        "model-load", "--cache", "pool", "--size", "10GB", "--instances", "2", "--models", "2",
        "--bucket", "5GB/s",
    )  # fmt: skip
    assert all(r["published_s"] is None for r in other)
    cold = next(r for r in other if r["case"] == "pool cold start")
    assert cold["time_us"] == pytest.approx(10e9 / (5e9 * 0.839) * 1e6, rel=0.05)
    assert (cold["dram_models"], cold["hit_rate"]) == (1.0, 1.0)


def test_pictures_are_drawn(tmp_path):
    for words in (
        ["kv-blocks", "--fabric", "cloudmatrix64", "--sizes", "4KiB:1MiB:16", "--batch", "1"],
        ["pool", "--fabric", "cloudmatrix64", "--tokens", "128,256", "--readers", "1"],
        ["kv-serve", "--requests", "50"],
        ["model-load", "--cache", "none", "--size", "10GB"],
    ):
        picture = tmp_path / f"{words[0]}.svg"
        arguments = [*words, "--plot", str(picture)]
        result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert picture.stat().st_size > 5000


def row(tokens, readers, transport, plane):
    return Row.timed(
        1000 * tokens * readers,
        tokens * readers,
        op="pool",
        case=f"{tokens} tokens, {readers} readers",
        transport=transport,
        plane=plane,
        ranks=readers,
        wrong=None,
        efficiency=1.0,
        busiest_link="",
        busiest_link_utilisation=0.0,
    )


def test_a_line_of_the_pool_is_a_block_and_a_transport_against_readers():
    ways = (("sdma", "ub"), ("vpc", "vpc"))
    readers = [1, 8, 32]
    rows = [row(t, r, *way) for t in (128, 256) for r in readers for way in ways]
    lines = series_of(rows)
    assert [s.label for s in lines] == [
        f"{t} tokens, {w}" for t in (128, 256) for w in ("sdma", "vpc")
    ]
    assert all(s.across == readers and len(s.times) == 3 for s in lines)
    assert all(s.times == sorted(s.times) for s in lines)


def test_bars_need_rows(tmp_path):
    with pytest.raises(OptionError, match="nothing to draw"):
        plot_bars([Bars("time", [], {"ours": []})], tmp_path / "no.png", "none")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["pool", "--readers", "0"], "whole numbers above 0"),
        (["pool", "--readers", "769", "--tokens", "128", "--payload", "size"], "has 768 dies"),
        (["kv-serve", "--mapping", "none"], "'none' is none of spread, first"),
        (["kv-serve", "--decode-dp", "321"], "the nearest that fit"),
        (["kv-serve", "--rate", "0"], "a rate above 0"),
        (["kv-blocks", "--pairs", "385", "--payload", "size"], "at most 384"),
        (["model-load", "--cache", "pool,disk"], "disk is none of none, local, pool"),
        (["model-load", "--instances", "25", "--cache", "none"], "has 768 dies"),
    ],
)
def test_misuse_is_named(words, text):
    result = CliRunner().invoke(bench, words)
    assert result.exit_code != 0
    assert text in str(result.exception) + result.output
