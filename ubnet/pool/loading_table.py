"""The table of model loading: cold and warm starts and switches, published and simulated."""

from dataclasses import dataclass

from ubnet.fabric import Fabric
from ubnet.units import PS_PER_S

from .model_loading import LoadingSetup, ModelSite


@dataclass(frozen=True, eq=False, slots=True)
class LoadingFigures:
    """The figures of one column of the table; times in seconds.

    Attributes
    ----------
    cold_s, warm_s : float or None
        All instances start at once, with nothing in DRAM, and again; None where nothing stays.
    dram_models : float
        DRAM in use, in models.
    hit_rate, switch_s : float
        Of one instance that switches among as many models as there are instances: how often the
        next one is in DRAM, and how long it takes on average.
    """

    cold_s: float
    warm_s: float | None
    dram_models: float
    hit_rate: float
    switch_s: float


PUBLISHED = {
    "none": LoadingFigures(2560.0, None, 0.0, 0.0, 320.0),
    "local": LoadingFigures(2560.0, 5.0, 8.0, 0.125, 281.0),
    "pool": LoadingFigures(320.0, 5.0, 1.0, 1.0, 5.0),
}
"""The table of section 6 [P]."""

FITTED = {("none", "switch_s"): "BUCKET_FRACTION", ("pool", "warm_s"): "DRAW_RATE"}
"""The cells that the two fitted figures were chosen by."""


def loading_figures(
    fabric: Fabric, cache: str, *, models: int = 8, setup: LoadingSetup | None = None
) -> LoadingFigures:
    """Simulate one column of the table.

    Switches go through every ordered pair of models once, a model to itself included.

    Parameters
    ----------
    fabric : Fabric
        Where.
    cache : {"none", "local", "pool"}
        What keeps models.
    models : int
        Models to switch among.
    setup : LoadingSetup, optional
        Who loads how much from where; default: as in the table.
    """
    setup = setup or LoadingSetup()
    site = ModelSite(fabric, cache, setup)
    everyone = list(range(setup.instances))
    cold = site.load(everyone, model=0)
    warm = site.load(everyone, model=0) if cache != "none" else None
    dram = site.dram_bytes / setup.model_bytes
    switching = ModelSite(fabric, cache, setup)
    wanted = every_pair(models)
    if cache == "pool":
        for model in range(models):
            switching.load([0], model)
    switching.load([0], wanted[-1])
    hits, spent = 0, 0
    for model in wanted:
        hits += switching.holds(0, model)
        spent += switching.load([0], model)
    return LoadingFigures(
        cold / PS_PER_S,
        None if warm is None else warm / PS_PER_S,
        dram,
        hits / len(wanted),
        spent / len(wanted) / PS_PER_S,
    )


def every_pair(n: int) -> list[int]:
    """Return a circle of numbers in which every ordered pair of 0 to n - 1 follows once.

    >>> every_pair(3)
    [0, 0, 1, 0, 2, 1, 1, 2, 2]
    """
    left = {i: list(range(n))[::-1] for i in range(n)}
    path, circle = [0], []
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            circle.append(path.pop())
    return circle[::-1][:-1]
