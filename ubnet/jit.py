"""The one decorator of every Numba kernel: arrays in, arrays out, the same numbers everywhere."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a kernel with ubnet's settings.

    ``fastmath`` stays off, because results must be the same with the JIT on and off; the compiled
    code is cached on disk, so that only the first use after an installation compiles.

    Parameters
    ----------
    function : callable
        A function of arrays and scalars that Numba's nopython mode accepts.

    Returns
    -------
    callable
        The compiled dispatcher, or the function itself under ``NUMBA_DISABLE_JIT=1``.
    """
    return cast(F, numba.njit(cache=True, fastmath=False, nogil=True)(function))
