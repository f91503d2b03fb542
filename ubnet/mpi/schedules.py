"""The schedules that collective calls ask for: functions that make the same one everywhere.

Each is used as ``partial(function, argument=...)``, which can be pickled, and which is equal to
another one of equal arguments, so that a schedule is made once for all calls of a kind.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.collectives import reduce_scatter_v, scan
from ubnet.collectives.build import build
from ubnet.collectives.choice import choose
from ubnet.collectives.neighbours import paired
from ubnet.collectives.registry import NEIGHBOURHOODS
from ubnet.errors import MismatchedCall
from ubnet.fabric import Fabric
from ubnet.schedule import Schedule

Ints = NDArray[np.int64]


def even(
    parts: Sequence[Any],
    fabric: Fabric,
    endpoints: Ints,
    *,
    operation: str,
    count: int = 0,
    root: int = 0,
    itemsize: int = 1,
    commutative: bool = True,
    algorithm: str = "auto",
) -> Schedule:
    """Make the schedule of an operation, by default by that of the least modelled time."""
    return build(
        operation,
        len(endpoints),
        count,
        algorithm=algorithm,
        root=root,
        commutative=commutative,
        fabric=fabric,
        endpoints=endpoints,
        itemsize=itemsize,
    )


def uneven(parts: Sequence[Any], fabric: Fabric, endpoints: Ints, *, call: str) -> Schedule:
    """Make the schedule in which every rank has its own number of bytes for every rank.

    The members' parts are what `columns` makes of (sendcounts, sdispls, recvcounts, rdispls). An
    operation with a root is the same with zeros in the other columns.
    """
    try:
        return build(
            "all_to_all_v",
            len(endpoints),
            fabric=fabric,
            endpoints=endpoints,
            itemsize=1,
            parts=[tuple(np.frombuffer(part, dtype=np.int64).reshape(4, -1)) for part in parts],
            algorithm="auto" if "lltoall" in call else "mesh",
        )
    except MismatchedCall as error:
        raise MismatchedCall(_in_bytes(call, error)) from None


def _in_bytes(call: str, error: MismatchedCall) -> str:
    """Return what does not fit in the words of the call, whose elements here are bytes."""
    what = str(error).partition(": ")[2].partition(";")[0].replace(" elements ", " bytes ")
    return f"{call}: {what}; counts times the sizes of their datatypes must be equal on both sides"


def columns(*numbers: Ints) -> bytes:
    """Return a rank's part of `uneven`: bytes, which can be compared with those of a later call."""
    return np.stack(numbers).astype(np.int64).tobytes()


def prefix(
    parts: Sequence[Any], fabric: Fabric, endpoints: Ints, *, count: int, inclusive: bool
) -> Schedule:
    """Make the schedule of a scan or exscan."""
    make = scan.inclusive if inclusive else scan.exclusive
    return make(len(endpoints), count)


def uneven_reduce_scatter(
    parts: Sequence[Any], fabric: Fabric, endpoints: Ints, *, counts: tuple[int, ...]
) -> Schedule:
    """Make the schedule of a reduce-scatter whose blocks have counts of their own."""
    return reduce_scatter_v.mesh(counts)


