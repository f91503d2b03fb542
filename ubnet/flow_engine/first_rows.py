"""Tables as kernels hand them on: by their first row, from which every other is counted.

An array is seven words wherever it is passed, and its index may count from the end. The engine's
kernels pass most of their tables on, and look at little else: with arrays, long schedules took a
third longer.
"""

from typing import Any

import numba
from numba.extending import intrinsic

from .state import Int, Row, Table


def _find(typing_context: Any, first: Any, index: Any) -> Any:
    """Compile the step from the first row of a table to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]], inbounds=True)

    return first(first, numba.int64), generate


def _take(typing_context: Any, table: Any) -> Any:
    """Compile the way from an array to its first row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(table)(context, builder, arguments[0]).data

    return table.dtype(table), generate


def _look_up(table: Table, index: Int) -> Row:
    """Return a row of a table; where nothing is compiled, that is handed on as it is."""
    if index < 0:
        raise IndexError(f"row {index} of a table; rows count from 0")
    return table[index]


def _hand_on(table: Table) -> Table:
    """Return the table."""
    return table


compiles = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
at: Any = intrinsic(_find) if compiles else _look_up
first_row: Any = intrinsic(_take) if compiles else _hand_on
