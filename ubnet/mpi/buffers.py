"""What a program gives as a message: a buffer, or a list of buffer, counts, displacements, type.

The forms are those of mpi4py: ``a``, ``[a, type]``, ``[a, count]``, ``[a, count, type]``,
``[a, (count, displ), type]``, ``[a, count, displ, type]``; where a call takes a block for each
rank, counts and displacements may be sequences. Datatypes of numpy arrays are found by themselves.
"""

import sys
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from .constants import PROC_NULL
from .datatype import BYTE, Datatype, from_code
from .memory import ABSOLUTE, NOTHING, memory_of
from .spec import Blocks, Spec

PLAIN = {code: from_code(code) for code in "bhilqBHILQfd"}
"""Datatypes of most arrays, by the format of their elements."""

FOREIGN_ORDER = ">" if sys.byteorder == "little" else "<"


def read_spec(message: Any, writable: bool, rank: int = 0, blocks: int = 0) -> Spec:
    """Read a message of one run of elements.

    Parameters
    ----------
    message : object
        What the program gave.
    writable : bool
        Whether it is received into.
    rank : int
        The partner; for PROC_NULL the message is not looked at.
    blocks : int
        Where the count is not given, the run is one of so many equal blocks.

    Returns
    -------
    Spec
        With `blocks` the memory of all of them, and the count of one.

    Raises
    ------
    TypeError, ValueError, BufferError, KeyError
        As mpi4py does.

    Examples
    --------
    >>> spec = read_spec([np.arange(6.0), (2, 3), "d"], writable=False)
    >>> spec.elements().tolist()
    [3.0, 4.0]
    """
    if isinstance(message, np.ndarray) and message.dtype.char in PLAIN and not blocks:
        view = message.data
        datatype = PLAIN.get(view.format)  # None where the order of bytes is another
        allowed = view.c_contiguous and view.nbytes and not (writable and view.readonly)
        if datatype is not None and allowed and rank != PROC_NULL:
            return Spec.dense_run(view.cast("B"), message.size, datatype)
    memory, count, datatype = read_run(message, writable=writable, rank=rank, blocks=blocks)
    return Spec(memory, count, datatype)


def read_run(
    message: Any, *, writable: bool, rank: int = 0, blocks: int = 0
) -> tuple[memoryview, int, Datatype]:
    """Read memory, count and datatype as `read_spec` does."""
    if rank == PROC_NULL:
        return NOTHING, 0, BYTE
    buffer, count, displacement, code = _split(message)
    if isinstance(count, (list, tuple)):
        count, displacement = count
    memory, datatype = _memory_and_type(buffer, code, writable)
    offset = 0
    if displacement is not None:
        offset = _offset(index(displacement), datatype, memory.nbytes)
    if offset:  # ABSOLUTE stays what it is
        memory = memory[offset:]
    if count is not None:
        count = index(count)
        if count < 0:
            raise ValueError(f"message: negative count {count}")
        if count > 0 and buffer is None:
            raise ValueError(f"message: buffer is None but count is {count}")
        return memory, count, datatype
    entries = _entries(memory, datatype)
    if blocks > 1:
        if entries % blocks:
            raise ValueError(
                f"message: cannot infer count, number of entries {entries} is not a multiple of "
                f"required number of blocks {blocks}"
            )
        entries //= blocks
    return memory, entries, datatype


def read_even(message: Any, *, writable: bool, rank: int, blocks: int) -> Blocks:
    """Read a message of equal blocks, one a rank; the count, where given, is that of a block."""
    memory, count, datatype = read_run(message, writable=writable, rank=rank, blocks=blocks)
    step = count * (datatype._layout.extent if count else 0)
    offsets = [r * step for r in range(blocks)]
    return Blocks(memory, [count] * blocks, offsets, [datatype] * blocks)


