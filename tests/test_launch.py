"""The call `ubnet.run`: what it refuses before anything runs."""

import pytest

import ubnet
from ubnet.errors import FabricError, OptionError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ranks": 2.5}, "ranks is 2.5; give a whole number"),
        ({"ranks": "2"}, "ranks is '2'; give a whole number"),
        ({"ranks": 0}, "0 ranks: there must be at least 1"),
        ({"ranks": 2, "eager_bytes": -1}, "eager_bytes is -1; give 0 or more"),
        ({"ranks": 2, "eager_bytes": 1e30}, "eager_bytes is 1e.30; give a whole number"),
        ({"ranks": 2, "shuffle": -3}, "shuffle is -3; give 0 or more"),
        ({"ranks": 2, "shuffle": "x"}, "shuffle is 'x'; give a whole number"),
        ({"ranks": 2, "fabric": None}, "None is no name of a fabric"),
        ({"ranks": 2, "fabric": 3}, "3 is no name of a fabric"),
        ({"ranks": 2, "compute": -1}, "compute is -1; give free, measured"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ubnet.UbnetError, match=words) as caught:
        ubnet.run(lambda comm: None, **arguments)
    assert isinstance(caught.value, (OptionError, FabricError))
