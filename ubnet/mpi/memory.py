"""Memory: the bytes of a program's buffers, and `MPI.buffer`, which shows memory as bytes."""

from collections.abc import Sequence
from operator import index
from typing import Any, Self

import numpy as np

from .constants import BottomType
from .foreign_memory import foreign_memory, memory_at, on_device
from .octets import Octets

NOTHING = memoryview(bytearray())
"""No memory at all."""

ABSOLUTE = memoryview(bytearray())
"""Stands for BOTTOM: places are addresses of this process."""


def memory_of(buffer: Any, writable: bool) -> tuple[memoryview, str]:
    """Return the bytes of a buffer and the format of its elements, empty if it has none."""
    if buffer is None:
        return NOTHING, ""
    if isinstance(buffer, BottomType):
        return ABSOLUTE, ""
    if isinstance(buffer, np.ndarray) and buffer.dtype.isbuiltin == 2:
        # A type that numpy was taught, such as bfloat16: the buffer protocol has no word for it.
        return memory_of(buffer.view(f"u{buffer.itemsize}"), writable)[0], buffer.dtype.name
    try:
        view = memoryview(buffer)
    except TypeError:
        foreign = foreign_memory(buffer, writable=writable)
        if foreign is None:
            raise TypeError("message: expecting buffer or list/tuple") from None
        return foreign
    if not view.c_contiguous:
        if not view.contiguous:
            raise BufferError("ndarray is not contiguous")
        view = np.asarray(view).T.data
    if writable and view.readonly:
        raise BufferError("Object is not writable.")
    if not view.nbytes:
        return NOTHING, view.format
    if len(view.format) > 1:  # of a structure: memoryview itself cannot cast it
        return np.frombuffer(view, np.uint8).data, view.format
    return view.cast("B"), view.format


class buffer(Octets):
    """Memory as bytes: of an object, of an address, or new.

    Parameters
    ----------
    buf : object, optional
        Whose memory it shows.

    Examples
    --------
    >>> shown = buffer(bytearray(b"abc"))
    >>> shown[1:] = b"xy"
    >>> shown[0], shown.tobytes(), shown.readonly
    (97, b'axy', False)
    """

    _held: Any = None
    _device = False

    def __new__(cls, buf: Any = b"") -> Self:
        """Show the memory of an object, to be written if the object allows it."""
        if isinstance(buf, bytes) and not buf:
            return cls._show(np.empty(0, dtype=np.uint8), None)
        try:
            return cls.frombuffer(buf)
        except BufferError:
            return cls.frombuffer(buf, readonly=True)

    @classmethod
    def allocate(cls, nbytes: int, clear: bool = False) -> Self:
        """Return new memory, zeroed if asked for."""
        size = index(nbytes)
        if size < 0:
            raise ValueError("expecting non-negative buffer length")
        memory = (np.zeros if clear else np.empty)(size, dtype=np.uint8)
        return cls._show(memory, memory.data)

    @classmethod
    def frombuffer(cls, buf: Any, readonly: bool = False) -> Self:
        """Return the memory of an object."""
        if buf is None:
            raise TypeError("a bytes-like object is required, not 'NoneType'")
        octets = np.frombuffer(memory_of(buf, not readonly)[0], np.uint8)
        made = cls._show(octets, buf, readonly=readonly)
        made._device = on_device(buf)
        return made

    @classmethod
    def fromaddress(cls, address: int, nbytes: int, readonly: bool = False) -> Self:
        """Return the memory from an address on."""
        if nbytes < 0:
            raise ValueError("expecting non-negative buffer length")
        if nbytes and not address:
            raise ValueError("expecting non-NULL address")
        octets = np.frombuffer(memory_at(address, nbytes, None), np.uint8)
        return cls._show(octets, None, readonly=readonly)

    @classmethod
    def _show(cls, octets: Any, held: Any, *, readonly: bool = False) -> Self:
        made: Self = octets.view(cls)
        made._held = held
        if readonly:
            made.flags.writeable = False
        return made

    @property
    def address(self) -> int:
        """Where it stands in this process."""
        return self.ctypes.data if self.size or self._held is not None else 0

    @property
    def obj(self) -> Any:
        """The object whose memory it is."""
        return self._held

    @property
    def readonly(self) -> bool:
        """Whether it must not be written."""
        return not self.flags.writeable

    @property
    def format(self) -> str:
        """The format of its elements: bytes."""
        return "B"

    def cast(self, format: str, shape: Sequence[int] | None = None) -> memoryview:
        """Return it with elements of another format."""
        self._check_host()
        view: Any = self.data
        cast: memoryview = view.cast(format) if shape is None else view.cast(format, tuple(shape))
        return cast

    def tobytes(self, order: str | None = None) -> bytes:
        """Return what it holds; `order` changes nothing."""
        self._check_host()
        return bytes(self.data)

    def toreadonly(self) -> Self:
        """Return the same memory, not to be written."""
        return self._show(self.view(np.ndarray), self._held, readonly=True)

    def release(self) -> None:
        """Let the memory go: it has no bytes then."""
        nothing: Any = (1, (0,), np.dtype(np.uint8), False, b"")
        self.__setstate__(nothing)
        self._held = None

    def __getitem__(self, item: Any) -> Any:
        self._check_host()
        if isinstance(item, slice):
            return self._show(np.ndarray.__getitem__(self, _dense(item)), self)
        return int(np.ndarray.__getitem__(self, self._place(item)))

    def __setitem__(self, item: Any, value: Any) -> None:
        self._check_host()
        if self.readonly:
            raise TypeError("buffer is read-only")
        if not isinstance(item, slice):
            np.ndarray.__setitem__(self, self._place(item), index(value))
            return
        target = np.ndarray.__getitem__(self, _dense(item)).view(np.ndarray)
        if not isinstance(value, np.ndarray) and hasattr(value, "__index__"):
            target[:] = index(value)
            return
        given = np.frombuffer(memory_of(value, False)[0], np.uint8)
        if len(given) != len(target):
            raise ValueError("slice length does not match buffer")
        target[:] = given

    def __delitem__(self, item: Any) -> None:
        raise NotImplementedError("buffer: memory cannot be taken out of the middle")

    def __bool__(self) -> bool:
        return self.size > 0

    def __repr__(self) -> str:
        return f"<MPI.buffer of {self.nbytes} bytes at {self.address:#x}>"

    __hash__ = object.__hash__  # type: ignore[assignment]  # it is compared by identity

    def _check_host(self) -> None:
        if self._device:
            raise BufferError("the memory is that of a device: bytes cannot be looked at")

    def _place(self, item: Any) -> int:
        place = index(item)
        if not -self.size <= place < self.size:
            raise IndexError("index out of range")
        return place


def _dense(item: slice) -> slice:
    if item.step not in (None, 1):
        raise IndexError("slice with step not supported")
    return item


def Get_address(location: Any) -> int:
    """Return the address of a buffer in this process; that of BOTTOM is 0."""
    memory, _ = memory_of(location, False)
    if memory is ABSOLUTE:
        return 0
    if memory is NOTHING:
        memory = memoryview(location)
    return int(np.frombuffer(memory, np.uint8).ctypes.data) if memory.nbytes else 0


def Aint_add(base: int, disp: int) -> int:
    """Return an address so many bytes on.

    >>> Aint_add(64, 8)
    72
    """
    return index(base) + index(disp)


def Aint_diff(addr1: int, addr2: int) -> int:
    """Return the bytes from the second address to the first.

    >>> Aint_diff(72, 64)
    8
    """
    return index(addr1) - index(addr2)
