"""ubnet explain: the candidates, the winner, the bound and the crossings."""

from ubnet.cli.main import run_command


def test_explain_says_all(capsys):
    assert run_command(["explain", "allreduce", "1MiB", "--ranks", "32"]) == 0
    out = capsys.readouterr().out
    for word in ("start-up", "wire", "reduction", "simulated", "taken: ", "bound", "by size: "):
        assert word in out
    taken = out.split("taken: ")[1].split()[0]
    assert f"*{taken} " in out
    rows = {line[1:].split()[0]: line for line in out.splitlines() if "%" in line and "aiv" in line}
    assert {"mesh", "ring", "nhr", "hierarchical"} <= set(rows)


def test_what_is_refused(capsys):
    assert run_command(["explain", "all_reduce", "1KiB:1MiB:2"]) == 2
    assert "is not one size" in capsys.readouterr().err
    assert run_command(["explain", "all_reduced", "1KiB"]) == 2
    assert "did you mean all_reduce" in capsys.readouterr().err
