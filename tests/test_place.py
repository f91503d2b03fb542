"""Where ranks sit."""

import numpy as np
import pytest
from worlds import fabric

from ubnet.errors import FabricError, OptionError
from ubnet.place import place_ranks


def names(place: object, ranks: int) -> list[str]:
    return [fabric().endpoints[e].name for e in place_ranks(fabric(), ranks, place)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "first", "most"),
    [
        ("die", ["node00.npu0.die0", "node00.npu0.die1", "node00.npu1.die0"], 128),
        ("npu", ["node00.npu0.die0", "node00.npu1.die0", "node00.npu2.die0"], 64),
        ("node", ["node00.npu0.die0", "node01.npu0.die0", "node02.npu0.die0"], 8),
        ("cpu", ["node00.cpu0", "node00.cpu1", "node00.cpu2"], 32),
    ],
)
def test_a_place_is_one_endpoint_a_rank_node_by_node(
    place: str, first: list[str], most: int
) -> None:
    assert names(place, 3) == first
    everybody = place_ranks(fabric(), most, place)
    assert len(np.unique(everybody)) == most
    with pytest.raises(OptionError, match=rf"{most + 1} ranks do not fit.*1 to {most}"):
        place_ranks(fabric(), most + 1, place)


def test_a_list_of_names_places_its_ranks_in_its_order() -> None:
    wanted = ["node01.cpu2", "node00.npu0.die1"]
    assert names(wanted, 2) == wanted
    with pytest.raises(FabricError, match=r"no endpoint 'node01.cpu9'"):
        place_ranks(fabric(), 1, ["node01.cpu9"])
    with pytest.raises(OptionError, match="3 ranks do not fit"):
        place_ranks(fabric(), 3, wanted)


def test_an_unknown_place_is_answered_with_the_right_ones() -> None:
    with pytest.raises(OptionError, match="place is 'dies'; did you mean die"):
        place_ranks(fabric(), 1, "dies")
