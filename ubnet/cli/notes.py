"""What stderr gets: notes and a progress bar, never results."""

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

import click

T = TypeVar("T")


def note(text: str) -> None:
    """Print a note on stderr."""
    click.echo(f"ubnet: {text}", err=True)


def progress(items: Sequence[T], what: str) -> Iterator[T]:
    """Pass through the items while a bar on stderr counts them; a terminal alone shows it."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, description=what)
