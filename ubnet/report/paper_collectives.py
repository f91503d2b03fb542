"""What S publishes of collectives on UB: a ring against the one-step full mesh, by size."""

from collections.abc import Callable, Iterator

from ubnet.collectives.build import build
from ubnet.fabric import Fabric
from ubnet.place import place_ranks
from ubnet.timing import time_schedule
from ubnet.units import format_size

from .paper_figure import PREDICTED, Figure

Load = Callable[..., Fabric]

RANKS = (8, 16, 32)
"""S does not print how many ranks its figures are of: half a node, a node and two nodes."""

OPERATION = "all_reduce"
ITEMSIZE = 4
RING_OVER_MESH = {64 << 10: 4.5, 512 << 10: 2.0, 8 << 20: 1.0, 16 << 20: 1 / 1.06}
"""S: time of a ring over that of the mesh: 4.5 at 64 KiB, about 2 below 1 MiB, equal at about
8 MiB; from 16 MiB on the ring is about 6 % ahead."""


def collective_rows(load: Load) -> Iterator[Figure]:
    """Yield the time of a ring over that of the mesh; no constant was chosen to meet it."""
    fabric = load("cloudmatrix384")
    for size, published in RING_OVER_MESH.items():
        for ranks in RANKS:
            ring, mesh = (_time_ps(fabric, name, ranks, size) for name in ("ring", "mesh"))
            what = f"{OPERATION} of {format_size(size)} on {ranks} dies: ring / mesh"
            yield Figure("collectives", what, "x", published, ring / mesh, PREDICTED, "S")


def _time_ps(fabric: Fabric, algorithm: str, ranks: int, size: int) -> int:
    schedule = build(OPERATION, ranks, size // ITEMSIZE, algorithm=algorithm)
    places = place_ranks(fabric, ranks)
    return time_schedule(schedule, fabric, places, ITEMSIZE, "aiv", "ub").time_ps
