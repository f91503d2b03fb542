"""Published figures beside ours: all within their bounds, none typed in."""

import json

import pytest

from ubnet.cli.main import run_command
from ubnet.fabrics import load_fabric
from ubnet.report.paper import SECTIONS, section
from ubnet.report.paper_figure import FITTED, KINDS, PREDICTED, Figure

BOUND = {"shape": 0.0, "transfers": 0.03, "moe": 0.03, "h800": 0.05, "kv": 0.03}
"""The largest error of a section."""


@pytest.mark.parametrize("name", BOUND)
def test_published_figures_are_met(name):
    figures = list(section(name)(load_fabric))
    published = [f for f in figures if f.published is not None]
    assert published
    for figure in figures:
        assert figure.section == name
        assert figure.kind in KINDS
        if figure.published is None:
            assert figure.kind == PREDICTED
        assert bool(figure.source) == (figure.published is not None)
    for figure in published:
        assert abs(figure.error) <= BOUND[name] + 1e-12, figure


def test_a_ring_gains_on_the_mesh_as_sizes_grow_as_published():
    for ranks in (8, 16, 32):
        figures = section("collectives")(load_fabric)
        rows = [f for f in figures if f"on {ranks} dies" in f.what]
        ours = [f.ours for f in rows]
        assert ours == sorted(ours, reverse=True)
        assert ours[0] > 2 > 1.02 > ours[-1]
        assert {f.kind for f in rows} == {PREDICTED}
    assert all(f.source == "S" for f in section("collectives")(load_fabric))


def test_what_the_model_was_made_from_is_not_called_predicted():
    kinds = {
        name: {f.kind for f in section(name)(load_fabric) if f.published is not None}
        for name in ("shape", "transfers", "moe", "h800", "kv", "loading")
    }
    assert all("predicted" not in kinds[name] for name in kinds)
    assert kinds["shape"] == {"given", "follows"}
    assert kinds["transfers"] == {"given", "fitted"}
    assert kinds["loading"] == {"fitted", "follows"}


def test_predictions_grow_with_ranks_and_tokens(monkeypatch):
    from ubnet.report import paper_moe

    monkeypatch.setattr(paper_moe, "PREDICTED_EP", (16, 64))
    monkeypatch.setattr(paper_moe, "PREFILL_EP", (8, 16))
    monkeypatch.setattr(paper_moe, "TOKENS", (4, 32, 128))
    ours = [f.ours for f in section("predictions")(load_fabric)]
    for op in (ours[: len(ours) // 2], ours[len(ours) // 2 :]):
        assert op[0] < op[1]
        assert op[2] < op[3]
        assert op[4:] == sorted(op[4:])


def test_every_step_of_the_design_gains_and_start_up_fades(monkeypatch):
    from ubnet.report import paper_steps

    monkeypatch.setattr(paper_steps, "TOKENS", (1, 128))
    ours = {f.what: f.ours for f in section("steps")(load_fabric)}
    for tokens in (8, 128):
        times = [v for k, v in ours.items() if k.startswith(f"dispatch EP 32, {tokens} tokens: ")]
        ladder = times[:5]
        assert ladder == sorted(ladder, reverse=True)
        assert len(set(ladder)) == 5
    for tokens in (1, 128):
        assert ours[f"dispatch EP 32, {tokens} tokens: SDMA / AIV-Direct"] > 1
    shares = [ours[f"dispatch EP 32, {n} tokens: of it start-up"] for n in (1, 128)]
    assert 100 >= shares[0] > 95
    assert shares[1] < 60
    cuts = [v for k, v in ours.items() if "cut by AIV-Direct" in k]
    assert cuts == sorted(cuts, reverse=True)
    assert cuts[0] > 70 > cuts[-1]


def test_replicas_recover_nearly_all_of_a_hot_expert():
    figures = list(section("skew")(load_fabric))
    recovered = [f.ours for f in figures if f.what.endswith("recovered")]
    assert len(recovered) == 6
    assert min(recovered) > 90
    assert max(recovered) < 110


def test_a_model_that_is_off_would_show():
    def slower(name, **options):
        return load_fabric(name, **options | ({"aiv_cores": 12} if "cloud" in name else {}))

    errors = [f.error for f in section("transfers")(slower) if f.error is not None]
    assert max(map(abs, errors)) > 0.2


def test_the_command_prints_tables_and_lines(capsys):
    assert run_command(["paper", "--section", "kv", "--section", "shape"]) == 0
    shown = capsys.readouterr().out
    assert "4,096 tokens by RoCE" in shown
    assert "+2.2" in shown
    assert "follows" in shown
    assert run_command(["paper", "--section", "kv,shape"]) == 0
    assert capsys.readouterr().out == shown
    assert run_command(["paper", "--section", "kv", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["published"] for line in lines] == [70272, 288, 11.5]
    assert list(lines[0]) == list(Figure("", "", "", None, 0, FITTED).record())


def test_an_unknown_section_is_named(capsys):
    assert run_command(["paper", "--section", "moo"]) == 2
    assert "did you mean moe" in capsys.readouterr().err
    assert set(BOUND) < set(SECTIONS)
