"""A recording as a Chrome trace: JSON that Perfetto and chrome://tracing open.

Each rank is a process of the trace. Its tracks are ``calls`` (computing, and the calls it is
blocked in), and channels: ``sends``, ``receives`` and ``collectives``, as many of each as there
were transfers at a time, so that the slices of a track never overlap. An arrow leads from each
transfer's slice at its source to that at its destination.
"""

import heapq
import json
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

from ubnet.recording import Recording
from ubnet.units import format_size

PS_PER_US = 1_000_000

Json = dict[str, Any]


class _Slice(NamedTuple):
    """A slice of a track; `arrow` numbers the transfer it belongs to, -1 for none."""

    rank: int
    channel: str
    start_ps: int
    end_ps: int
    name: str
    category: str
    arguments: Json
    arrow: int = -1


def write_trace(file: IO[str], recording: Recording, endpoints: Sequence[str]) -> None:
    """Write a recording as a Chrome trace.

    Parameters
    ----------
    file : text file
        Where to.
    recording : Recording
        What was recorded.
    endpoints : sequence of str
        Where each rank sits.
    """
    file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
    for number, event in enumerate(_events(recording, endpoints)):
        file.write(("" if number == 0 else ",\n") + json.dumps(event))
    file.write("\n]}\n")


def _events(recording: Recording, endpoints: Sequence[str]) -> Iterator[Json]:
    slices = sorted(_slices(recording), key=lambda s: (s.rank, s.channel, s.start_ps, -s.end_ps))
    for rank, endpoint in enumerate(endpoints):
        yield _name("process_name", rank, 0, f"rank {rank} {endpoint}")
        yield {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}
    tracks = 0
    lanes: list[tuple[int, int]] = []
    channel = (-1, "")
    for piece in slices:
        if (piece.rank, piece.channel) != channel:
            channel, lanes = (piece.rank, piece.channel), []
        if lanes and lanes[0][0] <= piece.start_ps:
            track = heapq.heappop(lanes)[1]
        else:
            tracks, track = tracks + 1, tracks
            yield _name("thread_name", piece.rank, track, piece.channel)
        heapq.heappush(lanes, (piece.end_ps, track))
        yield from _drawn(piece, track)


def _slices(recording: Recording) -> Iterator[_Slice]:
    for span in recording.spans:
        yield _Slice(span.rank, "calls", span.start_ps, span.end_ps, span.name, span.kind, {})
    for part in recording.parts:
        if part.end_ps > part.start_ps:
            yield _Slice(
                part.rank, "collectives", part.start_ps, part.end_ps, part.name, "transfer", {}
            )
    for number, move in enumerate(recording.moves):
        name = f"{move.what} {format_size(move.nbytes)}"
        ends = {"from": move.source, "to": move.destination, "bytes": move.nbytes}
        for rank, channel in ((move.source, "sends"), (move.destination, "receives")):
            yield _Slice(rank, channel, move.start_ps, move.end_ps, name, "transfer", ends, number)


def _drawn(piece: _Slice, track: int) -> Iterator[Json]:
    where = {"pid": piece.rank, "tid": track}
    begins, lasts = piece.start_ps / PS_PER_US, (piece.end_ps - piece.start_ps) / PS_PER_US
    yield {
        "ph": "X",
        "name": piece.name,
        "cat": piece.category,
        "ts": begins,
        "dur": lasts,
        "args": piece.arguments,
        **where,
    }
    if piece.arrow < 0:
        return
    arrow = {"name": "transfer", "cat": "transfer", "id": piece.arrow, **where}
    if piece.channel == "sends":
        yield {"ph": "s", "ts": begins, **arrow}
    else:
        # Bound to the slice that encloses it, so just before the slice's end.
        yield {"ph": "f", "bp": "e", "ts": (piece.end_ps - 1) / PS_PER_US, **arrow}


def _name(what: str, rank: int, track: int, name: str) -> Json:
    return {"ph": "M", "name": what, "pid": rank, "tid": track, "args": {"name": name}}
