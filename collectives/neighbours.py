"""Edges between neighbours: the common ground of the neighbourhood operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ubnet.errors import MismatchedCall
from ubnet.schedule import Schedule
from ubnet.schedule_builder import ScheduleBuilder

from .blocks import Ints


@dataclass(frozen=True, eq=False)
class Side:
    """One end of all edges.

    Attributes
    ----------
    rank, peer, label : ndarray of int64
        Who has the edge, with whom, and what tells it apart from others of the two.
    count, start : ndarray of int64
        Elements, and where they stand in the rank's buffer.
    """

    rank: Ints
    peer: Ints
    label: Ints
    count: Ints
    start: Ints

    @classmethod
    def of(cls, columns: Sequence[Sequence[Any]]) -> "Side":
        """Join the ranks' own columns (peers, labels, counts, starts); peers < 0 are nobody."""
        rank = np.repeat(np.arange(len(columns)), [len(column[0]) for column in columns])
        rows = [np.concatenate([np.asarray(c[i], dtype=np.int64) for c in columns]) for i in COLUMN]
        there = rows[0] >= 0
        return cls(rank[there], *(row[there] for row in rows))

    def sizes(self, ranks: int) -> Ints:
        """Return the elements that every rank's buffer must have."""
        found = np.zeros(ranks, dtype=np.int64)
        np.maximum.at(found, self.rank, np.where(self.count > 0, self.start + self.count, 0))
        return found


COLUMN = range(4)


def paired(parts: Sequence[Sequence[Any]], operation: str) -> tuple[Side, Side, Ints, Ints]:
    """Find the two ends of every edge.

    Parameters
    ----------
    parts : sequence of (outward, inward)
        What every rank gives, each side as columns (peers, labels, counts, starts); the n-th edge
        of a label from one rank to another is the n-th of that label there.
    operation : str
        Its name, for errors.

    Returns
    -------
    outward, inward : Side
        Both ends.
    sends, receives : ndarray of int64
        Edge k leads from ``outward[sends[k]]`` to ``inward[receives[k]]``.

    Raises
    ------
    MismatchedCall
        If a rank has an edge that its neighbour does not have.
    """
    outward, inward = Side.of([part[0] for part in parts]), Side.of([part[1] for part in parts])
    sends = np.lexsort((outward.label, outward.peer, outward.rank))
    receives = np.lexsort((inward.label, inward.rank, inward.peer))
    ends = [
        np.stack([outward.rank, outward.peer, outward.label])[:, sends],
        np.stack([inward.peer, inward.rank, inward.label])[:, receives],
    ]
    if ends[0].shape != ends[1].shape or (ends[0] != ends[1]).any():
        raise MismatchedCall(_unlike(ends[0].T.tolist(), ends[1].T.tolist(), operation))
    return outward, inward, sends, receives


def mesh(parts: Sequence[Sequence[Any]], operation: str) -> Schedule:
    """Let every rank write to all its neighbours in one step.

    Raises
    ------
    MismatchedCall
        If two ends of an edge differ.
    """
    outward, inward, sends, receives = paired(parts, operation)
    count, expected = outward.count[sends], inward.count[receives]
    src, dst = outward.rank[sends], inward.rank[receives]
    wrong = np.flatnonzero(count != expected)
    if len(wrong):
        k = int(wrong[0])
        raise MismatchedCall(
            f"{operation}: rank {src[k]} sends {count[k]} elements to its neighbour {dst[k]}, "
            f"which expects {expected[k]} from it; both must be equal"
        )
    sizes = np.zeros((len(parts), 3), dtype=np.int64)
    sizes[:, 0], sizes[:, 1] = outward.sizes(len(parts)), inward.sizes(len(parts))
    builder = ScheduleBuilder(f"{operation} mesh", len(parts), sizes)
    some = count > 0
    starts = outward.start[sends][some], inward.start[receives][some]
    builder.add(0, src[some], dst[some], *starts, count[some])
    return builder.build()


def _unlike(sent: list[list[int]], received: list[list[int]], operation: str) -> str:
    """Say which edge one rank has and the other does not."""
    for src, dst, label in sent:
        if sent.count([src, dst, label]) != received.count([src, dst, label]):
            return (
                f"{operation}: rank {src} has an edge to rank {dst}, which has none from it; "
                "every edge must stand at both its ends"
            )
    src, dst, _ = next(edge for edge in received if edge not in sent)
    return (
        f"{operation}: rank {dst} has an edge from rank {src}, which has none to it; "
        "every edge must stand at both its ends"
    )
