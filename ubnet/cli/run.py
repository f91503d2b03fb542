"""``ubnet run``: a program written for mpi4py on the virtual supernode."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from ubnet.cli.notes import note
from ubnet.cli.options import DEFAULT_FABRIC, TRANSPORTS_HELP
from ubnet.errors import Deadlock, OptionError, OutputError, UbnetError

if TYPE_CHECKING:
    from ubnet.world import Result, World


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-n", "--ranks", type=int, help="Number of ranks; by default one a process of mpirun, or 1."
)
@click.option(
    "--place",
    default="die",
    show_default=True,
    metavar="die|npu|node|cpu|NAMES",
    help="Where they sit: one a die, NPU, node or CPU, or on endpoints such as "
    "node00.npu0.die0,node01.npu0.die0.",
)
@click.option(
    "--fabric",
    default=DEFAULT_FABRIC,
    show_default=True,
    metavar="NAME|FILE",
    help="A fabric of `ubnet topo list`, or a TOML file of your own.",
)
@click.option("--paths", help="spray|ecmp|hash: how a flow uses parallel paths.")
@click.option("--transport", default="auto", show_default=True, help=TRANSPORTS_HELP)
@click.option(
    "--rendezvous",
    type=click.Choice(["read", "write"]),
    default="read",
    show_default=True,
    help="Who moves a large message: its receiver reads it, or its sender writes it.",
)
@click.option(
    "--eager",
    metavar="SIZE",
    default="64KiB",
    show_default=True,
    help="The largest message that is sent before its receive is known.",
)
@click.option(
    "--compute",
    default="free",
    show_default=True,
    metavar="free|measured[:SCALE]",
    help="What a rank's own computing costs in virtual time.",
)
@click.option("--tag-output", is_flag=True, help="Begin each line of output with its rank.")
@click.option(
    "--digest",
    is_flag=True,
    help="Print the virtual time and the SHA-256 of all events at the end.",
)
@click.option(
    "--events",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a line for each event: time_ps, kind, source, destination, tag, bytes.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a Chrome trace of ranks and transfers, which Perfetto opens; of a deadlock, too.",
)
@click.option(
    "--summary",
    is_flag=True,
    help="Print each rank's time in its calls, its bytes and busiest peer, and the busiest links.",
)
@click.option(
    "--shuffle",
    type=click.IntRange(0),
    metavar="SEED",
    help="Run ranks in random order: nothing may change.",
)
@click.argument("program", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    program: Path,
    arguments: tuple[str, ...],
    ranks: int | None,
    place: str,
    eager: str,
    events: Path | None,
    trace: Path | None,
    summary: bool,
    tag_output: bool,
    digest: bool,
    **options: Any,
) -> None:
    """Run PROGRAM with ARGUMENTS on every rank, in virtual time.

    The program uses mpi4py as ever: `from mpi4py import MPI`. It runs in this process, or under
    mpirun in all of its processes, with the same times and results.
    """
    from ubnet.mpi.install import install
    from ubnet.program import Program
    from ubnet.units import parse_size

    if trace is not None and events is not None and trace.resolve() == events.resolve():
        raise OptionError(f"--trace and --events both name {trace}; give each a file of its own")
    install()
    script = Program(program, arguments)
    with _reported_once():
        deadlock = None
        try:
            with (
                _opened(events, "events") as file,
                _opened(trace, "trace", whole=True) as trace_file,
            ):
                from ubnet.launch import make_world

                world = make_world(
                    ranks,
                    place=place.split(",") if "," in place or "." in place else place,
                    eager_bytes=parse_size(eager),
                    events=file,
                    **options,
                )
                world.host.enter = script.enter
                if trace is not None or summary:
                    world.record()
                if trace is not None and trace_file is not None and trace.is_file():
                    trace.unlink()  # however this run ends, no earlier one's passes for its own
                try:
                    with script.in_place(), _tagged(tag_output):
                        result = world.run(script.run)
                except Deadlock as error:  # what was recorded is wanted all the more
                    deadlock = error
                if trace_file is not None:
                    _write_trace(trace_file, world)
        except OutputError as error:
            if deadlock is None:
                raise
            note(str(error))  # a full disk must not hide how the run ended
        else:
            if deadlock is not None and trace_file is not None:
                note(f"the trace up to the deadlock is in {trace}")
        if deadlock is not None:
            raise deadlock
    if summary and _speaks():
        _print_summary(result, world)
    if digest and _speaks():
        _print_digest(result)


def _print_digest(result: "Result") -> None:
    click.echo(f"virtual time {result.time_ps} ps")
    click.echo(f"digest {result.digest}")


def _write_trace(file: IO[str], world: "World") -> None:
    from ubnet.report.chrome_trace import write_trace

    assert world.recording is not None
    write_trace(file, world.recording, world.host.endpoint_names)


def _print_summary(result: "Result", world: "World") -> None:
    from ubnet.report.summary import busiest_links, print_summary

    assert result.recording is not None
    links = busiest_links(result.report, world.fabric, result.time_ps)
    print_summary(sys.stdout, result.recording, world.host.size, links, result.time_ps)


def _speaks() -> bool:
    """Say whether this process reports for all of them: the first of mpirun, or the only one."""
    from ubnet.real_mpi import load_real_mpi, under_mpirun

    return not under_mpirun() or load_real_mpi().COMM_WORLD.rank == 0


@contextmanager
def _reported_once() -> Iterator[None]:
    """Let one process alone report an error that all of them have."""
    try:
        yield
    except UbnetError as error:
        if not _speaks():
            raise click.exceptions.Exit(error.exit_status) from None
        raise


@contextmanager
def _opened(path: Path | None, what: str, *, whole: bool = False) -> Iterator[IO[str] | None]:
    """Open a file for output, in the process that has what goes there.

    All processes learn whether it could be opened, so that they end together. What is worth
    something only as a `whole` takes its place at the end, and not at all where the run fails.
    """
    if path is None:
        yield None
        return
    file, target, problem = None, path, ""
    if _speaks():
        try:
            whole = whole and (path.is_file() or not path.exists())  # not /dev/stdout, say
            target = path.with_name(f"{path.name}.part") if whole else path
            file = target.open("w", encoding="utf-8")
        except OSError as error:
            problem = f"the {what} cannot be written to {path}: {error.strerror}"
    problem = _told_by_the_first(problem)
    if problem:
        raise OutputError(problem)
    try:
        with file or nullcontext():
            yield file
        if file is not None and target != path:
            target.replace(path)
    except OSError as error:
        if error.filename is not None:
            raise
        raise OutputError(f"the {what} cannot be written to {path}: {error.strerror}") from None
    finally:
        if file is not None and target != path:
            target.unlink(missing_ok=True)


def _told_by_the_first(text: str) -> str:
    """Return what the process that reports has to say, in every process."""
    from ubnet.real_mpi import load_real_mpi, under_mpirun

    return str(load_real_mpi().COMM_WORLD.bcast(text)) if under_mpirun() else text


@contextmanager
def _tagged(wanted: bool) -> Iterator[None]:
    """Let lines of output begin with their rank."""
    if not wanted:
        yield
        return
    from ubnet.tagged import TaggedStream

    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = TaggedStream(sys.stdout), TaggedStream(sys.stderr)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.finish()
        sys.stdout, sys.stderr = kept
