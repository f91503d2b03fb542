"""Schedules as MSCCL XML: written so that MSCCL's runtime can read them.

Every rank is a gpu; every connection to or from a peer is a thread block, and so are the local
operations. A transfer is a step ``s`` at its source and a step ``r`` (copy) or ``rrc`` (reduction)
at its destination; what a step waits for beyond one other stands in steps ``nop`` before it.
`ubnet.msccl_reader` reads them back.
"""

from collections.abc import Sequence
from math import gcd
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

import numpy as np

from ubnet.errors import ScheduleError
from ubnet.operation import COPY, JOIN
from ubnet.schedule import Schedule

NAMES = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "all_to_all": "alltoall",
}
"""MSCCL's names of the operations; the others keep their own."""

BUFFER_LETTERS = ("i", "o", "s")

Place = tuple[int, int]
"""Thread block and step on a gpu."""


class _Gpu:
    """The thread blocks of one rank, by peer and direction."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[int, int], list[dict[str, str]]] = {}

    def add(self, send: int, recv: int, kind: str, cells: dict[str, str]) -> Place:
        """Append a step to the thread block of a connection."""
        steps = self.blocks.setdefault((send, recv), [])
        steps.append(
            {"type": kind, **cells, "depid": "-1", "deps": "-1", "hasdep": "0"},
        )
        return list(self.blocks).index((send, recv)), len(steps) - 1

    def wait(self, send: int, recv: int, places: Sequence[Place]) -> tuple[str, str]:
        """Add a ``nop`` for every place but the last; return the dependency of the step itself."""
        blocks = list(self.blocks.values())
        for block, step in places:
            blocks[block][step]["hasdep"] = "1"
        for block, step in places[:-1]:
            self.add(send, recv, "nop", _cells())
            self.blocks[send, recv][-1].update(depid=str(block), deps=str(step))
        return tuple(map(str, places[-1])) if places else ("-1", "-1")  # type: ignore[return-value]


def write_msccl(schedule: Schedule, path: str | Path) -> None:
    """Write a schedule as MSCCL XML.

    The unit of offsets and counts is the largest chunk that divides them all. Every step carries
    the number of its step here, in an attribute ``ubnet`` that MSCCL does not ask for. Reductions
    of one step into one place are not ordered in the file, nor are their operands: with a runtime
    that does not reduce atomically, take a schedule that has none (ring, nhr, nb).

    Parameters
    ----------
    schedule : Schedule
        What is done.
    path : str or Path
        The file.

    Raises
    ------
    ScheduleError
        If the schedule sends messages without data, which MSCCL has not.
    """
    s = schedule
    empty = s.transfers & (s.count == 0)
    if empty.any():
        raise ScheduleError(
            f"{s.describe(int(np.flatnonzero(empty)[0]))} sends no data, which an MSCCL file "
            f"cannot say; a barrier has no such form"
        )
    unit = max(gcd(*s.src_off.tolist(), *s.dst_off.tolist(), *s.count.tolist()), 1)
    unit = gcd(unit, *s.sizes.reshape(-1).tolist()) or 1
    gpus = [_Gpu() for _ in range(s.ranks)]
    places: list[dict[int, Place]] = []
    for op in range(len(s)):
        places.append(_enter(s, op, unit, gpus, places))
    operation = s.name.partition(" ")[0]
    root = Element(
        "algo",
        name=s.name,
        nchunksperloop=str(int(s.sizes[:, :2].max(initial=0)) // unit),
        nchannels="1",
        proto="Simple",
        ngpus=str(s.ranks),
        inplace="0",
        coll=NAMES.get(operation, operation),
        minBytes="0",
        maxBytes="0",
    )
    for rank, gpu in enumerate(gpus):
        _append(root, rank, gpu, (s.sizes[rank] // unit).tolist())
    tree = ElementTree(root)
    indent(tree)
    tree.write(path)


def _enter(
    s: Schedule, op: int, unit: int, gpus: list[_Gpu], places: list[dict[int, Place]]
) -> dict[int, Place]:
    """Enter an operation as steps of one or two gpus; return where it stands on each."""
    src, dst = int(s.src[op]), int(s.dst[op])
    before = s.dep[s.dep_ptr[op] : s.dep_ptr[op + 1]].tolist()
    cells = _cells(
        BUFFER_LETTERS[s.src_buf[op]],
        int(s.src_off[op]) // unit,
        BUFFER_LETTERS[s.dst_buf[op]],
        int(s.dst_off[op]) // unit,
        int(s.count[op]) // unit,
    )
    reduces = s.kind[op] != COPY
    if src == dst:
        kind = "nop" if s.kind[op] == JOIN else "re" if reduces else "cpy"
        ends = [(src, -1, -1, kind, cells if kind != "nop" else _cells())]
    else:
        landing = {"srcbuf": cells["dstbuf"], "srcoff": cells["dstoff"]} if reduces else {}
        ends = [
            (src, dst, -1, "s", cells),
            (dst, -1, src, "rrc" if reduces else "r", {**cells, **landing}),
        ]
    found: dict[int, Place] = {}
    for rank, send, recv, kind, filled in ends:
        waits = list(dict.fromkeys(places[b][rank] for b in before if rank in places[b]))
        dependency = gpus[rank].wait(send, recv, waits)
        found[rank] = gpus[rank].add(send, recv, kind, filled)
        step = gpus[rank].blocks[send, recv][-1]
        step["depid"], step["deps"] = dependency
        step["ubnet"] = str(int(s.step[op]))
    return found


def _cells(
    srcbuf: str = "i", srcoff: int = -1, dstbuf: str = "o", dstoff: int = -1, cnt: int = 0
) -> dict[str, str]:
    return {
        "srcbuf": srcbuf,
        "srcoff": str(srcoff),
        "dstbuf": dstbuf,
        "dstoff": str(dstoff),
        "cnt": str(cnt),
    }


def _append(root: Element, rank: int, gpu: _Gpu, chunks: list[int]) -> None:
    names = ("i_chunks", "o_chunks", "s_chunks")
    sizes = {name: str(count) for name, count in zip(names, chunks, strict=True)}
    element = SubElement(root, "gpu", {"id": str(rank), **sizes})
    for number, ((send, recv), steps) in enumerate(gpu.blocks.items()):
        block = SubElement(element, "tb", id=str(number), send=str(send), recv=str(recv), chan="0")
        for place, cells in enumerate(steps):
            SubElement(block, "step", {"s": str(place), **cells})
