"""Blocks between the ranks of a running program, in one process or under mpirun.

The transfer engines live in one process, beside a serving simulator. In a program of ranks the
bytes are on the ranks, perhaps in different processes: here every rank says what it writes into
whose memory, and the ranks' own messages carry it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ubnet.errors import OptionError
from ubnet.rank import Rank, current

from .blocks import BlockList, as_bytes, first_overlap
from .copying import copy_blocks

CONTEXT = 0x4B56
"""Keeps these messages apart from those of the program's communicators."""


def write_to_ranks(
    moves: Sequence[tuple[int, BlockList]],
    source: NDArray[np.generic],
    target: NDArray[np.generic],
    *,
    rank: Rank | None = None,
) -> int:
    """Write blocks of one's memory into that of other ranks; every rank of the world calls this.

    What goes where is told at no virtual time, as engines exchange descriptors once; the bytes of
    a pair travel as one message.

    Parameters
    ----------
    moves : sequence of (int, BlockList)
        The rank that is written to, and what: offsets are in `source` here and in `target` there.
    source, target : ndarray
        What this rank gives, and what others write into; contiguous, and apart from each other.
    rank : Rank, optional
        Who calls; default the rank that is running.

    Returns
    -------
    int
        Bytes that were written into `target`.

    Raises
    ------
    OptionError
        If two ranks write the same bytes, or there is no such rank.
    CapacityExceeded
        If a block reaches beyond a memory.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> from ubnet.world import World, WorldOptions
    >>> def main(rank):
    ...     mine, into = np.full(4, rank.number, np.uint8), np.zeros(4, np.uint8)
    ...     write_to_ranks([(1 - rank.number, BlockList([(0, 2, 2)]))], mine, into)
    ...     return into.tolist()
    >>> World(load_fabric("cloudmatrix64"), 2, "die", WorldOptions()).run(main).values
    [[0, 0, 1, 1], [0, 0, 0, 0]]
    """
    me = rank if rank is not None else current()
    read, written = as_bytes(source), as_bytes(target)
    everyone = tuple(range(me.host.size))
    for peer, blocks in moves:
        if peer not in everyone:
            raise OptionError(f"rank {peer} is written to, but ranks are 0 to {len(everyone) - 1}")
        blocks.check(len(read), blocks.target_end)
    told = me.exchange(CONTEXT, everyone, [(peer, b.rows) for peer, b in moves], "write_to_ranks")
    incoming = [
        (sender, rows)
        for sender, lists in enumerate(told)
        for peer, rows in lists
        if peer == me.number
    ]
    _check_incoming(incoming, len(written))
    pendings, staged = [], []
    for number, (sender, rows) in enumerate(incoming):
        staged.append(np.zeros(int(rows[:, 2].sum()), dtype=np.uint8))
        tag = sum(other == sender for other, _ in incoming[:number])
        pendings.append(me.irecv(sender, tag, CONTEXT, staged[-1]))
    sent: dict[int, int] = {}
    for peer, blocks in moves:
        packed = np.zeros(blocks.nbytes, dtype=np.uint8)
        copy_blocks(_packing(blocks.rows), read, packed)
        pendings.append(me.isend(peer, sent.get(peer, 0), CONTEXT, packed))
        sent[peer] = sent.get(peer, 0) + 1
    me.wait(pendings)
    for (_, rows), packed in zip(incoming, staged, strict=True):
        place = _packing(rows)[:, 1]
        copy_blocks(np.stack([place, rows[:, 1], rows[:, 2]], axis=1), packed, written)
    return sum(len(packed) for packed in staged)


def _packing(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the same rows with the targets one behind the other."""
    packed = rows.copy()
    packed[:, 1] = np.cumsum(rows[:, 2]) - rows[:, 2]
    return packed


def _check_incoming(incoming: list[tuple[int, NDArray[np.int64]]], room: int) -> None:
    """Refuse what two ranks write to the same place, and what does not fit."""
    for _, rows in incoming:
        BlockList(rows).check(int((rows[:, 0] + rows[:, 2]).max(initial=0)), room)
    rows = np.concatenate([np.zeros((0, 3), np.int64), *(r for _, r in incoming)])
    clash = first_overlap(rows[:, 1], rows[:, 2])
    if clash is not None:
        owner = np.repeat([sender for sender, _ in incoming], [len(r) for _, r in incoming])
        i, j = owner[list(clash)]
        raise OptionError(
            f"ranks {i} and {j} write the same bytes of one memory: give each a place of its own"
        )
