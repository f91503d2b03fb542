"""The options that several benches share, and what they stand for."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ubnet.cli.memory import PAYLOADS
from ubnet.cli.rank_counts import read_rank_counts
from ubnet.cli.sizes import parse_sizes
from ubnet.errors import OptionError
from ubnet.place import read_place

if TYPE_CHECKING:
    from ubnet.fabric import Fabric

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_FABRIC = "cloudmatrix384"
TRANSPORTS_HELP = (
    "aiv|sdma|urma|roce|vpc of CloudMatrix384, or auto: the fastest by the model (urma only when "
    "asked for)."
)


class NamesOptions(click.Command):
    """A command that tells what is wrong by option, where our functions name their parameters."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; ``decode_tp=3`` of a message becomes ``--decode-tp 3``."""
        try:
            return super().invoke(ctx)
        except OptionError as error:
            text = str(error)
            for option in self.params:
                if isinstance(option, click.Option) and option.name:
                    text = re.sub(rf"\b{option.name}=", f"{option.opts[0]} ", text)
                    if "_" in option.name:
                        text = re.sub(rf"\b{option.name}\b", option.opts[0], text)
            raise OptionError(text) from None


S_OF_A_ROW = "S of each row, rounded down to whole elements of every rank"


def sizes_option(default: str, what: str = S_OF_A_ROW) -> Callable[[F], F]:
    """Return ``--sizes`` with a default; the command gets bytes."""
    return click.option(
        "--sizes",
        default=default,
        show_default=True,
        metavar="SIZES",
        callback=lambda ctx, param, value: parse_sizes(value),
        help=f"{what}: 64KiB, a list 1KiB,1MiB, a range 1KiB:64MiB:4 (from:to:factor), "
        "or osu (1 B to 4 MiB, doubling, as OSU does). A size without a unit is bytes.",
    )


def dtype_option(default: str) -> Callable[[F], F]:
    """Return ``--dtype`` with a default."""
    return click.option(
        "--dtype", default=default, show_default=True, help="Type of an element, as numpy names it."
    )


def fabric_options(command: F) -> F:
    """Add ``--fabric``, ``--plane``, ``--paths``, ``--aiv-cores`` and ``--transport``."""
    return _add(
        command,
        click.option(
            "--fabric",
            "fabric_name",
            default=DEFAULT_FABRIC,
            show_default=True,
            metavar="NAME|FILE",
            help="A fabric of `ubnet topo list`, or a TOML file of your own.",
        ),
        click.option(
            "--plane", help="ub|rdma|vpc; by default that of --transport, else the first."
        ),
        click.option("--paths", help="spray|ecmp|hash: how a flow uses parallel paths."),
        click.option("--aiv-cores", type=int, help="Vector cores for AIV-Direct (of 48)."),
        click.option("--transport", help=f"{TRANSPORTS_HELP} A list gives rows for each."),
    )


def ranks_option(command: F) -> F:
    """Add ``--ranks``, a list; the command gets None where it is not given."""
    return click.option(
        "--ranks",
        metavar="RANKS",
        callback=_read_ranks,
        help="How many, a list 8,16, or a range 8:320 (doubling, the end included); by default "
        "all that --place holds.",
    )(command)


def _read_ranks(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    return None if value is None else read_rank_counts("--ranks", value, least=0)


def place_option(command: F) -> F:
    """Add ``--place``."""
    return click.option(
        "--place",
        default="die",
        show_default=True,
        metavar="PLACE",
        callback=lambda ctx, param, value: read_place(value),
        help="Where ranks sit: die, npu, node, cpu (one on each), or a list of endpoints "
        "(one that stands twice holds two ranks).",
    )(command)


def payload_options(command: F) -> F:
    """Add ``--payload`` and ``--seed``."""
    return _add(
        command,
        click.option(
            "--payload",
            type=click.Choice(PAYLOADS),
            default="auto",
            show_default=True,
            help="Move and check real bytes, or count them; auto: real where half of the free "
            "memory holds it.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**31 - 1),
            default=1,
            show_default=True,
            help="Of the numbers that are sent.",
        ),
    )


def output_options(command: F) -> F:
    """Add ``--json`` and ``--plot``."""
    return _add(
        command,
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line."),
        click.option(
            "--plot",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Draw latency and bandwidth against size, or of one size against ranks, into a "
            "PNG, SVG or PDF file.",
        ),
    )


def _add(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True)
class Way:
    """A fabric, and the plane and transport to use on it.

    Attributes
    ----------
    fabric : Fabric
        Where a bench runs.
    plane : str
        The plane that carries it.
    transport : str
        A transport's name, or ``auto``.
    """

    fabric: "Fabric"
    plane: str
    transport: str


def choose_ways(
    fabric_name: str = DEFAULT_FABRIC,
    plane: str | None = None,
    paths: str | None = None,
    aiv_cores: int | None = None,
    transport: str | None = None,
    *,
    usual: str = "auto",
) -> list[Way]:
    """Load the fabric and settle plane and transports; one way for each transport of the list.

    Parameters
    ----------
    fabric_name, plane, paths, aiv_cores, transport
        What the user wrote; None = not given.
    usual : str
        What is used where no transport is given, as far as the fabric has it on that plane.

    Raises
    ------
    UbnetError
        If there is no such fabric, plane or transport, or if they do not fit together.
    """
    from ubnet.fabrics import load_fabric

    options: dict[str, Any] = {} if aiv_cores is None else {"aiv_cores": aiv_cores}
    if paths is not None:
        options["rdma_paths" if plane == "rdma" or transport == "roce" else "paths"] = paths
    fabric = load_fabric(fabric_name, **options)
    if transport is None:
        known = [fabric.transports[t] for t in usual.split(",") if t in fabric.transports]
        names = [t.name for t in known if plane in (None, t.plane)]
    else:
        names = transport.split(",")
    return [_way(fabric, plane, name) for name in names or ["auto"]]


def _way(fabric: "Fabric", plane: str | None, transport: str) -> Way:
    if transport == "auto":
        return Way(fabric, fabric.plane(plane or next(iter(fabric.planes))).name, transport)
    own = fabric.transport(transport).plane
    if plane not in (None, own):
        raise OptionError(
            f"transport {transport} moves bytes over plane {own}, not {plane}: "
            f"leave --transport or --plane out"
        )
    return Way(fabric, own, transport)
