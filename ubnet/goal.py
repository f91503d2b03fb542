"""Schedules as GOAL text, which LogGOPSim and ATLAHS read: sends, receives and calculations.

Every transfer is a ``send`` and a ``recv`` with a tag of its own; a reduction is a ``calc`` of the
time that its bytes take in memory; what waits for what is ``requires``.
"""

from pathlib import Path

from ubnet.operation import JOIN
from ubnet.schedule import Schedule


def write_goal(
    schedule: Schedule, path: str | Path, itemsize: int, *, reduce_rate: float | None = None
) -> None:
    """Write a schedule as GOAL text.

    Parameters
    ----------
    schedule : Schedule
        What is done.
    path : str or Path
        The file.
    itemsize : int
        Bytes of an element.
    reduce_rate : float, optional
        Bytes/s at which a rank reduces; None = reductions take no time.
    """
    s = schedule
    lines: list[list[str]] = [[] for _ in range(s.ranks)]
    ends: list[dict[int, str]] = []
    for op in range(len(s)):
        src, dst, nbytes = int(s.src[op]), int(s.dst[op]), int(s.count[op]) * itemsize
        before = s.dep[s.dep_ptr[op] : s.dep_ptr[op + 1]].tolist()
        found: dict[int, str] = {}
        if src != dst and s.kind[op] != JOIN:
            steps = [
                (src, f"l{op}s", f"send {nbytes}b to {dst} tag {op}"),
                (dst, f"l{op}r", f"recv {nbytes}b from {src} tag {op}"),
            ]
        else:
            steps = [(dst, f"l{op}r", "calc 0")]
        for rank, label, text in steps:
            lines[rank].append(f"{label}: {text}")
            waits = dict.fromkeys(ends[b][rank] for b in before if rank in ends[b])
            lines[rank] += [f"{label} requires {other}" for other in waits]
            found[rank] = label
        if reduce_rate is not None and s.reduces[op]:
            lines[dst].append(f"l{op}c: calc {round(nbytes / reduce_rate * 1e9)}")
            lines[dst].append(f"l{op}c requires {found[dst]}")
            found[dst] = f"l{op}c"
        ends.append(found)
    written = [f"num_ranks {s.ranks}"]
    for rank, mine in enumerate(lines):
        written += [f"rank {rank} {{", *mine, "}"]
    Path(path).write_text("\n".join(written) + "\n")