def read_blocks(message: Any, *, writable: bool, rank: int, blocks: int) -> Blocks:
    """Read a message of blocks whose counts and displacements are given one by one."""
    if rank == PROC_NULL:
        return Blocks(NOTHING, [0] * blocks, [0] * blocks, [BYTE] * blocks)
    buffer, given, displacements, code = _split(message)
    if isinstance(given, tuple):
        given, displacements = given
    memory, datatype = _memory_and_type(buffer, code, writable)
    if given is None:
        entries = _entries(memory, datatype)
        counts = [entries // blocks + (r < entries % blocks) for r in range(blocks)]
    else:
        counts = _column(given, blocks, lambda value, _: value)
    if displacements is None:
        starts = (np.cumsum(counts, dtype=np.int64) - counts).tolist()
    else:
        starts = _column(displacements, blocks, lambda value, r: value * r)
    extent = datatype._layout.extent if any(counts) else 0
    return Blocks(memory, counts, [extent * start for start in starts], [datatype] * blocks)


def read_typed_blocks(message: Any, *, writable: bool, blocks: int) -> Blocks:
    """Read a message of blocks that have each a datatype and a displacement in bytes."""
    if len(message) == 2:
        buffer, types = message
        counts: Any = None
        displacements: Any = None
    elif len(message) == 3:
        buffer, (counts, displacements), types = message
    elif len(message) == 4:
        buffer, counts, displacements, types = message
    else:
        raise ValueError("message: expecting 2 to 4 items")
    memory = memory_of(buffer, writable)[0]
    if memory is ABSOLUTE and (counts is None or displacements is None):
        raise ValueError("message: BOTTOM requires counts and displacements")
    if counts is None and displacements is None:
        counts, displacements = [1] * blocks, [0] * blocks
    datatypes = [_datatype(t) for t in types]
    if len(datatypes) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(datatypes)}")
    counts = _column(counts, blocks, lambda value, _: value)
    displacements = _column(displacements, blocks, lambda value, r: value * r)
    return Blocks(memory, counts, displacements, datatypes)


def _split(message: Any) -> tuple[Any, Any, Any, Any]:
    """Return buffer, count, displacement and datatype, None where they are not given."""
    if not isinstance(message, (list, tuple)):
        if message is None:
            raise TypeError("message: expecting buffer or list/tuple")
        return message, None, None, None
    if len(message) == 2:
        buffer, count = message
        if isinstance(count, (Datatype, str)):
            return buffer, None, None, count
        return buffer, count, None, None
    if len(message) == 3:
        buffer, count, code = message
        return buffer, count, None, code
    if len(message) == 4:
        buffer, count, displacement, code = message
        return buffer, count, displacement, code
    raise ValueError("message: expecting 2 to 4 items")


def _memory_and_type(buffer: Any, code: Any, writable: bool) -> tuple[memoryview, Datatype]:
    memory, form = memory_of(buffer, writable)
    if code is not None:
        return memory, _datatype(code)
    if not form:
        return memory, BYTE
    if form[0] == FOREIGN_ORDER:
        raise BufferError(f"format string {form!r} with non-native byte order")
    return memory, from_code(form[1:] if form[0] in "@<>" else form)


def _datatype(code: Any) -> Datatype:
    return code if isinstance(code, Datatype) else from_code(code)


def _entries(memory: memoryview, datatype: Datatype) -> int:
    if not memory.nbytes:
        return 0
    if not datatype:
        raise ValueError("message: cannot infer count, datatype is null")
    layout = datatype._layout
    bounds = f"{layout.extent} (lb:{layout.lb}, ub:{layout.lb + layout.extent})"
    if layout.extent <= 0:
        raise ValueError(f"message: cannot infer count, datatype extent {bounds}")
    if memory.nbytes % layout.extent:
        raise ValueError(
            f"message: cannot infer count, buffer length {memory.nbytes} is not a multiple of "
            f"datatype extent {bounds}"
        )
    return memory.nbytes // layout.extent


def _offset(displacement: int, datatype: Datatype, length: int) -> int:
    if displacement < 0:
        raise ValueError(f"message: negative displacement {displacement}")
    if displacement == 0:
        return 0
    if not datatype:
        raise ValueError("message: cannot handle displacement, datatype is null")
    layout = datatype._layout
    if layout.extent <= 0:
        raise ValueError(
            f"message: cannot handle displacement, datatype extent {layout.extent} "
            f"(lb:{layout.lb}, ub:{layout.lb + layout.extent})"
        )
    if displacement * layout.extent > length:
        raise ValueError(
            f"message: displacement {displacement} out of bounds, number of datatype entries "
            f"{length // layout.extent}"
        )
    return displacement * layout.extent


def _column(given: Any, blocks: int, single: Callable[[int, int], int]) -> list[int]:
    """Return a number for each block, from a sequence or from one number."""
    if not isinstance(given, Sequence) and not (isinstance(given, np.ndarray) and given.ndim):
        value = index(given)
        return [single(value, r) for r in range(blocks)]
    values = [index(value) for value in given]
    if len(values) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(values)}")
    return values
