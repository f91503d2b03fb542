"""What can go wrong, named for the situation: every error that ubnet raises on purpose."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class UbnetError(Exception):
    """The base of all of ubnet's errors.

    A message says what was given, what is allowed and the right call, in one sentence. Errors of
    the command line, of files and of fabrics end with status 2 (nothing has run yet), errors of a
    running program with status 1.
    """

    exit_status = 2


class UnitError(UbnetError):
    """A size, rate or time that cannot be read, such as ``64X``."""


class FabricError(UbnetError):
    """A fabric that cannot be built, found or read."""


class NoRoute(UbnetError):
    """Two endpoints that the chosen plane or transport does not join."""


class OptionError(UbnetError):
    """An option or argument outside of what is allowed."""


class FlowError(UbnetError):
    """Flows that the engine refuses: negative sizes, times in the past, dependency cycles."""


class ScheduleError(UbnetError):
    """A schedule that is malformed, unsafe or unknown."""


class CapacityExceeded(UbnetError):
    """A static buffer or the machine's memory that is too small for what was asked."""

    exit_status = 1


class AccessRefused(UbnetError):
    """A tenant that asks for what belongs to another one."""

    exit_status = 1


class MismatchedCall(UbnetError):
    """Ranks of one communicator that disagree on a collective call."""

    exit_status = 1


class Truncated(UbnetError):
    """A message that is longer than the buffer which receives it."""

    exit_status = 1


class OutsideWindow(UbnetError):
    """A one-sided access that touches more than its window."""

    exit_status = 1


class Deadlock(UbnetError):
    """No rank can run and nothing is pending."""

    exit_status = 1


class OutputError(UbnetError):
    """A result file that cannot be written."""

    exit_status = 1


class RankFailed(UbnetError):
    """A rank that raised: the message holds its number and traceback."""

    exit_status = 1


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return the tail of a message about an unknown name: the nearest ones, or all of them.

    >>> did_you_mean("die_write", ["die_write_", "cpu"])
    'did you mean die_write_?'
    >>> did_you_mean("zzz", ["ring", "mesh"])
    'allowed: ring, mesh'
    """
    names: Sequence[str] = list(allowed)
    near = get_close_matches(given, names, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    shown = ", ".join(names[:12])
    return f"allowed: {shown}" + (f" ... ({len(names)} in all)" if len(names) > 12 else "")
