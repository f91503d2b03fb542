"""A recording as a Chrome trace: JSON that Perfetto and chrome://tracing open.

Each rank is a process of the trace. Its tracks are ``calls`` (computing, and the calls it is
blocked in), and channels: ``sends``, ``receives`` and ``collectives``, as many of each as there
were transfers at a time, so that the slices of a track never overlap. An arrow leads from each
transfer's slice at its source to that at its destination; in a collective operation from the part
of each rank to those of the ranks that it sends to, unless there are more than a thousand. After a
deadlock the call that a rank never came back from reaches beyond the end of all else.
"""

import heapq
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

from ubnet.recording import Part, Recording
from ubnet.units import format_size

PS_PER_US = 1_000_000

BEYOND = 1 / 20
"""So far, of all the time, what never ends reaches beyond it; it has to be seen."""

MOST_ARROWS = 1000
"""Arrows that are drawn in one collective operation: more are no picture, and a large file."""

Json = dict[str, Any]


class _ArrowEnd(NamedTuple):
    """The beginning ("s") or the end ("f") of an arrow, inside of a slice."""

    phase: str
    at_ps: int
    number: int


class _Slice(NamedTuple):
    """A slice of a track, and the ends of arrows in it."""

    rank: int
    channel: str
    start_ps: int
    end_ps: int
    name: str
    category: str
    arguments: Json
    arrows: Sequence[_ArrowEnd] = ()


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
    over = _over_ps(recording)
    for call in recording.stuck:
        why = {"waits for": call.waits_for}
        yield _Slice(
            call.rank, "calls", call.start_ps, over, f"{call.name}, never ends", "deadlock", why
        )
    for number, move in enumerate(recording.moves):
        name = f"{move.what} {format_size(move.nbytes)}"
        ends = {"from": move.source, "to": move.destination, "bytes": move.nbytes}
        leaves = _ArrowEnd("s", move.start_ps, number)
        arrives = _ArrowEnd("f", move.end_ps - 1, number)
        for rank, channel, arrow in (
            (move.source, "sends", leaves),
            (move.destination, "receives", arrives),
        ):
            yield _Slice(
                rank, channel, move.start_ps, move.end_ps, name, "transfer", ends, (arrow,)
            )
    arrows = _collective_arrows(recording)
    for part in _lasting(recording):
        yield _Slice(
            part.rank,
            "collectives",
            part.start_ps,
            part.end_ps,
            part.name,
            "transfer",
            {},
            arrows[part.operation, part.rank],
        )


def _over_ps(recording: Recording) -> int:
    """Return where slices of what never ends are cut off."""
    times = (recording.spans, recording.moves, recording.parts)
    last = max((piece.end_ps for column in times for piece in column), default=0)
    last = max([last, *(call.start_ps for call in recording.stuck)])
    return last + max(int(last * BEYOND), PS_PER_US)


def _lasting(recording: Recording) -> Iterator[Part]:
    return (part for part in recording.parts if part.end_ps > part.start_ps)


def _collective_arrows(recording: Recording) -> dict[tuple[int, int], list[_ArrowEnd]]:
    """Return the ends of arrows in each rank's part of each collective operation."""
    parts = {(part.operation, part.rank): part for part in _lasting(recording)}
    arrows = defaultdict(list)
    number = len(recording.moves)
    for operation, exchange in recording.exchanges.items():
        if len(exchange.rows) > MOST_ARROWS:
            continue
        for row in exchange.rows:
            ends = [(operation, exchange.group[place]) for place in row[:2]]
            if not all(end in parts for end in ends):
                continue
            source, destination = (parts[end] for end in ends)
            # Nothing moves before both have come; an end is bound to the slice that encloses it.
            arrives = destination.end_ps - 1
            leaves = min(max(source.start_ps, destination.start_ps), source.end_ps, arrives)
            arrows[ends[0]].append(_ArrowEnd("s", leaves, number))
            arrows[ends[1]].append(_ArrowEnd("f", arrives, number))
            number += 1
    return arrows


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
    for phase, at_ps, number in piece.arrows:
        arrow = {"name": "transfer", "cat": "transfer", "id": number, "ph": phase, **where}
        yield {**arrow, "ts": at_ps / PS_PER_US, **({"bp": "e"} if phase == "f" else {})}


def _name(what: str, rank: int, track: int, name: str) -> Json:
    return {"ph": "M", "name": what, "pid": rank, "tid": track, "args": {"name": name}}
