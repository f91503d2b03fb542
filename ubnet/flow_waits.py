"""What each flow of a schedule waits for: what is known to have ended anyway is left out."""

import numpy as np
from numpy.typing import NDArray

from ubnet.compressed_rows import pointers, row_lengths
from ubnet.engine_order import EngineOrder
from ubnet.memory_pass import MemoryPasses
from ubnet.schedule import Schedule
from ubnet.transport import WRITE

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def flow_waits(
    schedule: Schedule, passes: MemoryPasses, done: Ints, order: EngineOrder, op: str
) -> tuple[Ints, Ints]:
    """Return what every flow waits for, in compressed rows: operations, passes, ends of ranks.

    Parameters
    ----------
    schedule : Schedule
        What is done.
    passes : MemoryPasses
        Its memory passes.
    done : ndarray of int64, shape (operations,)
        The flow with which each operation has ended.
    order : EngineOrder
        Which transfers' bytes follow which.
    op : {"write", "read"}
        Who drives each transfer.
    """
    s = schedule
    lengths = np.diff(s.dep_ptr)
    given = (lengths == 0) & ~s.transfers & ~s.reduces
    awaited_by_src, awaited_by_dst, own = _awaited(s, lengths)
    (awaited_by_src if op == WRITE else awaited_by_dst)[order.earlier] = True
    end_ptr, end_dep = _rank_ends(s, passes, awaited_by_src | given, awaited_by_dst | given)
    # What is there from the beginning on one of a flow's own ranks need not be waited for.
    needed = ~(own & given[s.dep])
    arrived = passes.member[np.argsort(passes.number, kind="stable")]
    rows = [
        row_lengths(s.dep_ptr, needed),
        np.bincount(passes.number, minlength=len(passes.rank)),
        np.diff(end_ptr),
    ]
    dep = np.concatenate([done[s.dep[needed]], arrived, end_dep])
    return pointers(np.concatenate(rows)), dep


def _awaited(schedule: Schedule, lengths: Ints) -> tuple[Mask, Mask, Mask]:
    """Return for which operations another one of the same rank waits, and a mask of dependencies.

    The first mask is for the source of each operation, the second for its destination; the third
    says which dependencies are on an operation whose source takes part in what waits.
    """
    s = schedule
    narrow = np.min_scalar_type(s.ranks)
    ends = s.src.astype(narrow), s.dst.astype(narrow)
    later = [np.repeat(end, lengths) for end in ends]
    masks = []
    for end in ends:
        rank = end[s.dep]
        same = (rank == later[0]) | (rank == later[1])
        awaited = np.zeros(len(s), dtype=bool)
        awaited[s.dep[same]] = True
        masks += [awaited, same]
    return masks[0], masks[2], masks[1]


def _rank_ends(
    schedule: Schedule, passes: MemoryPasses, awaited_by_src: Mask, awaited_by_dst: Mask
) -> tuple[Ints, Ints]:
    """Return which flows each rank's end waits for, in compressed rows.

    A flow for which another one of the same rank waits need not be waited for twice.
    """
    s = schedule
    sent = np.flatnonzero(~awaited_by_src)
    received = np.flatnonzero(~awaited_by_dst & ~s.reduces & (s.src != s.dst))
    awaited_passes = np.zeros(len(passes.rank), dtype=bool)
    awaited_passes[passes.number[awaited_by_dst[passes.member]]] = True
    open_passes = np.flatnonzero(~awaited_passes)
    rank = np.concatenate([s.src[sent], s.dst[received], passes.rank[open_passes]])
    flow = np.concatenate([sent, received, len(s) + open_passes])
    # Numbers of two bytes are sorted much faster.
    order = np.argsort(rank.astype(np.min_scalar_type(s.ranks)), kind="stable")
    return pointers(np.bincount(rank, minlength=s.ranks)), flow[order]
