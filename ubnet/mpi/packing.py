"""Packing: elements of a datatype into contiguous memory and back, by one call after the other."""

import sys
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .definition import TypeHandle
from .exception import ERR_ARG, ERR_TRUNCATE
from .exception import Exception as MPIException
from .layout import Layout
from .memory import memory_of

Bytes = NDArray[np.uint8]

PORTABLE = "external32"
"""The one data representation of `Datatype.Pack_external`: big-endian, of fixed sizes."""


class Packing(TypeHandle):
    """How elements are packed."""

    __slots__ = ()

    def Pack(self, inbuf: Any, outbuf: Any, position: int, comm: Any) -> int:
        """Put the elements of a buffer into another from a byte on; return the byte behind them.

        Parameters
        ----------
        inbuf, outbuf : buffer
            All whole elements of the first go into the second.
        position : int
            Where the first byte goes.
        comm : Comm
            The communicator of the message that is packed.
        """
        return _put(self._wire(inbuf), outbuf, position)

    def Unpack(self, inbuf: Any, position: int, outbuf: Any, comm: Any) -> int:
        """Fill a buffer with elements from a byte of another on; return the byte behind them."""
        layout = self._layout
        octets, count = self._room(outbuf)
        taken = _take(inbuf, position, count * layout.size)
        octets[layout.places(count)] = taken
        return index(position) + len(taken)

    def Pack_size(self, count: int, comm: Any) -> int:
        """Return the bytes that so many elements take when they are packed."""
        return index(count) * self._layout.size

    def Pack_external(self, datarep: str, inbuf: Any, outbuf: Any, position: int) -> int:
        """Pack elements in the data representation ``external32``."""
        _check(datarep)
        return _put(_external(self._layout, self._wire(inbuf)), outbuf, position)

    def Unpack_external(self, datarep: str, inbuf: Any, position: int, outbuf: Any) -> int:
        """Unpack elements that are in the data representation ``external32``."""
        _check(datarep)
        layout = self._layout
        octets, count = self._room(outbuf)
        taken = _take(inbuf, position, count * layout.size)
        octets[layout.places(count)] = _internal(layout, taken)
        return index(position) + len(taken)

    def Pack_external_size(self, datarep: str, count: int) -> int:
        """Return the bytes that so many elements take in that data representation."""
        _check(datarep)
        return index(count) * self._layout.size

    def _wire(self, inbuf: Any) -> Bytes:
        octets, count = self._room(inbuf, writable=False)
        return octets[self._layout.places(count)]

    def _room(self, buf: Any, *, writable: bool = True) -> tuple[Bytes, int]:
        """Return the bytes of a buffer, and how many elements there is room for."""
        octets = np.frombuffer(memory_of(buf, writable)[0], np.uint8)
        layout = self._layout
        if not len(octets) or layout.extent <= 0:
            return octets, 0
        count = len(octets) // layout.extent
        if count and layout.reach(count)[0] < 0:
            raise MPIException(ERR_ARG, f"elements of {layout.name} begin before the buffer")
        while count and layout.reach(count)[1] > len(octets):
            count -= 1
        return octets, count


def _check(datarep: str) -> None:
    if datarep != PORTABLE:
        raise MPIException(ERR_ARG, f"data representation {datarep!r}; there is {PORTABLE!r} alone")


def _put(wire: Bytes, outbuf: Any, position: int) -> int:
    room = np.frombuffer(memory_of(outbuf, True)[0], np.uint8)
    first = index(position)
    if first < 0 or first + len(wire) > len(room):
        raise MPIException(
            ERR_TRUNCATE, f"{len(wire)} bytes from {first} on do not fit into {len(room)}"
        )
    room[first : first + len(wire)] = wire
    return first + len(wire)


def _take(inbuf: Any, position: int, nbytes: int) -> Bytes:
    room = np.frombuffer(memory_of(inbuf, False)[0], np.uint8)
    first = index(position)
    if first < 0 or first + nbytes > len(room):
        raise MPIException(
            ERR_TRUNCATE, f"{nbytes} bytes from {first} on are more than the {len(room)} there are"
        )
    return room[first : first + nbytes]


def _external(layout: Layout, wire: Bytes) -> Bytes:
    return _converted(layout, wire, inward=False)


def _internal(layout: Layout, wire: Bytes) -> Bytes:
    return _converted(layout, wire, inward=True)


def _converted(layout: Layout, wire: Bytes, *, inward: bool) -> Bytes:
    """Return elements on the wire in the other representation, basic element by basic element."""
    if not len(wire):
        return wire
    rows = wire.reshape(-1, layout.size)
    made = np.empty_like(rows)
    place = 0
    for basic, count in layout.basics():
        end = place + basic.size * count
        columns = np.ascontiguousarray(rows[:, place:end]).reshape(-1, basic.size)
        made[:, place:end] = _swapped(columns, basic, inward).reshape(len(rows), -1)
        place = end
    return made.reshape(-1)


def _swapped(rows: Bytes, basic: Layout, inward: bool) -> Bytes:
    """Return basic elements, one a row, in the other order of bytes."""
    if basic.kind == "pair" and basic.dtype is not None:
        value = np.dtype(basic.dtype["value"]).itemsize
        columns = [_reals(rows[:, :value], basic.dtype["value"], inward), rows[:, value:][:, ::-1]]
        return np.concatenate(columns, axis=1)
    if basic.kind == "complex" and basic.dtype is not None:
        half = basic.dtype.itemsize // 2
        part = np.dtype(f"f{half}")
        return _reals(rows.reshape(-1, half), part, inward).reshape(rows.shape)
    return _reals(rows, basic.dtype, inward)


def _reals(rows: Bytes, dtype: np.dtype[Any] | None, inward: bool) -> Bytes:
    if dtype is not None and dtype.char == "g" and np.finfo(dtype).nmant == 63:
        return _from_quadruple(rows) if inward else _to_quadruple(rows)
    return rows[:, ::-1] if sys.byteorder == "little" else rows


def _to_quadruple(rows: Bytes) -> Bytes:
    """Return x86's 80-bit numbers as IEEE binary128: the same exponent, a hidden first bit."""
    mantissa = np.ascontiguousarray(rows[:, :8]).view("<u8")[:, 0]
    made = np.zeros((len(rows), 16), dtype=np.uint8)
    made[:, :2] = rows[:, 9:7:-1]
    made[:, 2:10] = (mantissa << np.uint64(1)).astype(">u8").view(np.uint8).reshape(-1, 8)
    return made


def _from_quadruple(rows: Bytes) -> Bytes:
    """Return IEEE binary128 numbers as x86's, whose first bit is written; digits are cut off."""
    fraction = np.ascontiguousarray(rows[:, 2:10]).view(">u8")[:, 0].astype("<u8")
    normal = ((rows[:, 0] & 0x7F) | rows[:, 1]).astype(bool)
    mantissa = (fraction >> np.uint64(1)) | (normal.astype("<u8") << np.uint64(63))
    made = np.zeros((len(rows), 16), dtype=np.uint8)
    made[:, :8] = mantissa.astype("<u8").view(np.uint8).reshape(-1, 8)
    made[:, 8:10] = rows[:, 1::-1]
    return made
