"""Where ranks sit: which endpoint each rank of a world is placed on."""

from collections.abc import Sequence

import numpy as np

from ubnet.errors import OptionError, did_you_mean
from ubnet.fabric import Fabric, Ints

PLACES = ("die", "npu", "node", "cpu")


def place_ranks(fabric: Fabric, ranks: int, place: str | Sequence[str] = "die") -> Ints:
    """Return the endpoint of each rank.

    Parameters
    ----------
    fabric : Fabric
        Where the ranks are placed.
    ranks : int
        How many there are, at least 1.
    place : {"die", "npu", "node", "cpu"} or sequence of str
        ``die``: rank r on the r-th die, node by node, so that ranks 0 and 1 share a package;
        ``npu`` and ``node``: on the first die of each; ``cpu``: on the CPU sockets; or the names
        of endpoints, one a rank; a name may stand several times, its ranks share the endpoint.

    Returns
    -------
    ndarray of int64, shape (ranks,)
        Endpoint numbers.

    Raises
    ------
    OptionError
        If the place is unknown, or holds fewer ranks than wanted.
    """
    endpoints = all_places(fabric, place)
    where = f"fabric {fabric.name} by --place {place}" if isinstance(place, str) else "the list"
    _check_room(ranks, len(endpoints), where)
    return endpoints[:ranks]


def all_places(fabric: Fabric, place: str | Sequence[str] = "die") -> Ints:
    """Return the endpoint of every rank that a place has room for.

    Raises
    ------
    OptionError
        If the place is unknown.
    FabricError
        If one of the names is.
    """
    if isinstance(place, str) and place not in PLACES and _is_endpoint(fabric, place):
        place = [place]
    if not isinstance(place, str):
        return np.array([fabric.endpoint(name).index for name in place], dtype=np.int64)
    if place not in PLACES:
        if "." in place:
            return np.array([fabric.endpoint(place).index], dtype=np.int64)
        raise OptionError(
            f"place is {place!r}; {did_you_mean(place, PLACES)}, or a list of endpoint names"
        )
    endpoints = fabric.of_kind("cpu" if place == "cpu" else "die")
    if place in ("npu", "node"):
        owner = (fabric.package_of if place == "npu" else fabric.node_of)[endpoints]
        endpoints = endpoints[np.sort(np.unique(owner, return_index=True)[1])]
    return endpoints


def read_place(text: str) -> str | list[str]:
    """Read a place as the command line gives it: a word, a name, or names with commas.

    >>> read_place("npu"), read_place("a,b")
    ('npu', ['a', 'b'])
    """
    return text.split(",") if "," in text else text


def _is_endpoint(fabric: Fabric, name: str) -> bool:
    return any(e.name == name for e in fabric.endpoints)


def _check_room(ranks: int, room: int, where: str) -> None:
    if not 1 <= ranks <= room:
        raise OptionError(f"{ranks} ranks do not fit: {where} has places for 1 to {room}")
