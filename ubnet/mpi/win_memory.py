"""The memory behind windows: what a program brings, and what a window allocates or shares."""

import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.rank import Rank

from .communicator import Communicator
from .memory import NOTHING

Bytes = NDArray[np.uint8]

SHARED_FOLDER = Path("/dev/shm")
"""Files in memory, which processes of a machine share; elsewhere it is the temporary folder."""


def octets(memory: memoryview) -> Bytes:
    """Return memory as an array, in place."""
    return np.frombuffer(memory, np.uint8) if memory.nbytes else np.empty(0, dtype=np.uint8)


def address_of(memory: memoryview) -> int:
    """Return where memory begins, 0 if it has no bytes."""
    return int(octets(memory).ctypes.data) if memory.nbytes else 0


def allocated(nbytes: int) -> memoryview:
    """Return zeroed memory of a window's own."""
    return memoryview(bytearray(nbytes)) if nbytes else NOTHING


def shared_segments(rank: Rank, here: Communicator, sizes: Sequence[int]) -> list[memoryview]:
    """Return the segments of memory that all members of a window see, one behind the other.

    Members of one process share the memory of the process; where others are hosted elsewhere it
    is memory that the processes of the machine share.
    """
    ends = np.cumsum(np.array(sizes, dtype=np.int64))
    total = int(ends[-1])
    whole = _everywhere(rank, here, total) if total else NOTHING
    starts = ends - np.array(sizes, dtype=np.int64)
    return [
        whole[start:end] if end > start else NOTHING
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _everywhere(rank: Rank, here: Communicator, total: int) -> memoryview:
    """Return the one memory of all members; each process has it once."""
    key = ("shared window", here.context)
    kept: dict[Any, memoryview] = rank.host.kept
    apart = rank.host.spans(here.group)
    name = _made(total) if apart and here.rank == 0 else None
    told = rank.exchange(here.context, here.group, name, "Win.Allocate_shared")
    if key not in kept:
        kept[key] = _mapped(told[0], total) if apart else memoryview(bytearray(total))
    memory = kept[key]
    rank.exchange(here.context, here.group, None, "Win.Allocate_shared")
    kept.pop(key, None)
    if name is not None:
        Path(name).unlink()
    return memory


def _made(total: int) -> str:
    folder = SHARED_FOLDER if SHARED_FOLDER.is_dir() else None
    descriptor, name = tempfile.mkstemp(prefix="ubnet-window-", dir=folder)
    os.truncate(descriptor, total)
    os.close(descriptor)
    return name


def _mapped(name: str, total: int) -> memoryview:
    with Path(name).open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), total))
