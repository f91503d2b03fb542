"""What stderr gets: notes, a progress bar or lines in its place, never results."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

FIRST_NOTE_S = 20.0
"""Without a bar a line says how far long work is: after so many seconds, then twice as many."""

WITHOUT_BYTES = "--payload size moves no bytes"
"""What can be done instead of moving many bytes."""

BAR_AFTER_S = 1.0
"""A single piece of work gets a bar of its own when it takes longer than this."""

_bars: "list[Progress]" = []  # the bar that is on the screen, if any


def note(text: str) -> None:
    """Print a note on stderr."""
    click.echo(f"ubnet: {text}", err=True)


def progress(items: Sequence[T], what: str, *, as_json: bool = False) -> Iterator[T]:
    """Pass through the items while a bar on stderr counts them.

    A terminal alone shows it, and not one on which lines of JSON appear meanwhile: there, a line
    now and then says how many are done.
    """
    if not sys.stderr.isatty() or (as_json and sys.stdout.isatty()):
        notes = _Notes(what)
        for number, item in enumerate(items):
            notes.say(f"{number} of {len(items)} done")  # how long the others take is not known
            yield item
        return
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        _bars.append(bar)
        try:
            yield from bar.track(items, description=what)
        finally:
            _bars.remove(bar)


@contextmanager
def long_work(what: str, instead: str) -> Iterator[Callable[[float], None]]:
    """Show how far one piece of work is, if it is long; the block calls what it gets with 0 to 1.

    Below the bar of `progress` where that is on the screen, else by a line now and then, which
    says what could be done `instead`.
    """
    if not _bars:
        notes = _Notes(what, f" ({instead})")
        yield lambda done: notes.say(f"{100 * done:.1f} % done", done)
        return
    bar, begun = _bars[-1], monotonic()
    task = bar.add_task(what, total=1.0, visible=False)
    try:
        yield lambda done: bar.update(
            task, completed=done, visible=monotonic() - begun > BAR_AFTER_S
        )
    finally:
        bar.remove_task(task)


class _Notes:
    """Lines about long work, each after twice the time of the one before."""

    def __init__(self, what: str, last: str = "") -> None:
        self.what, self.last = what, last
        self.begun, self.wait_s = monotonic(), FIRST_NOTE_S

    def say(self, how_far: str, done: float = 0.0) -> None:
        """Print a line if it is time for one; `done` runs from 0 to 1, where that is known."""
        taken_s = monotonic() - self.begun
        if taken_s < self.wait_s:
            return
        self.wait_s = 2 * taken_s
        left = f", about {_duration(taken_s * (1 - done) / done)} to go" if done > 0 else ""
        note(f"{self.what}: {how_far} after {_duration(taken_s)}{left}{self.last}")


def _duration(seconds: float) -> str:
    """Say a time in words.

    >>> _duration(45.2), _duration(130), _duration(9000)
    ('45 s', '2 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
