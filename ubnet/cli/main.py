"""The command ``ubnet``: its subcommands, and how every error ends.

This module imports click and nothing heavy, so that ``ubnet --help`` answers at once.
"""

import os
import select
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import NoReturn

import click

from ubnet import __version__
from ubnet.cli.lazy_group import LazyGroup
from ubnet.errors import UbnetError
from ubnet.garbage import seldom_collected

HELPS = {
    "bench": "Time an operation on a fabric, move its bytes, check the results.",
    "run": "Run a program written for mpi4py on the virtual supernode.",
    "topo": "List, show and check fabrics.",
    "explain": "Say why the automatic choice takes an algorithm.",
    "paper": "Print published figures beside ubnet's, with the error.",
}


def _load(name: str) -> click.Command:
    command: click.Command = getattr(import_module(f"ubnet.cli.{name}"), name)
    return command


@click.pass_context
def _start(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"ubnet {__version__}")
        context.exit()


ubnet = LazyGroup(
    "ubnet",
    HELPS,
    _load,
    callback=_start,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Print the version and stop.",
        )
    ],
    help="A CloudMatrix384 supernode on a laptop: runs communication code and times it in "
    "virtual time.",
)
"""The whole command line as one click command."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the word ``ubnet``; by default the process's own arguments.
    """
    sys.exit(run_command(sys.argv[1:] if arguments is None else list(arguments)))


def run_command(arguments: list[str]) -> int:
    """Run one command line and return its exit status.

    Every error that ubnet raises on purpose, and every wrong use, is one message on stderr:
    status 2 where nothing has run yet, 1 for a failed program or a file that cannot be written,
    130 after Ctrl-C. A reader of the output that closes it early is no error.
    """
    # How often Python looks for garbage in a user's program is that program's affair.
    looks = nullcontext() if arguments[:1] == ["run"] else seldom_collected()
    try:
        with looks, ubnet.make_context("ubnet", arguments) as context:
            ubnet.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        asked = getattr(error, "ctx", None)
        path = asked.command_path if asked else "ubnet"
        return _say(f"{error.format_message()} (see {path} --help)", error.exit_code)
    except UbnetError as error:
        if "BrokenPipeError" in str(error) and _output_is_closed():
            return 0  # a rank that printed for a reader which has gone
        return _say(str(error), error.exit_status)
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except BrokenPipeError:
        # What reads our output, such as head, has all that it wanted.
        _drop_output()
        return 0
    except OSError as error:
        return _say(_of_file(error), 1)
    except MemoryError as error:
        return _say(f"this needs more memory than there is: give less of it ({error})", 1)
    return 0


def _of_file(error: OSError) -> str:
    """Say which file failed and why; output that was not written must not fail once more at exit.

    An error without a name comes from a file that is open already: nearly always the output.
    """
    if error.filename is not None:
        return f"cannot write or read {error.filename}: {error.strerror}"
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    return f"cannot write the output: {error.strerror or error}"


def _output_is_closed() -> bool:
    """Say whether the output is a pipe that nothing reads any more."""
    watched = select.poll()
    watched.register(sys.stdout.fileno(), 0)
    closed = any(event & select.POLLERR for _, event in watched.poll(0))
    if closed:
        _drop_output()
    return closed


def _drop_output() -> None:
    """Let the flush at exit succeed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str, status: int) -> int:
    click.echo(f"ubnet: {message}", err=True)
    return status
