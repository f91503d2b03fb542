"""What each flow of a schedule waits for: what is known to have ended anyway is left out."""

import numpy as np
from numpy.typing import NDArray

from ubnet.compressed_rows import pointers
from ubnet.engine_order import EngineOrder
from ubnet.jit import kernel
from ubnet.memory_pass import MemoryPasses
from ubnet.schedule import Schedule
from ubnet.transport import WRITE

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def flow_waits(
    schedule: Schedule, passes: MemoryPasses, done: Ints, order: EngineOrder, op: str
) -> tuple[Ints, Ints, Mask]:
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

    Returns
    -------
    ptr, dep : ndarray of int64
    gate : ndarray of bool, shape of `dep`
        Those that hold back the bytes alone: the order.
    """
    s = schedule
    given = (np.diff(s.dep_ptr) == 0) & ~s.transfers & ~s.reduces
    ptr, dep, gate, *awaited = _op_waits(
        s.dep_ptr, s.dep, s.src, s.dst, given, done, order.count, order.earlier
    )
    awaited[0 if op == WRITE else 1][order.earlier] = True
    end_ptr, end_dep = _rank_ends(s, passes, *(mask | given for mask in awaited))
    arrived = passes.member[np.argsort(passes.number, kind="stable")]
    sizes = np.bincount(passes.number, minlength=len(passes.rank))
    rows = [np.diff(ptr), sizes, np.diff(end_ptr)]
    dep = np.concatenate([dep, arrived, end_dep])
    gates = np.zeros(len(dep), dtype=bool)
    gates[: len(gate)] = gate
    return pointers(np.concatenate(rows)), dep, gates


@kernel
def _op_waits(
    dep_ptr: Ints,
    dep: Ints,
    src: Ints,
    dst: Ints,
    given: Mask,
    done: Ints,
    follows: Ints,
    earlier: Ints,
) -> tuple[Ints, Ints, Mask, Mask, Mask]:
    """Return what the operations wait for, its gates, and who is awaited on its own ranks.

    What is given from the beginning on one of an operation's ranks is not waited for. The last two
    say for which operations another one of the same rank waits: of the source, the destination.
    """
    ptr = np.zeros(len(src) + 1, np.int64)
    made = np.empty(len(dep) + len(earlier), np.int64)
    gate = np.zeros(len(made), np.bool_)
    by_src, by_dst = np.zeros(len(src), np.bool_), np.zeros(len(src), np.bool_)
    at, taken = 0, 0
    for op in range(len(src)):
        for j in range(dep_ptr[op], dep_ptr[op + 1]):
            before = dep[j]
            of_src = src[before] == src[op] or src[before] == dst[op]
            by_src[before] |= of_src
            by_dst[before] |= dst[before] == src[op] or dst[before] == dst[op]
            if not (of_src and given[before]):
                made[at] = done[before]
                at += 1
        for _ in range(follows[op]):
            made[at] = earlier[taken]
            gate[at] = True
            at += 1
            taken += 1
        ptr[op + 1] = at
    return ptr, made[:at], gate[:at], by_src, by_dst


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
