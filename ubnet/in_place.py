"""A schedule in place: every rank has one array, of which its input and its output are parts."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ubnet.operation import COPY, INPUT, JOIN, OUTPUT, SCRATCH
from ubnet.schedule import Schedule

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Placed:
    """Where input and output begin in each rank's one array.

    Attributes
    ----------
    input, output : ndarray of int64, shape (ranks,)
        Elements before them; one of both is 0 on every rank.
    """

    input: Ints
    output: Ints


def placed(sizes: Ints) -> Placed:
    """Return where MPI and NCCL put the smaller of both buffers: at the rank's own block.

    Where input and output have the same size they are the same; else the smaller one is the block
    of the rank's own number in the larger one.

    Parameters
    ----------
    sizes : ndarray of int64, shape (ranks, 3)
        As in `Schedule`.

    Examples
    --------
    >>> placed(np.array([[2, 6, 0]] * 3)).input.tolist()
    [0, 2, 4]
    """
    into, out = sizes[:, INPUT], sizes[:, OUTPUT]
    before_in, before_out = (np.cumsum(part) - part for part in (into, out))
    return Placed(
        np.where((into > 0) & (into < out), before_in, 0),
        np.where((out > 0) & (out < into), before_out, 0),
    )


def in_place(schedule: Schedule, where: Placed) -> Schedule:
    """Return a schedule that does the same with one array, its output, for input and output.

    What the rank copies to where it stands already is a join. Whether nothing is overwritten
    before it was read `Schedule.validate` says.

    Examples
    --------
    >>> from ubnet.schedule_builder import ScheduleBuilder
    >>> builder = ScheduleBuilder("shift", 2, [1, 1, 0])
    >>> _ = builder.add(0, [0, 0], [0, 1], 0, 0, 1)
    >>> made = builder.build()
    >>> both = in_place(made, placed(made.sizes))
    >>> both.describe(0)
    'op 0 (step 0: join on rank 0)'
    >>> both.describe(1)
    'op 1 (step 0: copy rank 0 output[0:1] to rank 1 output[0:1])'
    """
    s = schedule
    begin = np.stack([where.input, where.output, np.zeros_like(where.input)], axis=1)
    src_off = s.src_off + begin[s.src, s.src_buf]
    dst_off = s.dst_off + begin[s.dst, s.dst_buf]
    src_buf, dst_buf = (
        np.where(buf == SCRATCH, SCRATCH, OUTPUT).astype(np.int8) for buf in (s.src_buf, s.dst_buf)
    )
    there = (s.kind == COPY) & (s.src == s.dst) & (src_buf == dst_buf) & (src_off == dst_off)
    sizes = s.sizes.copy()
    sizes[:, OUTPUT] = np.max(begin[:, :SCRATCH] + s.sizes[:, :SCRATCH], axis=1)
    sizes[:, INPUT] = 0
    return replace(
        s,
        sizes=sizes,
        kind=np.where(there, JOIN, s.kind).astype(np.int8),
        src_buf=src_buf,
        src_off=np.where(there, 0, src_off),
        dst_buf=dst_buf,
        dst_off=np.where(there, 0, dst_off),
        count=np.where(there, 0, s.count),
    )
