"""Blocks of uneven length, one a rank, in rank order."""

from collections.abc import Sequence

import numpy as np

from ubnet.errors import OptionError

from .work import Team


def blocks(counts: Sequence[int]) -> Team:
    """Return all ranks as one team whose blocks have so many elements.

    >>> blocks([2, 0, 1]).start.tolist()
    [[0, 2, 2]]

    Raises
    ------
    OptionError
        If a count is negative.
    """
    size = np.asarray(counts, dtype=np.int64)
    if len(size) == 0 or (size < 0).any():
        raise OptionError(f"counts are {size[:8].tolist()}: give one number >= 0 for each rank")
    ranks = np.arange(len(size))
    return Team(ranks[None, :], (np.cumsum(size) - size)[None, :], size[None, :])
