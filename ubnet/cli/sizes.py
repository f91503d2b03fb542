"""The sizes of a bench: lists, geometric ranges, OSU's."""

from collections.abc import Callable, Iterable, Sequence

from ubnet.cli.notes import note
from ubnet.errors import OptionError
from ubnet.units import parse_size

OSU = "1:4MiB:2"
"""The sizes of the OSU micro-benchmarks: powers of two from 1 B to 4 MiB."""


def parse_sizes(text: str) -> list[int]:
    """Read sizes in bytes: ``64KiB``, ``1KiB:64MiB:4`` (from:to:factor), lists of both, ``osu``.

    >>> parse_sizes("512,4KiB:64KiB:4")
    [512, 4096, 16384, 65536]

    Raises
    ------
    UnitError
        If a size cannot be read.
    OptionError
        If a range does not grow from a size above zero.
    """
    sizes: list[int] = []
    for part in (OSU if text.strip() == "osu" else text).split(","):
        first, *rest = part.split(":")
        sizes += _between(part, first, *rest) if rest else [parse_size(first)]
    return sizes


def distinct(sizes: Sequence[int], count_of: Callable[[int], int], what: str) -> list[int]:
    """Leave out the sizes that would give a row over again, and say so on stderr.

    Parameters
    ----------
    sizes : sequence of int
        What was asked for, in bytes.
    count_of : callable
        The elements of a row where so many bytes were asked for.
    what : str
        What is done, and how an element is called.

    Returns
    -------
    list of int
        The first of each.
    """
    alike: dict[int, list[int]] = {}
    for size in sizes:
        alike.setdefault(count_of(size), []).append(size)
    for count, asked in alike.items():
        if len(set(asked)) > 1:
            listed = ", ".join(str(size) for size in dict.fromkeys(asked))
            note(f"{what}: sizes {listed} all come to a count of {count} and are one row")
    return [asked[0] for asked in alike.values()]


def rounding(dtype: str, asked_and_used: Iterable[tuple[int, int]]) -> list[str]:
    """Return the line of a legend that says that sizes are rounded, where any is.

    >>> rounding("float32", [(1001, 1000), (1024, 1024)])
    ['sizes that were asked for are rounded down to whole elements (float32) of every rank']
    """
    if all(asked == used for asked, used in asked_and_used):
        return []
    return [f"sizes that were asked for are rounded down to whole elements ({dtype}) of every rank"]


def note_empty(asked: int, used: int, what: str) -> None:
    """Say on stderr where nothing is left of a size, since only whole elements are moved."""
    if asked and not used:
        note(f"{what}: {asked} bytes hold no element for every rank, so the row has 0 bytes")


def _between(part: str, first: str, *rest: str) -> list[int]:
    factor = rest[1] if len(rest) > 1 else "2"
    if len(rest) > 2 or not factor.isdecimal() or int(factor) < 2:
        raise OptionError(
            f"{part!r} is no range of sizes: write from:to:factor with a factor of 2 or more, "
            "such as 1KiB:64MiB:4"
        )
    size, end = parse_size(first), parse_size(rest[0])
    if not 0 < size <= end:
        raise OptionError(f"{part!r} is no range of sizes: it must grow from a size above 0")
    sizes = []
    while size <= end:
        sizes.append(size)
        size *= int(factor)
    return sizes
