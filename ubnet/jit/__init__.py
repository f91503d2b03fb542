"""How kernels are compiled, and what they are written in beside what Numba has itself.

The same numbers come out where nothing is compiled (``NUMBA_DISABLE_JIT=1``).
"""

from .counting import between, greater, lesser, upto
from .decorators import borrowing_kernel, inlined_kernel, inner_kernel, kernel, merged_kernel
from .first_rows import at, copy_row, first_row, of_row, skip
from .places import hand_over, together
from .prefetch import fetch

__all__ = [
    "at",
    "between",
    "borrowing_kernel",
    "copy_row",
    "fetch",
    "first_row",
    "greater",
    "hand_over",
    "inlined_kernel",
    "inner_kernel",
    "kernel",
    "lesser",
    "merged_kernel",
    "of_row",
    "skip",
    "together",
    "upto",
]
