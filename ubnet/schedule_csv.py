"""Schedules as CSV: one line an operation, for spreadsheets and scripts."""

import csv
from pathlib import Path

from ubnet.operation import BUFFERS, KINDS
from ubnet.schedule import Schedule
from ubnet.timing import Timing

COLUMNS = (
    "op", "step", "kind", "src", "dst", "src_buffer", "src_offset", "dst_buffer", "dst_offset",
    "count", "after", "end_us",
)  # fmt: skip


def write_csv(schedule: Schedule, path: str | Path, timing: Timing | None = None) -> None:
    """Write a schedule as CSV, with the time at which each operation ends if it was timed.

    Parameters
    ----------
    schedule : Schedule
        What is done; offsets and counts are in elements.
    path : str or Path
        The file.
    timing : Timing, optional
        What `ubnet.timing.time_schedule` says of it.
    """
    s = schedule
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for op in range(len(s)):
            after = s.dep[s.dep_ptr[op] : s.dep_ptr[op + 1]]
            table.writerow(
                [
                    op,
                    int(s.step[op]),
                    KINDS[s.kind[op]],
                    int(s.src[op]),
                    int(s.dst[op]),
                    BUFFERS[s.src_buf[op]],
                    int(s.src_off[op]),
                    BUFFERS[s.dst_buf[op]],
                    int(s.dst_off[op]),
                    int(s.count[op]),
                    " ".join(map(str, after.tolist())),
                    "" if timing is None else int(timing.op_end_ps[op]) / 1e6,
                ]
            )
