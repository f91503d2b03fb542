"""Where the time of a program went: for each rank its calls, bytes and busiest peer; busy links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from ubnet.fabric import Fabric
from ubnet.recording import COMPUTE, Recording
from ubnet.report.table import Column, figure, open_console, print_columns, print_lines

PS_PER_US = 1_000_000
SHOWN_RANKS = 64
SHOWN_LINKS = 5

LEGEND = (
    "virtual time; a rank computes, is blocked in a call, or goes on at once",
    "sent and received: bytes of the program, collective operations included; peer: the rank that",
    "most bytes were exchanged with",
)


@dataclass(slots=True)
class RankSummary:
    """What one rank did.

    Attributes
    ----------
    rank : int
        Which.
    compute_ps, blocked_ps : int
        Time that it computed, and that it was blocked.
    calls : dict of str to int
        Picoseconds that it was blocked in each call.
    sent, received : int
        Bytes.
    peer, peer_bytes : int
        The rank that it exchanged most bytes with, -1 if none, and how many.
    """

    rank: int
    compute_ps: int = 0
    blocked_ps: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    peer: int = -1
    peer_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LinkSummary:
    """What one resource carried, and the share of its capacity that this used."""

    name: str
    nbytes: float
    utilisation: float


def summarise(recording: Recording, ranks: int) -> list[RankSummary]:
    """Return what each rank did."""
    rows = [RankSummary(rank) for rank in range(ranks)]
    for span in recording.spans:
        row, lasted = rows[span.rank], span.end_ps - span.start_ps
        if span.kind == COMPUTE:
            row.compute_ps += lasted
        else:
            row.blocked_ps += lasted
            row.calls[span.name] = row.calls.get(span.name, 0) + lasted
    exchanged: dict[tuple[int, int], int] = {}
    for (source, destination), nbytes in recording.pairs.items():
        rows[source].sent += nbytes
        rows[destination].received += nbytes
        for pair in ((source, destination), (destination, source)):
            exchanged[pair] = exchanged.get(pair, 0) + nbytes
    for (rank, peer), nbytes in sorted(exchanged.items()):
        if nbytes > rows[rank].peer_bytes and peer != rank:
            rows[rank].peer, rows[rank].peer_bytes = peer, nbytes
    return rows


def busiest_links(
    report: Mapping[str, float], fabric: Fabric, time_ps: int, count: int = SHOWN_LINKS
) -> list[LinkSummary]:
    """Return the resources that used most of their capacity, the busiest first.

    Parameters
    ----------
    report : mapping of str to float
        Bytes that each has carried, as `ubnet.world.Result` says.
    fabric : Fabric
        Whose resources they are.
    time_ps : int
        How long the program took.
    count : int
        How many to return.
    """
    if not time_ps:
        return []
    capacity = dict(zip(fabric.resource_names, fabric.capacity.tolist(), strict=True))
    rows = [
        LinkSummary(name, nbytes, nbytes / (capacity[name] * time_ps / 1e12))
        for name, nbytes in report.items()
    ]
    return sorted(rows, key=lambda row: (-row.utilisation, row.name))[:count]


def print_summary(
    file: IO[str],
    recording: Recording,
    ranks: int,
    links: Sequence[LinkSummary],
    time_ps: int,
) -> None:
    """Print a line a rank, then the busiest links; of many ranks the first and the last."""
    console = open_console(file)
    rows = summarise(recording, ranks)
    print_lines(
        [f"{ranks} ranks, {figure(time_ps / PS_PER_US)} us; {LEGEND[0]}", *LEGEND[1:]], console
    )
    columns = [
        Column[RankSummary]("# rank", "#", lambda r: str(r.rank), True),
        Column[RankSummary]("compute", "(us)", lambda r: figure(r.compute_ps / PS_PER_US)),
        Column[RankSummary]("blocked", "(us)", lambda r: figure(r.blocked_ps / PS_PER_US)),
        Column[RankSummary]("sent", "(kB)", lambda r: figure(r.sent / 1e3)),
        Column[RankSummary]("received", "(kB)", lambda r: figure(r.received / 1e3)),
        Column[RankSummary]("peer", "", lambda r: "-" if r.peer < 0 else str(r.peer)),
        Column[RankSummary]("blocked in", "(us)", _calls, True),
    ]
    if len(rows) > SHOWN_RANKS:
        half = SHOWN_RANKS // 2
        print_columns(rows[:half], columns, console)
        print_lines([f"... {len(rows) - 2 * half} more ranks ..."], console)
        rows = rows[-half:]
    print_columns(rows, columns, console)
    if links:
        shown = [
            Column[LinkSummary]("# busiest link", "#", lambda link: link.name, True),
            Column[LinkSummary]("carried", "(kB)", lambda link: figure(link.nbytes / 1e3)),
            Column[LinkSummary]("used", "(%)", lambda link: f"{100 * link.utilisation:.1f}"),
        ]
        print_columns(links, shown, console)


def _calls(row: RankSummary) -> str:
    ordered = sorted(row.calls.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {figure(time / PS_PER_US)}" for name, time in ordered)
