"""A plan: what a transfer moves, merged, cut into the chunks that are posted one after the other.

Chunks are what makes a transfer that can be stopped: only one of them is in flight at a time, its
bytes are written when it ends, and stopping means that no further one is posted.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError

from .blocks import first_overlap, first_read_of_written
from .copying import copy_blocks
from .regions import Regions

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """What a transfer moves, ready to be posted any number of times.

    Attributes
    ----------
    rows : ndarray of int64, shape (pieces, 3)
        Source address, target address and length of each run, cut where a chunk ends.
    first : ndarray of int64, shape (chunks + 1,)
        Chunk ``k`` holds the rows ``first[k]`` to ``first[k + 1]``.
    chunk_bytes, chunk_messages : ndarray of int64, shape (chunks,)
        Bytes of each chunk, and the messages that begin in it.
    descriptors : int
        Runs as they were listed.
    sources, targets : Regions or None
        The memory; None for a plan of sizes alone.
    regions : ndarray of int64, shape (pieces, 2)
        The numbers of the regions that each row reads and writes.
    """

    rows: Ints
    first: Ints
    chunk_bytes: Ints
    chunk_messages: Ints
    descriptors: int
    sources: tuple[NDArray[np.uint8], ...] | None
    targets: tuple[NDArray[np.uint8], ...] | None
    regions: Ints

    @property
    def nbytes(self) -> int:
        """Bytes in all."""
        return int(self.chunk_bytes.sum())

    @property
    def messages(self) -> int:
        """Messages in all: runs after merging."""
        return int(self.chunk_messages.sum())

    @property
    def chunks(self) -> int:
        """Chunks; a plan of no bytes has one of none."""
        return len(self.chunk_bytes)

    def write(self, chunk: int) -> None:
        """Copy the bytes of a chunk from source to target."""
        if self.sources is None or self.targets is None:
            return
        rows = self.rows[self.first[chunk] : self.first[chunk + 1]]
        pairs = self.regions[self.first[chunk] : self.first[chunk + 1]]
        cuts = np.flatnonzero((pairs[1:] != pairs[:-1]).any(axis=1)) + 1
        for part, pair in zip(np.split(rows, cuts), np.split(pairs, cuts), strict=True):
            if len(part):
                source, target = self.sources[pair[0, 0]], self.targets[pair[0, 1]]
                offsets = part - np.array([source.ctypes.data, target.ctypes.data, 0])
                copy_blocks(offsets, source, target)


def plan_rows(
    rows: Ints, sources: Regions, targets: Regions, *, chunk_bytes: int, merge: bool = True
) -> Plan:
    """Plan the transfer of runs of registered memory.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, 3)
        Source address, target address, length.
    sources, targets : Regions
        The registered memory of both sides.
    chunk_bytes : int
        The largest chunk.
    merge : bool
        Whether runs that are neighbours on both sides become one message.

    Raises
    ------
    CapacityExceeded
        If a run is not inside registered memory.
    OptionError
        If two runs write the same byte, or one reads what another one writes.
    """
    read, written = (
        regions.locate(rows[:, column], rows[:, 2])
        for column, regions in ((0, sources), (1, targets))
    )
    order = np.flatnonzero(rows[:, 2])
    # No two targets are equal, or they are refused below: any sort gives the same order.
    order = order[np.argsort(rows[order, 1])]
    runs = rows.take(order, axis=0)
    pairs = np.stack([read.take(order), written.take(order)], axis=1)
    _refuse_clashes(rows, runs)
    _refuse_read_only(targets, pairs[:, 1])
    if merge and len(runs):
        runs, pairs = _merged(runs, pairs)
    if len(pairs) and len(targets) > 1 and len(sources) > 1:
        # Rows in order of target change their source region often; a chunk copies pair by pair.
        by_pair = np.lexsort((pairs[:, 1], pairs[:, 0]))
        runs, pairs = runs[by_pair], pairs[by_pair]
    return _cut(
        runs,
        pairs,
        chunk_bytes,
        descriptors=len(rows),
        sources=sources.memories(),
        targets=targets.memories(),
    )


def plan_bytes(nbytes: int, messages: int = 1, *, chunk_bytes: int | None = None) -> Plan:
    """Plan a transfer of so many bytes of no memory, for its time alone.

    >>> plan_bytes(10, chunk_bytes=4).chunk_bytes.tolist()
    [4, 4, 2]
    """
    if nbytes < 0 or messages < 1:
        raise OptionError(
            f"a transfer has 0 bytes or more in 1 message or more, not {nbytes} in {messages}"
        )
    size = chunk_bytes or max(nbytes, 1)
    ends = np.minimum(np.arange(1, max(-(-nbytes // size), 1) + 1) * size, nbytes)
    # Messages are spread evenly over the chunks; the first has at least one.
    sent = -(-messages * np.arange(1, len(ends) + 1) // len(ends))
    none = np.zeros((0, 3), dtype=np.int64)
    return Plan(
        rows=none,
        first=np.zeros(len(ends) + 1, dtype=np.int64),
        chunk_bytes=np.diff(ends, prepend=0),
        chunk_messages=np.diff(sent, prepend=0),
        descriptors=messages,
        sources=None,
        targets=None,
        regions=none[:, :2],
    )


def _merged(runs: Ints, pairs: Ints) -> tuple[Ints, Ints]:
    """Join runs that are neighbours on both sides and lie in one region of each."""
    ends = runs[:-1, :2] + runs[:-1, 2:]
    joined = (runs[1:, 0] == ends[:, 0]) & (runs[1:, 1] == ends[:, 1])
    joined &= (pairs[1:, 0] == pairs[:-1, 0]) & (pairs[1:, 1] == pairs[:-1, 1])
    first = np.flatnonzero(np.concatenate([[True], ~joined]))
    if len(first) == len(runs):
        return runs, pairs
    merged = runs.take(first, axis=0)
    merged[:, 2] = np.add.reduceat(runs[:, 2], first)
    return merged, pairs.take(first, axis=0)


def _cut(
    runs: Ints,
    pairs: Ints,
    chunk_bytes: int,
    *,
    descriptors: int,
    sources: tuple[NDArray[np.uint8], ...],
    targets: tuple[NDArray[np.uint8], ...],
) -> Plan:
    """Cut runs where a chunk ends, and count what each chunk holds."""
    ends = np.cumsum(runs[:, 2])
    total = int(ends[-1]) if len(ends) else 0
    edges = np.append(np.arange(0, total, chunk_bytes), total) if total else np.zeros(2, np.int64)
    begins = ends - runs[:, 2]
    inner = edges[1:-1]
    place = np.searchsorted(begins, inner)
    inside = begins[np.minimum(place, len(begins) - 1)] != inner if len(begins) else inner > 0
    starts = np.insert(begins, place[inside], inner[inside])
    owner = np.searchsorted(begins, starts, side="right") - 1
    into = starts - begins[owner]
    rows = runs.take(owner, axis=0)
    rows[:, :2] += into[:, None]
    rows[:, 2] = np.diff(starts, append=total)
    first = np.searchsorted(starts, edges)
    first[-1] = len(rows)
    begun = np.concatenate([[0], np.cumsum(into == 0)])
    return Plan(
        rows=rows,
        first=first,
        chunk_bytes=np.diff(edges),
        chunk_messages=np.diff(begun[first]),
        descriptors=descriptors,
        sources=sources,
        targets=targets,
        regions=pairs.take(owner, axis=0),
    )


def _refuse_clashes(rows: Ints, runs: Ints) -> None:
    """Refuse runs that write what another one writes or reads: who came first would be chance."""
    if ((runs[1:, 1]) < runs[:-1, 1] + runs[:-1, 2]).any():
        i, j = first_overlap(rows[:, 1], rows[:, 2]) or (0, 0)
        raise OptionError(
            f"descriptors {i} and {j} write the same bytes of the target: give each a place of "
            "its own"
        )
    crossing = first_read_of_written(runs[:, 0], runs[:, 1], runs[:, 2])
    if crossing is not None:
        i, j = crossing
        raise OptionError(
            f"a descriptor reads bytes at address {runs[i, 0]} that another one writes (address "
            f"{runs[j, 1]}): run them one after the other, or between two memories"
        )


def _refuse_read_only(targets: Regions, written: Ints) -> None:
    for number in np.flatnonzero(np.bincount(written)).tolist():
        if not targets[number].memory.flags.writeable:
            raise OptionError(
                f"registered memory of {targets.owner} at {targets[number].address} is read-only "
                "and cannot be a target: register an array that may be written"
            )
