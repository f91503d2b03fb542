"""Chains along the ring of the ranks: a piece of data that is passed on from rank to rank."""

from typing import NamedTuple

import numpy as np

from ubnet.schedule_builder import ScheduleBuilder

from .blocks import Ints, Pieces, pieces


class Chains(NamedTuple):
    """The hops of many chains, in columns that broadcast to the shape (hops, chains).

    Attributes
    ----------
    hop : ndarray of int64, shape (hops, 1)
        Number of the hop in its chain.
    step : ndarray of int64
        Number of the step; every chunk has steps of its own.
    src, dst : ndarray of int64
        The ranks that pass the piece on and receive it.
    before : ndarray of int64, shape (hops, chains, 1)
        What each hop waits for, -1 = nothing: the hop that brought its piece.
    """

    hop: Ints
    step: Ints
    src: Ints
    dst: Ints
    before: Ints

    def after(self, *more: Ints) -> Ints:
        """Return what each hop waits for, with further operations."""
        shape = self.before.shape[:2]
        columns = [np.broadcast_to(column, shape)[..., None] for column in more]
        return np.concatenate([self.before, *columns], axis=-1)


def chains(
    builder: ScheduleBuilder, first: Ints, hops: int, part: Pieces, chunks: int, *, stride: int = 0
) -> Chains:
    """Lay out one chain for every piece, to be added to `builder` next.

    A hop waits for the hop that brought its piece, not for other pieces that its rank sends: the
    builder's schedule is in order, so that engines take the pieces one after the other.

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
    shape = hops, len(first)
    hop = np.arange(hops)[:, None]
    number = len(builder) + np.arange(hops * len(first)).reshape(shape)
    brought = np.where(hop > 0, number - len(first), -1)
    src = (first + hop) % builder.ranks
    step = hop * (stride or chunks) + part.chunk
    return Chains(hop, step, src, (src + 1) % builder.ranks, brought[..., None])


def line(builder: ScheduleBuilder, first: int, count: int, chunks: int) -> tuple[Chains, Pieces]:
    """Lay out the way of one array from a rank to all the others around the ring, and its pieces.

    Parameters
    ----------
    builder, chunks
        As for `chains`.
    first : int
        The rank at which it starts.
    count : int
        Elements of the array.
    """
    part = pieces(np.zeros(1, dtype=np.int64), np.array([count]), chunks)
    start = np.full(len(part.block), first)
    return chains(builder, start, builder.ranks - 1, part, chunks, stride=1), part
