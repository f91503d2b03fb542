"""The one call that turns the name of an operation into a schedule."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError
from ubnet.fabric import Fabric
from ubnet.schedule import Schedule
from ubnet.transport import WRITE

from .grid import Grid, grid_of
from .overrides import environment_override, levels_of
from .registry import Operation
from .registry import operation as find

MOST_TRANSFERS = 1 << 24
"""Chunks are refused above so many transfers, which take a few GiB as a schedule."""


def build(
    operation: str,
    ranks: int,
    count: int = 0,
    *,
    algorithm: str = "auto",
    root: int = 0,
    chunks: int = 1,
    commutative: bool = True,
    fabric: Fabric | None = None,
    endpoints: NDArray[np.int64] | None = None,
    itemsize: int = 4,
    transport: str = "auto",
    plane: str | None = None,
    op: str = WRITE,
    parts: Sequence[Any] | None = None,
    grid: Grid | None = None,
) -> Schedule:
    """Build the schedule of a collective operation.

    Parameters
    ----------
    operation : str
        Its name, such as ``all_reduce`` or ``alltoall``.
    ranks : int
        Number of ranks.
    count : int
        Elements as nccl-tests counts them: of a rank's array for broadcast, reduce and all_reduce;
        of a rank's block for all_gather, gather and reduce_scatter; for each peer in scatter and
        all_to_all. Not used by barrier and where parts are given.
    algorithm : str
        A name of the registry; levels such as ``level0:mesh;level1:ring``; or ``auto``: what the
        environment asks for (`ubnet.collectives.overrides`), else the least time on `fabric`, or
        the operation's first algorithm where no fabric is given.
    root : int
        The root of broadcast, reduce, gather and scatter.
    chunks : int
        Chunks of a block, for algorithms that pass blocks on.
    commutative : bool
        Whether a reduction may change the order of its operands.
    fabric : Fabric, optional
        Where it will run; for ``auto`` and for the levels.
    endpoints : ndarray of int64, shape (ranks,), optional
        The endpoint of every rank, by default the first ones.
    itemsize : int
        Bytes of an element; for ``auto``.
    transport, plane, op : str
        How the bytes will be moved; for ``auto``, as for `ubnet.collectives.choose`.
    parts : sequence, optional
        What each rank gives: for all_to_all_v its (sendcounts, sdispls, recvcounts, rdispls), for
        the other operations whose name ends in ``_v`` the elements of its block; needed there.
    grid : Grid, optional
        The levels, by default the nodes of `fabric`.

    Returns
    -------
    Schedule

    Raises
    ------
    OptionError
        If a number is outside of what is allowed or the operation is unknown.
    ScheduleError
        If the algorithm is unknown or cannot do what is asked.
    MismatchedCall
        If the parts of two ranks do not fit each other.

    Examples
    --------
    >>> build("allreduce", 4, 1000, algorithm="ring")
    <Schedule all_reduce ring: 4 ranks, 28 operations, 6 steps>
    """
    known = find(operation)
    _check(known, ranks, count, root, chunks, parts)
    asked, chunks = chunks, min(chunks, max(count, 1))
    places = np.arange(ranks) if endpoints is None else np.asarray(endpoints, dtype=np.int64)
    name, mean = algorithm, _mean_count(known, count, parts)
    if name == "auto":
        name = environment_override(known, known.size_of(mean, ranks, itemsize)) or name
    if name == "auto" and fabric is not None and ranks > 1:
        from .decision import decide

        name = decide(
            known.name,
            fabric,
            places,
            mean,
            itemsize,
            root=root,
            chunks=chunks,
            commutative=commutative,
            transport=transport,
            plane=plane,
            op=op,
        )
    elif name == "auto":
        name = known.candidates(commutative=commutative)[0]
    options: dict[str, Any] = {"root": root} if known.rooted else {}
    if name.startswith("level"):
        options["levels"] = levels_of(name)
        name = "hierarchical"
    make = known.algorithm(name, commutative=commutative)
    if name == "hierarchical":
        on_levels = fabric is not None and grid is None
        options["grid"] = grid_of(fabric, places) if on_levels else grid  # type: ignore[arg-type]
    if name in known.chunked:
        _check_chunks(known, name, ranks, chunks)
        options["chunks"] = chunks
    elif asked > 1 and algorithm != "auto":
        raise OptionError(
            f"{known.name} {name} sends no chunks: give chunks=1"
            + (f", or algorithm={known.chunked[0]!r}" if known.chunked else "")
        )
    return make(parts, **options) if parts is not None else make(ranks, count, **options)


def _check(
    known: Operation,
    ranks: int,
    count: int,
    root: int,
    chunks: int,
    parts: Sequence[Any] | None,
) -> None:
    if ranks < 1:
        raise OptionError(f"{known.name} on {ranks} ranks: give 1 or more")
    if count < 0:
        raise OptionError(f"{known.name} of {count} elements: give 0 or more")
    if known.rooted and not 0 <= root < ranks:
        raise OptionError(f"{known.name} with root {root}: give a rank from 0 to {ranks - 1}")
    if chunks < 1:
        raise OptionError(f"{known.name} in {chunks} chunks: give 1 or more")
    if (parts is None) == bool(known.uneven):
        only = "needs parts" if parts is None else "takes no parts, only operations in _v do"
        what = "(sendcounts, sdispls, recvcounts, rdispls)" if known.uneven != "ranks" else "count"
        raise OptionError(f"{known.name} {only}: the {what} of every rank")
    if parts is not None and len(parts) != ranks:
        raise OptionError(f"{known.name} on {ranks} ranks got {len(parts)} parts: give one a rank")


def _check_chunks(known: Operation, name: str, ranks: int, chunks: int) -> None:
    """Refuse so many chunks that the schedule alone would fill the memory."""
    each = ranks * (ranks if name == "ring" and not known.rooted else 1)
    if chunks > 1 and each * chunks > MOST_TRANSFERS:
        raise OptionError(
            f"{known.name} {name} on {ranks} ranks in {chunks} chunks: give 1 to "
            f"{max(MOST_TRANSFERS // each, 1)} chunks"
        )


def _mean_count(known: Operation, count: int, parts: Sequence[Any] | None) -> int:
    """Return the elements for a peer or of a block: of uneven parts the mean, rounded up."""
    if parts is None:
        return count
    if known.uneven == "ranks":
        return -(-int(np.sum(parts)) // len(parts))
    total = sum(int(np.sum(part[0])) for part in parts)
    return -(-total // len(parts) ** 2)