def objects(
    parts: Sequence[Any], fabric: Fabric, endpoints: Ints, *, pattern: str, root: int = 0
) -> Schedule:
    """Make the schedule of pickled objects, whose sizes only their ranks know.

    The part of a rank is the bytes of its object, or of its object for every rank; that of a rank
    which has none is empty. Equal sizes are the even operation; others go to each rank directly.
    What a rank receives stands in its output in rank order without gaps.
    """
    ranks = len(endpoints)
    if pattern == "broadcast":
        return _sized(pattern, fabric, endpoints, int(parts[root][0]), root)
    sent = np.zeros((ranks, ranks), dtype=np.int64)
    if pattern == "gather":
        sent[:, root] = [part[0] for part in parts]
    elif pattern == "all_gather":
        sent[:] = np.array([part[0] for part in parts])[:, None]
    elif pattern == "scatter":
        sent[root] = parts[root]
    else:
        sent[:] = parts
    used = {"gather": sent[:, root], "scatter": sent[root]}.get(pattern, sent)
    if (used == used.flat[0]).all():
        return _sized(pattern, fabric, endpoints, int(used.flat[0]), root)
    starts = np.cumsum(sent, axis=1) - sent
    if pattern == "all_gather":
        starts[:] = 0  # the same bytes for everybody
    received = sent.T
    places = np.cumsum(received, axis=1) - received
    rows = [columns(*four) for four in zip(sent, starts, received, places, strict=True)]
    return uneven(rows, fabric, endpoints, call=pattern.replace("_to_", "to"))


def between_groups(parts: Sequence[Any], fabric: Fabric, endpoints: Ints, *, call: str) -> Schedule:
    """Make the schedule of pickled objects, of which each rank gives its bytes for every other.

    What a rank receives stands in its output in rank order without gaps.
    """
    sent = np.array(parts, dtype=np.int64)
    starts = np.cumsum(sent, axis=1) - sent
    received = sent.T
    places = np.cumsum(received, axis=1) - received
    rows = [columns(*four) for four in zip(sent, starts, received, places, strict=True)]
    return uneven(rows, fabric, endpoints, call=call)


def edges(outward: Sequence[Any], inward: Sequence[Any]) -> tuple[bytes, bytes]:
    """Return a part of `neighbours`: columns (peers, labels, counts, starts) of each side."""
    return columns(*map(np.asarray, outward)), columns(*map(np.asarray, inward))


def neighbours(
    parts: Sequence[Any], fabric: Fabric, endpoints: Ints, *, operation: str, call: str
) -> Schedule:
    """Make the schedule of an operation among neighbours, whose parts `edges` makes."""
    try:
        return NEIGHBOURHOODS[operation]["mesh"]([_sides(part) for part in parts])
    except MismatchedCall as error:
        raise MismatchedCall(_in_bytes(call, error)) from None


def neighbour_objects(
    parts: Sequence[Any], fabric: Fabric, endpoints: Ints, *, operation: str
) -> Schedule:
    """Make the schedule of pickled objects among neighbours.

    Only the senders know their sizes; what a rank receives stands in its output in the order of
    its neighbours, without gaps.
    """
    sides = [_sides(part) for part in parts]
    outward, inward, sends, receives = paired(sides, operation)
    counts = np.zeros(len(inward.rank), dtype=np.int64)
    counts[receives] = outward.count[sends]
    for rank, (_, side) in enumerate(sides):
        mine = counts[inward.rank == rank]
        there = side[0] >= 0
        side[2][there], side[3][there] = mine, np.cumsum(mine) - mine
    return NEIGHBOURHOODS[operation]["mesh"](sides)


def _sides(part: Sequence[bytes]) -> tuple[Ints, Ints]:
    one, other = (np.frombuffer(side, dtype=np.int64).reshape(4, -1).copy() for side in part)
    return one, other


def _sized(operation: str, fabric: Fabric, endpoints: Ints, count: int, root: int) -> Schedule:
    """Make the schedule of an even operation by the algorithm that is best for sizes like this.

    Sizes of objects are all different: the algorithm is chosen for the next power of two.
    """
    about = 1 << max(count - 1, 0).bit_length()
    algorithm = _best(operation, fabric, tuple(endpoints.tolist()), about, root)
    return even(
        (), fabric, endpoints, operation=operation, count=count, root=root, algorithm=algorithm
    )


@lru_cache(maxsize=4096)
def _best(operation: str, fabric: Fabric, places: tuple[int, ...], count: int, root: int) -> str:
    return choose(operation, fabric, np.array(places), count, 1, root=root)[0]
