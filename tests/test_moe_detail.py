"""Uneven and late ranks, what waiting is, and the figures by rank, peer and expert."""

import numpy as np
import pytest

from ubnet.cli.main import run_command
from ubnet.collectives.expert_parallel import ExpertParallel, default_experts
from ubnet.collectives.routing import Routing
from ubnet.collectives.workload import late_starts, uneven_tokens
from ubnet.errors import OptionError
from ubnet.report.moe_detail import load_picture, spread_of, spreads


def made(fabric, op, ranks=16, **options):
    gate = Routing("balanced", default_experts(ranks), skew=options.pop("skew", None))
    return ExpertParallel(op, fabric, np.arange(ranks), gate, **options)


@pytest.mark.parametrize("op", ["dispatch", "combine"])
def test_a_late_rank_makes_the_others_wait_and_not_move(cloudmatrix, op):
    late = np.zeros(16, np.int64)
    late[5] = 100_000_000
    even = made(cloudmatrix, op).timing("aiv")
    skewed = made(cloudmatrix, op, start_ps=late).timing("aiv")
    # The late rank's neighbour in its package has a link of its own and is served first.
    others = ~np.isin(np.arange(16), [4, 5])
    assert (skewed.waiting_ps[others] > 50e6).all()
    assert skewed.waiting_ps[5] < 5e6
    moving = skewed.rank_time_ps - skewed.waiting_ps
    assert moving.max() <= (even.rank_time_ps - even.waiting_ps).max() * 1.01
    assert skewed.time_ps > even.time_ps + 50e6
    assert skewed.rank_time_ps[5] <= even.time_ps


def test_alike_ranks_hardly_wait(cloudmatrix):
    for op in ("dispatch", "combine"):
        timing = made(cloudmatrix, op).timing("aiv")
        assert timing.waiting_ps.min() >= 0
        assert timing.waiting_ps.max() < 1e6


@pytest.mark.parametrize("op", ["dispatch", "combine"])
def test_bytes_by_rank_and_peer_add_up(cloudmatrix, op):
    tokens = uneven_tokens(100, 0.5, 16, np.random.default_rng(1))
    run = made(cloudmatrix, op, tokens=tokens, skew=4)
    timing = run.timing("aiv")
    copies = run.plan.copies if op == "dispatch" else run.plan.copies.T
    away = copies * ~np.eye(16, dtype=bool) * run.copy_bytes
    assert np.array_equal(timing.sent_bytes(16), away.sum(axis=1))
    assert np.array_equal(timing.received_bytes(16), away.sum(axis=0))
    assert np.array_equal(timing.sent.nbytes, away[timing.sent.src, timing.sent.dst])
    assert timing.arrival_ps.max() <= timing.stage_end_ps["arrived"].max()
    found = {s.what.strip(): s for s in spreads(run, timing)}
    assert found["time of a rank"].most == timing.time_ps / 1e6
    assert found["copies for an expert slot"].most == run.plan.counts.sum(axis=0).max()
    total = found["of it waiting for others"].mean + found["of it moving and computing"].mean
    assert total == pytest.approx(found["time of a rank"].mean)


def test_uneven_tokens_are_run_with_real_bytes(cloudmatrix):
    tokens = uneven_tokens(6, 1.0, 8, np.random.default_rng(2))
    assert len(set(tokens.tolist())) > 2
    for op in ("dispatch", "combine"):
        assert made(cloudmatrix, op, 8, tokens=tokens, hidden=16).wrong() == 0


def test_workloads_are_drawn_within_their_bounds():
    generator = np.random.default_rng(0)
    assert uneven_tokens(100, 0, 5, generator).tolist() == [100] * 5
    drawn = uneven_tokens(100, 0.25, 1000, generator)
    assert drawn.min() >= 75
    assert drawn.max() <= 125
    starts = late_starts(1000, 500, generator)
    assert starts.min() == 0
    assert 900 < starts.max() <= 1000
    with pytest.raises(OptionError, match="give 0 to 1"):
        uneven_tokens(1, 2, 1, generator)
    with pytest.raises(OptionError, match="0 or more"):
        late_starts(-1, 1, generator)


def test_spread_and_picture():
    spread = spread_of("x", "us", np.arange(101))
    assert (spread.least, spread.mean, spread.p99, spread.most, spread.where) == (
        0,
        50,
        99,
        100,
        100,
    )
    assert spread_of("x", "us", []).where == -1
    assert load_picture(np.zeros(3, np.int64)) == "   "
    assert len(load_picture(np.arange(1000))) == 64


def test_the_command_takes_layouts_replicas_and_details(capsys):
    options = ["--ep", "8", "--tokens", "8", "--hidden", "32", "--skew", "6"]
    more = ["--uneven", "0.5", "--late", "20us", "--replicas", "8", "--experts", "64", "--detail"]
    for layout in ("expert", "padded", "rank"):
        line = ["bench", "moe", *options, *more, "--layout", layout, "--quant", "fp8"]
        assert run_command(line) == 0
        shown = capsys.readouterr().out
        assert "of it waiting for others" in shown
        assert "load of expert slots |" in shown
        assert "8 replicas, token counts uneven by 0.5, late by up to 20 us" in shown
        rows = [
            row.split() for row in shown.splitlines() if row.startswith(("dispatch", "combine"))
        ]
        assert [row[-4] for row in rows] == ["0", "0"]
    assert run_command(["bench", "dispatch", *options, "--algo", "unfused"]) == 0
    assert "algo unfused" in capsys.readouterr().out
    assert run_command(["bench", "dispatch", *options, "--layout", "pad"]) == 2
    assert "did you mean padded" in capsys.readouterr().err
    assert run_command(["bench", "dispatch", *options, "--replicas", "3", "--experts", "64"]) == 2
    assert "give 0 replicas, or 8" in capsys.readouterr().err
