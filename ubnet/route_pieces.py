"""How routers put routes together: piece by piece, many flows at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ubnet.fabric import Floats, Ints, Routes
from ubnet.route_laying import for_flows, lay


@dataclass(frozen=True, slots=True)
class Piece:
    """The next stretch of some flows' routes.

    Attributes
    ----------
    rows : ndarray of int64, shape (m,)
        The flows that take it, each at most once.
    resource : ndarray of int64, shape (m, k)
        The `k` resources that it adds to each of them.
    share : float
        The share of the flow on each.
    """

    rows: Ints
    resource: Ints
    share: float = 1.0


def join_pieces(latency_ps: Ints, pieces: Sequence[Piece]) -> Routes:
    """Lay pieces one after the other; a flow without a piece gets an empty route.

    Parameters
    ----------
    latency_ps : ndarray of int64, shape (flows,)
        The latency of each flow's way.
    pieces : sequence of Piece
        In the order in which bytes pass them.

    Returns
    -------
    Routes

    Examples
    --------
    >>> both, first = np.array([0, 1]), np.array([0])
    >>> ports = Piece(both, np.array([[7], [8]]))
    >>> join_pieces(np.array([5, 6]), [ports, Piece(first, np.array([[1, 2]]), 0.5)])
    Routes(ptr=array([0, 3, 4]), resource=array([7, 1, 2, 8]),
           share=array([1. , 0.5, 0.5, 1. ]), latency_ps=array([5, 6]))
    """
    length = np.zeros(len(latency_ps), dtype=np.int64)
    for piece in pieces:
        length[piece.rows] += piece.resource.shape[1]
    ptr = np.concatenate([[0], np.cumsum(length)])
    cursor = ptr[:-1].copy()
    resource = np.empty(ptr[-1], dtype=np.int64)
    share = np.empty(ptr[-1])
    put = for_flows(lay, len(latency_ps))
    for piece in pieces:
        put(cursor, piece.rows, piece.resource, float(piece.share), resource, share)
    return Routes(ptr, resource, share, latency_ps)


def chain_routes(parts: Sequence[Routes]) -> Routes:
    """Chain routes of the same flows end to end: each flow passes part after part."""
    sizes = [np.diff(part.ptr) for part in parts]
    ptr = np.concatenate([[0], np.cumsum(np.sum(sizes, axis=0, dtype=np.int64))])
    resource: Ints = np.empty(ptr[-1], dtype=np.int64)
    share: Floats = np.empty(ptr[-1])
    cursor = ptr[:-1].copy()
    for part, size in zip(parts, sizes, strict=True):
        at = np.arange(len(part.resource)) + np.repeat(cursor - part.ptr[:-1], size)
        resource[at], share[at] = part.resource, part.share
        cursor += size
    latency: Ints = np.sum([part.latency_ps for part in parts], axis=0, dtype=np.int64)
    return Routes(ptr, resource, share, latency)
