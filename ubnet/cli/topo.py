"""The command ``ubnet topo``: list, show and check fabrics."""

import sys
from collections.abc import Sequence
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ubnet.fabric import Fabric
from ubnet.fabrics import fabric_names, load_fabric
from ubnet.proof import FAULT, NO, Finding, check_fabric
from ubnet.report.table import open_console, print_whole
from ubnet.survey import Cables, bisection, count_cables, node_uplinks, plane_members
from ubnet.transport import READ, WRITE, Transport

PLURALS = {"die": "dies", "cpu": "CPUs", "nic": "NICs"}

_paths = click.option(
    "--paths",
    type=click.Choice(["spray", "ecmp", "hash"]),
    help="How a flow uses parallel paths; by default what the fabric says.",
)


@click.group(invoke_without_command=True)
@click.pass_context
def topo(context: click.Context) -> None:
    """List, show and check fabrics: those that ubnet brings, or a file of your own."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@topo.command("list")
def list_fabrics() -> None:
    """List the fabrics that ubnet brings."""
    console = _console()
    rows = []
    for name in fabric_names():
        fabric = load_fabric(name)
        counts = {kind: len(fabric.of_kind(kind)) for kind in ("die", "cpu")}
        dies = fabric.of_kind("die")
        npus = len(np.unique(fabric.package_of[dies]))
        if npus == len(np.unique(fabric.node_of[dies])):
            npus = len(dies)  # of a node that is one package each die is an NPU
        rows.append(
            [
                name,
                *_figures(_nodes(fabric), npus, counts["die"], counts["cpu"]),
                " ".join(fabric.planes),
                " ".join(fabric.transports),
            ]
        )
    titles = ["fabric", ">nodes", ">NPUs", ">dies", ">CPUs", "planes", "transports"]
    _print_table(console, titles, rows)
    _say(
        console,
        "ubnet topo show NAME tells more; a .toml, .graphml or .json file serves as a name, too",
    )


@topo.command()
@click.argument("fabric", metavar="NAME|FILE")
@_paths
@click.option("--constants", is_flag=True, help="Print every constant of the model as well.")
def show(fabric: str, paths: str | None, constants: bool) -> None:
    """Show what a fabric holds: counts, capacities, uplinks, bisection, transports."""
    found = _load(fabric, paths)
    console = _console()
    options = ", ".join(
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in found.options.items()
    )
    _say(console, f"{found.name}: {options}")
    _say(console, "counted from the fabric's arrays; rates are GB/s (1e9 bytes) in one direction")
    _print_table(console, ["what", ">number", ""], _counts(found))
    titles = ["plane", "from", "to", ">cables", ">directed links", ">GB/s a link", ">GB/s in all"]
    _print_table(console, [*titles, ">cable ns"], [_cables(c) for c in count_cables(found)])
    _print_uplinks(console, found)
    titles = ["transport", "plane", ">write us", ">read us", ">post us", ">engines GB/s", "notes"]
    _print_table(console, titles, [_transport(found, t) for t in found.transports.values()])
    _say(console, "write, read: start-up of one message, its posting (post) included; switches,")
    _say(console, "cables and bytes at the rate of the flow come on top")
    if constants:
        _print_constants(console, fabric)


@topo.command()
@click.argument("fabric", metavar="NAME|FILE")
@_paths
def check(fabric: str, paths: str | None) -> None:
    """Check that a fabric is whole, and prove what its pairs and nodes get.

    Ends with status 1 where something is at FAULT; "no" is a property, not a fault.
    """
    found = _load(fabric, paths)
    console = _console()
    policies = ", ".join(f"{plane.name} by {plane.paths}" for plane in found.planes.values())
    _say(console, f"{found.name}: planes {policies}")
    _say(console, "ok or FAULT: must hold; yes or no: may hold; computed from links and routes")
    findings: list[Finding] = []
    for finding in check_fabric(found):
        _print_finding(
            console, finding, heading=not findings or finding.plane != findings[-1].plane
        )
        findings.append(finding)
    faults = sum(f.verdict == FAULT for f in findings)
    _say(console, f"{len(findings)} checks, {faults} at fault")
    if faults:
        click.get_current_context().exit(1)


def _load(name: str, paths: str | None) -> Fabric:
    return load_fabric(name, **({"paths": paths} if paths else {}))


def _console() -> Console:
    return open_console(sys.stdout)


def _say(console: Console, line: str) -> None:
    console.print(Text(f"# {line}", style="dim"), soft_wrap=True)


def _counts(fabric: Fabric) -> list[list[str]]:
    """Return the rows of the first table: endpoints, packages, switches, racks."""
    dies = fabric.of_kind("die")
    npus = len(np.unique(fabric.package_of[dies]))
    racks = {e.rack for e in fabric.endpoints}
    rows = [["nodes", _nodes(fabric), f"in {_racks(len(racks))}"]]
    for kind in fabric.kinds:
        rows.append([PLURALS.get(kind, kind), len(fabric.of_kind(kind)), ""])
        if kind == "die" and len(np.unique(fabric.node_of[dies])) < npus < len(dies):
            rows[-1][2] = f"of {npus:,} NPUs (packages)"
    tiers: dict[str, list[int]] = {}
    for switch in fabric.switches:
        tiers.setdefault(switch.tier, []).append(switch.rack)
    for tier, stands in tiers.items():
        own = {rack for rack in stands if rack >= 0} - racks
        rows.append([f"{tier} chips" if tier in ("L1", "L2") else tier, len(stands), ""])
        rows[-1][2] = f"in {_racks(len(own), 'more ')}" if own else ""
    return [[str(name), f"{number:,}", str(note)] for name, number, note in rows]


def _cables(cables: Cables) -> list[str]:
    low, high = cables.latency_ps
    latency = f"{low / 1e3:g}" if low == high else f"{low / 1e3:g} to {high / 1e3:g}"
    least, most = (f"{rate / 1e9:,.5g}" for rate in cables.rate)
    return [
        cables.plane,
        cables.low,
        cables.high,
        *_figures(cables.cables, cables.directed),
        least if least == most else f"{least} to {most}",
        f"{cables.total / 1e9:,.0f}",
        latency,
    ]


def _print_uplinks(console: Console, fabric: Fabric) -> None:
    """Print, for each plane, what a node can send, what leaves it, and the bisection."""
    rows = []
    for name, plane in fabric.planes.items():
        if name not in fabric.plane_names:
            continue  # it has no links of its own
        uplinks = node_uplinks(fabric, name)
        cells = [_span(uplinks.dies), _span(uplinks.dies + uplinks.others)]
        alone = _nodes(fabric) < 2
        cells += ["-"] * 3 if alone else [_span(np.minimum(uplinks.out, uplinks.back))]
        if not alone:
            has_dies = bool(uplinks.dies.any())
            cells.append(f"{uplinks.convergence(everything=False):.2f}:1" if has_dies else "-")
            cells.append(f"{uplinks.convergence(everything=True):.2f}:1")
        cut = "-"
        if len(plane_members(fabric, name)) > 1:
            cut = f"{bisection(fabric, name).rate / 1e9:,.0f}"
        rows.append([name, plane.paths, *cells, cut])
    titles = ["per node", "paths", ">ports of dies", ">of all", ">uplink", ">dies : uplink"]
    _print_table(console, [*titles, ">all : uplink", ">bisection"], rows)


def _transport(fabric: Fabric, transport: Transport) -> list[str]:
    """Return the row of a transport; a start-up holds the posting of one message."""
    engines = [
        f"{kind} {fabric.capacity[fabric.engines[kind].max()] / 1e9:.4g}"
        for kind in transport.engine.values()
    ]
    notes = []
    if transport.engine_fraction < 1:
        notes.append(f"draws {100 * transport.engine_fraction:.0f} % of its engines")
    if transport.wire_share > 1:
        notes.append(f"{transport.wire_share:.3f} bytes on the wire per byte")
    if np.isfinite(transport.rate_cap):
        notes.append(f"at most {transport.rate_cap / 1e9:g} GB/s a flow")
    return [
        transport.name,
        transport.plane,
        *(_startup(transport, op) for op in (WRITE, READ)),
        f"{transport.post_ps / 1e6:g}",
        ", ".join(engines) or "-",
        "; ".join(notes),
    ]


def _startup(transport: Transport, op: str) -> str:
    """Print the start-up in us for each kind of passive side that has its own."""
    cells = [
        f"{value / 1e6:g}" if kind == "*" else f"{kind} {value / 1e6:g}"
        for (its_op, kind), value in transport.startup_ps.items()
        if its_op == op
    ]
    return ", ".join(cells)


def _print_constants(console: Console, name: str) -> None:
    if name not in fabric_names():
        _say(console, f"the constants of {name} are those of the file: nothing else is assumed")
        return
    from ubnet.topologies.constants import CONSTANTS

    _say(console, "sources: P arXiv 2506.12708, W white paper, S arXiv 2607.26444,")
    _say(console, "X arXiv 2508.02520, N press 2025-06, D derived; assumed: not published")
    rows = [[key, *_in_units(c.value, c.unit), c.source, c.why] for key, c in CONSTANTS.items()]
    _print_table(console, ["constant", ">value", "unit", "source", "what it is"], rows)


def _in_units(value: float, unit: str) -> tuple[str, str]:
    """Print a rate in GB/s and a time in us."""
    scale, shown = {"B/s": (1e9, "GB/s"), "ps": (1e6, "us")}.get(unit, (1, unit))
    return f"{value / scale:,.10g}", shown


def _racks(count: int, more: str = "") -> str:
    return f"{count} {more}rack{'s' if count > 1 else ''}"


def _nodes(fabric: Fabric) -> int:
    return len(np.unique(fabric.node_of))


def _figures(*numbers: int) -> list[str]:
    return [f"{number:,}" for number in numbers]


def _span(rates: Any) -> str:
    """Print rates of all nodes in GB/s: one figure where they are equal."""
    low, high = (f"{rate / 1e9:,.6g}" for rate in (rates.min(), rates.max()))
    return low if low == high else f"{low} to {high}"


def _print_finding(console: Console, finding: Finding, *, heading: bool) -> None:
    """Print a claim with its verdict, and the figures on a line of their own."""
    if heading:
        title = f"plane {finding.plane}" if finding.plane else "whole fabric"
        console.print(Text(title, style="bold"))
    style = {FAULT: "red", NO: "yellow"}.get(finding.verdict, "green")
    line = Text.assemble((f"{finding.verdict:>5}", style), "  ", finding.claim)
    console.print(line, soft_wrap=True)
    console.print(Text(f"         {finding.evidence}", style="dim"), soft_wrap=True)


def _print_table(console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose lines are never wrapped or cut; a title with ``>`` aligns right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        right = title.startswith(">")
        table.add_column(title.lstrip(">"), justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    print_whole(table, console)
    console.print()
