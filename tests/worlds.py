"""Small worlds for tests: one place that builds them, so that a test reads as its program."""

from collections.abc import Callable
from functools import cache
from typing import Any

from ubnet.clock import ClockOptions
from ubnet.fabric import Fabric
from ubnet.fabrics import load_fabric
from ubnet.rank import Rank
from ubnet.world import Result, World, WorldOptions


@cache
def fabric() -> Fabric:
    return load_fabric("cloudmatrix64")


def run(
    main: Callable[[Rank], Any],
    ranks: int,
    *,
    place: str = "die",
    shuffle: int | None = None,
    **clock: Any,
) -> Result:
    options = WorldOptions(clock=ClockOptions(**clock), shuffle_seed=shuffle)
    return World(fabric(), ranks, place, options).run(main)
