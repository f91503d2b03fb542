"""What stderr gets: notes and a progress bar, never results."""

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

import click

T = TypeVar("T")


def note(text: str) -> None:
    """Print a note on stderr."""
    click.echo(f"ubnet: {text}", err=True)


def progress(items: Sequence[T], what: str, *, as_json: bool = False) -> Iterator[T]:
    """Pass through the items while a bar on stderr counts them.

    A terminal alone shows it, and not one on which lines of JSON appear meanwhile.
    """
    if not sys.stderr.isatty() or (as_json and sys.stdout.isatty()):
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False)
    with bar:
        yield from bar.track(items, description=what)
