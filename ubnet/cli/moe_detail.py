"""What ``ubnet bench moe --detail`` prints below its table."""

import sys

from ubnet.collectives.expert_parallel import ExpertParallel
from ubnet.collectives.staged import FusedTiming
from ubnet.report.moe_detail import Spread, load_picture, spreads
from ubnet.report.table import Column, figure, open_console, print_columns, print_lines
from ubnet.units import format_size


def print_details(runs: list[tuple[str, ExpertParallel, FusedTiming]]) -> None:
    """Print the spreads of every row, and a picture of the experts' load."""
    columns = [
        Column[Spread]("# over ranks, peers, experts", "#", lambda s: s.what, True),
        Column[Spread]("min", "", lambda s: figure(s.least)),
        Column[Spread]("mean", "", lambda s: figure(s.mean)),
        Column[Spread]("p99", "", lambda s: figure(s.p99)),
        Column[Spread]("max", "", lambda s: figure(s.most)),
        Column[Spread]("unit", "", lambda s: s.unit, True),
        Column[Spread]("max at", "", lambda s: str(s.where)),
    ]
    console = open_console(sys.stdout)
    for title, run, timing in runs:
        loads = run.plan.counts.sum(axis=0)
        buffer = run.buffer
        sized = (
            f"static buffer of a rank {format_size(buffer.nbytes)} = ranks {buffer.ranks} x max "
            f"tokens {buffer.slots} x message {buffer.message_bytes}"
        )
        picture = f"load of expert slots |{load_picture(loads)}|"
        print_lines(["", title, sized, picture], console)
        print_columns(list(spreads(run, timing)), columns, console)
