"""A token copy on its way: its row, its scales and where it comes from, as bytes in a row.

Source rank, batch slot, key offset and target ride with every copy (P, section 4.2), so that a
receiver needs nothing else. What a copy costs on the fabric is `bytes_per_copy`, which holds them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.fabric import Ints

Octets = NDArray[np.uint8]

ORIGIN = 4
"""Numbers of a copy's origin: source rank, batch slot, key offset, target."""


@dataclass(frozen=True)
class Field:
    """One part of a record: so many items of a type for each copy."""

    dtype: str
    items: int

    @property
    def nbytes(self) -> int:
        """Bytes of it in a record."""
        return np.dtype(self.dtype).itemsize * self.items


def fields_of(columns: Sequence[NDArray[Any]]) -> tuple[Field, ...]:
    """Return what two-dimensional columns take in a record."""
    return tuple(Field(column.dtype.str, column.shape[1]) for column in columns)


def record_bytes(fields: Sequence[Field]) -> int:
    """Return the bytes of a record, its origin included.

    >>> record_bytes([Field("|i1", 7168), Field("<f4", 1)])
    7188
    """
    return sum(field.nbytes for field in fields) + 4 * ORIGIN


def pack(columns: Sequence[NDArray[Any]], token: Ints, origin: NDArray[np.int32]) -> Octets:
    """Return records of copies behind each other.

    Parameters
    ----------
    columns : sequence of ndarray, shape (tokens, items)
        What rides with each token.
    token : ndarray of int64, shape (copies,)
        The token of each copy.
    origin : ndarray of int32, shape (copies, 4)
        Source rank, batch slot, key offset and target of each copy.
    """
    out = np.empty((len(token), record_bytes(fields_of(columns))), dtype=np.uint8)
    begin = 0
    for column in columns:
        width = column.itemsize * column.shape[1]
        octets = np.ascontiguousarray(column).view(np.uint8).reshape(len(column), width)
        out[:, begin : begin + width] = octets[token]
        begin += width
    out[:, begin:] = np.ascontiguousarray(origin).view(np.uint8).reshape(len(token), 4 * ORIGIN)
    return out.reshape(-1)


def unpack(records: Octets, fields: Sequence[Field], order: Ints) -> list[NDArray[Any]]:
    """Return the columns of records in another order."""
    table = records.reshape(-1, record_bytes(fields))
    columns, begin = [], 0
    for field in fields:
        octets = np.ascontiguousarray(table[order, begin : begin + field.nbytes])
        columns.append(octets.view(field.dtype).reshape(len(order), field.items))
        begin += field.nbytes
    return columns


def origins(records: Octets, fields: Sequence[Field]) -> Ints:
    """Return source rank, batch slot, key offset and target of every record, shape (copies, 4)."""
    table = records.reshape(-1, record_bytes(fields))
    held = np.ascontiguousarray(table[:, -4 * ORIGIN :]).view(np.int32)
    return held.reshape(len(table), ORIGIN).astype(np.int64)
