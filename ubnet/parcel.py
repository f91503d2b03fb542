"""What posts and completions are on the way between processes: plain tuples.

Pickle writes and reads these five times as fast as named ones.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ubnet.access import Lock, Reach, Unlock
from ubnet.message import (
    Block,
    Cancel,
    Completion,
    Join,
    Leave,
    Poll,
    Post,
    Probe,
    Receive,
    Send,
    Sleep,
)

KINDS: tuple[Any, ...] = (
    *(Send, Receive, Probe, Cancel, Join, Block, Sleep, Poll, Leave),
    *(Reach, Lock, Unlock),
)
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}

Row = tuple[Any, ...]


def pack_posts(posts: Iterable[Post]) -> list[Row]:
    """Return posts as plain tuples, each behind the number of its kind.

    >>> unpack_posts(pack_posts([Sleep(0, 1, 500)]))
    [Sleep(rank=0, number=1, duration_ps=500)]
    """
    return [(NUMBERS[type(post)], *post) for post in posts]


def unpack_posts(rows: Iterable[Row]) -> list[Post]:
    """Return the posts that `pack_posts` has packed."""
    return [KINDS[row[0]]._make(row[1:]) for row in rows]


def pack_completions(completions: Iterable[tuple[int, Completion]]) -> list[Any]:
    """Return completions, each behind its rank, as plain tuples."""
    return [(rank, *done) for rank, done in completions]


def unpack_completions(rows: Sequence[Row]) -> list[tuple[int, Completion]]:
    """Return the completions that `pack_completions` has packed."""
    return [(row[0], Completion._make(row[1:])) for row in rows]
