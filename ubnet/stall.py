"""The report of a deadlock: what every rank waits for, and where its program stands."""

from collections.abc import Mapping, Sequence
from types import FrameType

from ubnet.message import Pending
from ubnet.own_files import is_own
from ubnet.rank import Rank

SHOWN_OPERATIONS = 4
SHOWN_LINES = 64


def waiting_line(rank: Rank, frame: FrameType | None, labels: Mapping[int, str]) -> str:
    """Return the line of one rank: its call, peer, tag, communicator and source line."""
    if rank.waits_in == "finished":
        return f"rank {rank.number}: has finished"
    calls = [_call(pending, labels) for pending in rank.waits_for]
    if len(calls) > SHOWN_OPERATIONS:
        more = len(calls) - SHOWN_OPERATIONS
        calls = [*calls[:SHOWN_OPERATIONS], f"{more} more"]
    what = " and ".join(calls) or "nothing"
    how = f"{rank.waits_in}: " if rank.waits_in else ""
    return f"rank {rank.number}: {how}{what} at {_place(frame)}"


def deadlock_text(now_ps: int, lines: Sequence[str]) -> str:
    """Return the whole report; a world of many ranks is cut in the middle."""
    if len(lines) > SHOWN_LINES:
        half = SHOWN_LINES // 2
        left_out = f"... {len(lines) - 2 * half} more ranks ..."
        lines = [*lines[:half], left_out, *lines[-half:]]
    head = (
        f"deadlock after {now_ps / 1e6:.3f} us of virtual time: "
        "no rank can run and nothing is under way"
    )
    return "\n  ".join([head, *lines])


def _call(pending: Pending, labels: Mapping[int, str]) -> str:
    peer = "any source" if pending.peer < 0 else f"rank {pending.peer}"
    tag = "any tag" if pending.tag < 0 else f"tag {pending.tag}"
    where = f"on {labels.get(pending.context, f'communicator {pending.context}')}"
    if "send" in pending.call:
        return f"{pending.call} to {peer}, {tag}, {where}"
    if pending.call in ("recv", "probe", "mprobe", "iprobe", "improbe", "mrecv"):
        return f"{pending.call} from {peer}, {tag}, {where}"
    if pending.peer >= 0:
        return f"{pending.call} at {peer} {where}"
    return f"{pending.call} {where}"


def _place(frame: FrameType | None) -> str:
    """Return file and line of the innermost frame that is not ubnet's own."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_own(file) and not file.startswith("<frozen"):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"
