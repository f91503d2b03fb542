"""Tables that a kernel gets all together: by one array that says where each of them lies.

Python unpacks every array that it hands to a kernel: for the engine's 15 tables that took longer
than to end a flow, and a good part of what it takes to compile a kernel.
"""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba.core import types

from .first_rows import first_row, refuse_gaps, row_of
from .word import COMPILES, word


def hand_over(tables: Sequence[Any]) -> Any:
    """Return what kernels take in place of tables: where the first row of each is.

    Whoever hands them over keeps them until kernels have done with them, and hands all over anew
    where one is replaced. Where nothing is compiled, kernels get the tables themselves.
    """
    for table in tables:
        refuse_gaps(table)
    if not COMPILES:
        return tuple(tables)
    return np.array([table.ctypes.data for table in tables])


def together(rows: Any) -> Any:
    """Return what finds tables in a kernel, given what `hand_over` returned.

    ``rows`` is a named tuple of what the rows of each table are (dtype); that of the tables' first
    rows is of the same kind.
    """
    named = type(rows)

    def find(typing_context: Any, where: Any) -> Any:
        kinds = [row_of(numba.from_dtype(row)) for row in rows]

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            places = context.make_array(where)(context, builder, arguments[0]).data
            found = []
            for k, kind in enumerate(kinds):
                index = context.get_constant(types.intp, k)
                address = builder.load(builder.gep(places, [index], inbounds=True))
                found.append(builder.inttoptr(address, context.get_value_type(kind)))
            return context.make_tuple(builder, signature.return_type, found)

        return types.BaseTuple.from_types(kinds, named)(where), generate

    return word(find, lambda where: named(*map(first_row, where)))
