"""Memory of objects without Python's buffer protocol: DLPack, and the CUDA array interface.

There is no device here, so what such an object says of its address must be true of this machine;
a program that is written for arrays of an accelerator can be run with arrays that stand in for
them.
"""

import ctypes
import sys
import warnings
from collections.abc import Sequence
from math import prod
from operator import index
from types import NoneType
from typing import Any

import numpy as np

NATIVE = "<" if sys.byteorder == "little" else ">"

INTEGERS = {1: "b", 2: "h", 4: "i", 8: "l"}
FORMATS = {
    "i": INTEGERS,
    "u": {size: code.upper() for size, code in INTEGERS.items()},
    "f": {2: "e", 4: "f", 8: "d", 16: "g"},
    "c": {8: "Zf", 16: "Zd", 32: "Zg"},
    "b": {1: "?"},
}
"""The format of elements by kind and size, as the buffer protocol writes it."""

DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
READ_ONLY = 1
ON_HOST = 1


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_valid = ctypes.pythonapi.PyCapsule_IsValid
_valid.argtypes, _valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def foreign_memory(holder: Any, *, writable: bool) -> tuple[memoryview, str] | None:
    """Return the bytes of an object and the format of its elements, None if it offers neither.

    Raises
    ------
    BufferError
        If its elements have gaps between them, or it must not be written.
    """
    if hasattr(holder, "__dlpack__") and hasattr(holder, "__dlpack_device__"):
        return _of_dlpack(holder, writable)
    if hasattr(holder, "__cuda_array_interface__"):
        return _of_interface(holder, writable)
    return None


def on_device(holder: Any) -> bool:
    """Say whether an object's memory is said to be that of a device."""
    if hasattr(holder, "__dlpack_device__"):
        return index(holder.__dlpack_device__()[0]) != ON_HOST
    return hasattr(holder, "__cuda_array_interface__")


def _of_dlpack(holder: Any, writable: bool) -> tuple[memoryview, str]:
    device, number = holder.__dlpack_device__()
    index(number)
    choices = {} if index(device) == ON_HOST else {"stream": -1}
    try:
        capsule = holder.__dlpack__(max_version=(1, 0), copy=False, **choices)
        name = b"dltensor_versioned"
    except TypeError:  # before version 1 it takes neither argument
        capsule = holder.__dlpack__(**choices)
        name = b"dltensor"
    if not _valid(capsule, name):
        raise BufferError("dlpack: invalid capsule object")
    address = _pointer(capsule, name)
    readonly = False
    if name == b"dltensor_versioned":
        managed = _Versioned.from_address(address)
        if managed.major < 1:
            raise BufferError("dlpack: unexpected version")
        readonly, tensor = bool(managed.flags & READ_ONLY), managed.tensor
    else:
        tensor = _Tensor.from_address(address)
    if readonly and writable:
        raise BufferError("dlpack: buffer is not writable")
    size = _tensor_bytes(tensor)
    memory = memory_at((tensor.data or 0) + tensor.byte_offset, size, (holder, capsule))
    kind, element = tensor.dtype, tensor.dtype.bits // 8
    if kind.lanes != 1:
        pair = FORMATS["c"].get(2 * element, "") if (kind.code, kind.lanes) == (2, 2) else ""
        return memory, pair
    return memory, FORMATS.get(DLPACK_KINDS.get(kind.code, ""), {}).get(element, "")


def _tensor_bytes(tensor: _Tensor) -> int:
    if tensor.ndim < 0:
        raise BufferError("dlpack: number of dimensions is negative")
    if tensor.ndim > 0 and not tensor.shape:
        raise BufferError("dlpack: shape is NULL")
    shape = tensor.shape[: tensor.ndim] if tensor.ndim else []
    if any(side < 0 for side in shape):
        raise BufferError("dlpack: shape item is negative")
    if tensor.strides:
        strides = tensor.strides[: tensor.ndim]
        if any(stride < 0 for stride in strides):
            raise BufferError("dlpack: strides item is negative")
        if not _without_gaps(shape, strides, 1):
            raise BufferError("dlpack: buffer is not contiguous")
    return int(prod(shape) * ((tensor.dtype.bits * tensor.dtype.lanes + 7) // 8))


def _of_interface(holder: Any, writable: bool) -> tuple[memoryview, str]:
    said = holder.__cuda_array_interface__
    address, readonly = said["data"]
    typestr, shape, strides = said["typestr"], said["shape"], said.get("strides")
    order, kind, element = typestr[0], typestr[1], int(typestr[2:])
    where = "__cuda_array_interface__: "
    if order not in (NATIVE, "|"):
        foreign = "non-native" if order in "<>" else "unrecognized"
        raise BufferError(f"{where}typestr {typestr!r} with {foreign} byte order")
    if said.get("mask") is not None:
        raise BufferError(f"{where}cannot handle masked arrays")
    count = prod(shape)
    if count < 0:
        raise BufferError(f"{where}buffer with negative size (shape:{shape}, size:{count})")
    if strides is not None and not _without_gaps(shape, strides, element):
        raise BufferError(
            f"{where}buffer is not contiguous (shape:{shape}, strides:{strides}, "
            f"itemsize:{element})"
        )
    if readonly and writable:
        raise BufferError(f"{where}buffer is not writable")
    described = said.get("descr")
    if not isinstance(described, (list, NoneType)):
        raise TypeError(f"{where}expected list for 'descr', got {type(described).__name__}")
    if described is not None and described != [("", typestr)]:
        warnings.warn(f"{where}ignoring 'descr' key", RuntimeWarning, stacklevel=4)
    return memory_at(address or 0, count * element, holder), FORMATS.get(kind, {}).get(element, "")


def _without_gaps(shape: Sequence[int], strides: Sequence[int], element: int) -> bool:
    """Say whether elements follow each other, the last index fastest or the first."""
    for sides, steps in ((shape[::-1], strides[::-1]), (shape, strides)):
        expected = element
        for side, step in zip(sides, steps, strict=True):
            if side > 1 and step != expected:
                break
            expected *= side
        else:
            return True
    return False


def memory_at(address: int, size: int, owner: Any) -> memoryview:
    """Return memory at an address, which keeps its owner alive."""
    if not size:
        return memoryview(bytearray())
    octets = (ctypes.c_ubyte * size).from_address(address)
    octets.owner = owner  # type: ignore[attr-defined]  # an attribute of our own
    return np.frombuffer(memoryview(octets), np.uint8).data
