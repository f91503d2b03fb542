"""Chains along the ring of the ranks: a piece of data that is passed on from rank to rank."""

from typing import NamedTuple

import numpy as np

from ubnet.schedule import ScheduleBuilder

from .blocks import Ints, Pieces


class Chains(NamedTuple):
    """The hops of many chains, each column of shape (hops, chains) or broadcast to it.

    Attributes
    ----------
    hop : ndarray of int64, shape (hops, 1)
        Number of the hop in its chain.
    step : ndarray of int64
        Number of the step; every chunk has steps of its own.
    src, dst : ndarray of int64
        The ranks that pass the piece on and receive it.
    before : ndarray of int64
        The operation that each hop waits for, -1 = none.
    """

    hop: Ints
    step: Ints
    src: Ints
    dst: Ints
    before: Ints


def chains(
    builder: ScheduleBuilder, first: Ints, hops: int, part: Pieces, chunks: int, *, stride: int = 0
) -> Chains:
    """Lay out one chain for every piece, to be added to `builder` next.

    A hop waits for the hop that brought its piece, not for the rank's own earlier send: the engine
    shares itself out. Only the first hops of a block's chunks wait for each other, because
    flows that start together also end together, and chunks are to be apart in time.

    Parameters
    ----------
    builder : ScheduleBuilder
        The schedule; its next operations are to be these hops, row by row.
    first : ndarray of int64, shape (chains,)
        The rank at which each chain starts.
    hops : int
        Hops of every chain.
    part : Pieces
        The pieces that travel.
    chunks : int
        Chunks of a block.
    stride : int, optional
        Step numbers between two hops; by default `chunks`.
    """
    hop = np.arange(hops)[:, None]
    src = (first + hop) % builder.ranks
    number = np.arange(hops * len(first)).reshape(hops, len(first)) + len(builder)
    before = number - len(first)
    if hops:
        before[0] = np.where(part.chunk > 0, number[0] - 1, -1)
    step = hop * (stride or chunks) + part.chunk
    return Chains(hop, step, src, (src + 1) % builder.ranks, before)
