"""Workloads that are not the same on all ranks: uneven token counts, late arrivals."""

import numpy as np

from ubnet.errors import OptionError
from ubnet.fabric import Ints


def uneven_tokens(tokens: int, spread: float, ranks: int, generator: np.random.Generator) -> Ints:
    """Draw the tokens of each rank, evenly between ``1 - spread`` and ``1 + spread`` of `tokens`.

    Parameters
    ----------
    tokens : int
        The middle.
    spread : float
        0 to 1; 0: all ranks have the same.
    ranks : int
        Number of ranks.
    generator : numpy.random.Generator
        Where the numbers come from.

    Examples
    --------
    >>> uneven_tokens(100, 0.5, 4, np.random.default_rng(0)).tolist()
    [114, 77, 54, 52]
    """
    if not 0 <= spread <= 1:
        raise OptionError(f"token counts are spread by {spread}; give 0 to 1, such as 0.5")
    drawn: Ints = np.rint(tokens * (1 + spread * generator.uniform(-1, 1, ranks))).astype(np.int64)
    return drawn


def late_starts(most_ps: int, ranks: int, generator: np.random.Generator) -> Ints:
    """Draw when each rank calls, evenly between 0 and `most_ps`; the first calls at 0.

    >>> late_starts(1000, 3, np.random.default_rng(0)).tolist()
    [340, 126, 0]
    """
    if most_ps < 0:
        raise OptionError(f"ranks come late by {most_ps} ps at most; give 0 or more")
    drawn = generator.integers(0, most_ps + 1, ranks)
    starts: Ints = (drawn - drawn.min()).astype(np.int64)
    return starts
