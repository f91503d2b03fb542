"""A word that kernels are written in beside those that Numba has."""

from collections.abc import Callable
from typing import Any

import numba
from numba.extending import intrinsic

COMPILES: bool = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


def word(meaning: Callable[..., Any], plain: Callable[..., Any]) -> Any:
    """Return a word of kernels.

    Parameters
    ----------
    meaning : callable
        Takes Numba's typing context and the types of the word's arguments, and returns the
        signature and what writes the word down for LLVM, as `numba.extending.intrinsic` wants it.
    plain : callable
        What does the same where nothing is compiled.
    """
    return intrinsic(meaning) if COMPILES else plain
