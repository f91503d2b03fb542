"""One-sided accesses: what one does to a window's memory, and the posts of windows and locks.

A post holds numbers only. What an access does, its bytes included, goes from the origin's process
straight to the target's, which carries it out when the clock says that it takes effect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.phantom import Phantom

Combine = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

EVERYBODY = -1
"""In the place of a lock's target: all members of the window."""


@dataclass(frozen=True, slots=True)
class Access:
    """What an access does to the memory of its target.

    Attributes
    ----------
    offset, span : int
        The first byte it touches, from the start of the window, and how far it reaches.
    places : ndarray of int64, or None
        Which bytes of the span it touches, in the order of the wire; None: all.
    data : bytes or Phantom, optional
        What it brings; None where it only looks.
    fetch : bool
        Whether it returns what stood there before.
    combine : str, callable or None
        ``combine(held, data)`` is stored, as `ubnet.replay.replay` takes it, and picklable; None:
        the data replace what is held.
    dtype : str or list
        The elements that are combined, as `numpy.dtype` takes them.
    compare : bytes, optional
        Store only where these bytes are held.
    ordered : bool
        Whether it takes effect after the ordered ones of the same origin before it.
    """

    offset: int
    span: int
    places: NDArray[np.int64] | None = None
    data: bytes | Phantom | None = None
    fetch: bool = False
    combine: str | Combine | None = None
    dtype: Any = "u1"
    compare: bytes | None = None
    ordered: bool = False

    @property
    def touched(self) -> int:
        """How many bytes of the target it touches."""
        return self.span if self.places is None else len(self.places)

    @property
    def brings(self) -> int:
        """How many bytes travel to the target."""
        if self.data is None:
            return 0
        size = self.data.nbytes if isinstance(self.data, Phantom) else len(self.data)
        return size + len(self.compare or b"")


PUT, GET, ATOMIC = "put", "get", "atomic"
"""The ways of an access: a remote write; a remote read; a message there and one back."""


class Reach(NamedTuple):
    """An access; `local` numbers its end at the origin (-1: that of the whole)."""

    rank: int
    number: int
    kind: int
    local: int
    window: int
    target: int
    way: str
    brings: int
    returns: int
    ordered: bool
    answer: bool
    wire: int


class Lock(NamedTuple):
    """The wish for a lock; `home` is the rank that it is asked of."""

    rank: int
    number: int
    kind: int
    window: int
    target: int
    exclusive: bool
    home: int


class Unlock(NamedTuple):
    """The end of a lock."""

    rank: int
    number: int
    kind: int
    window: int
    target: int
    home: int


class Effect(NamedTuple):
    """The order to carry out an access now; `answer` says whether its origin waits for a word."""

    rank: int
    number: int
    window: int
    target: int
    answer: bool
    wire: int
