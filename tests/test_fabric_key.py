"""What tells fabrics apart for remembered answers: everything that a time can depend on."""

from pathlib import Path

import pytest

from ubnet.collectives.decision import fabric_key
from ubnet.fabrics import load_fabric

EXAMPLE = Path(__file__).parents[1] / "examples" / "two_nodes.toml"


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('latency = "200ns"', 'latency = "90us"'),
        ('latency = "100ns"', 'latency = "101ns"'),
        ('capacity = "200GB/s"', 'capacity = "201GB/s"'),
        ("count = 8", "count = 7"),
        ('paths = "spray"', 'paths = "hash"'),
        ('rate = "150GB/s"', 'rate = "151GB/s"'),
        ('startup = "1us"', 'startup = "2us"'),
        ('post = "80ns"', 'post = "81ns"'),
    ],
)
def test_any_change_of_a_fabric_changes_its_key(tmp_path: Path, was: str, now: str) -> None:
    text = EXAMPLE.read_text()
    assert text.count(was) == 1
    changed = tmp_path / EXAMPLE.name
    changed.write_text(text.replace(was, now))
    assert fabric_key(load_fabric(changed)) != fabric_key(load_fabric(EXAMPLE))


def test_the_same_fabric_has_the_same_key() -> None:
    assert fabric_key(load_fabric(EXAMPLE)) == fabric_key(load_fabric(EXAMPLE))
    one, other = (load_fabric("cloudmatrix64", paths=paths) for paths in ("spray", "ecmp"))
    assert fabric_key(one) != fabric_key(other)
