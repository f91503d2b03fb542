"""Tables and columns as kernels hand them on: by their first row, from which others are counted.

An array is seven words wherever it is passed, and its index may count from the end. The engine's
kernels pass most of their tables on, and look at little else: with arrays, long schedules took a
third longer, and everything a tenth longer to compile.
"""

from typing import Any

import numba
from numba.core import types
from numba.core.cgutils import raw_memmove

from .word import word

NOT_CONTIGUOUS = "rows are counted in C-contiguous arrays alone"


def row_of(kind: Any) -> Any:
    """Return the type of the first row of a table or column, given what its rows are."""
    return kind if isinstance(kind, types.Record) else types.CPointer(kind)


def refuse_gaps(array: Any) -> None:
    """Refuse an array whose rows do not follow each other."""
    if not array.flags.c_contiguous:
        raise ValueError(f"{array!r}: {NOT_CONTIGUOUS}")


def _refuse_layout(array: Any) -> None:
    """Refuse to compile for arrays whose rows need not follow each other."""
    if array.layout != "C":
        raise numba.TypingError(f"{array}: {NOT_CONTIGUOUS}")


def _find(typing_context: Any, first: Any, index: Any) -> Any:
    """Compile the step from the first row of a table to another."""
    if not isinstance(first, types.Record):
        raise numba.TypingError(f"{first}: `at` finds rows of tables; columns are indexed")
    return _skip(typing_context, first, index)


def _skip(typing_context: Any, first: Any, index: Any) -> Any:
    """Compile the step from the first row of a table or column to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]], inbounds=True)

    return first(first, numba.int64), generate


def _take(typing_context: Any, array: Any) -> Any:
    """Compile the way from an array to its first row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(array)(context, builder, arguments[0]).data

    _refuse_layout(array)
    return row_of(array.dtype)(array), generate


def _take_value(typing_context: Any, column: Any, row: Any) -> Any:
    """Compile what a column, one row of which stands for all, has in a row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        its = context.make_array(column)(context, builder, arguments[0])
        one = builder.icmp_signed("==", its.nitems, its.nitems.type(1))
        index = builder.select(one, arguments[1].type(0), arguments[1])
        place = builder.gep(its.data, [index], inbounds=True)
        return context.unpack_value(builder, column.dtype, place)

    _refuse_layout(column)
    return column.dtype(column, numba.int64), generate


def _copy(typing_context: Any, source: Any, target: Any) -> Any:
    """Compile the copy of a row's contents into another."""
    if source != target:
        raise numba.TypingError(f"{source} and {target}: rows are copied within a table")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = context.get_constant(types.intp, 1)
        raw_memmove(builder, arguments[1], arguments[0], one, source.size)
        return context.get_dummy_value()

    return types.void(source, target), generate


def _look_up(table: Any, index: Any) -> Any:
    """Return a row of a table; where nothing is compiled, that is handed on as it is."""
    if index < 0:
        raise IndexError(f"row {index} of a table; rows count from 0")
    return table[index]


def _hand_on(array: Any) -> Any:
    """Return what an array holds, one after the other; what is written to it is in the array."""
    refuse_gaps(array)
    return array.reshape(-1)


def _go_on(first: Any, n: Any) -> Any:
    """Return what begins n rows on."""
    if n < 0:
        raise IndexError(f"row {n} of a column; rows count from 0")
    return first[n:]


def _write_into(source: Any, target: Any) -> None:
    """Copy the columns of a row into those of another."""
    for name in source.dtype.names:
        target[name] = source[name]


def _look_up_value(column: Any, row: Any) -> Any:
    """Return what a column has in a row; one row stands for all."""
    refuse_gaps(column)
    return _look_up(column, 0 if len(column) == 1 else row)


at = word(_find, _look_up)
first_row = word(_take, _hand_on)
copy_row = word(_copy, _write_into)
skip = word(_skip, _go_on)
of_row = word(_take_value, _look_up_value)
