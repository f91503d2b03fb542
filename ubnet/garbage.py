"""How often Python looks for garbage while ranks run, a command does, or a kernel is compiled."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 100_000
"""New objects before Python looks among them for cycles that nobody needs; its own 700 would be
reached by every few messages, and each look goes over what hundreds of suspended ranks hold, or
over all that was imported, or the compiler's half-made kernels."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let Python look for garbage seldom, unless the program has set how often itself.

    >>> with seldom_collected():
    ...     gc.get_threshold()[0] >= SELDOM
    True
    """
    young, *older = before = gc.get_threshold()
    if young:
        gc.set_threshold(max(young, SELDOM), *older)
    try:
        yield
    finally:
        gc.set_threshold(*before)
