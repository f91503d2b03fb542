"""The sizes of a bench: lists, geometric ranges, OSU's."""

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


def note_empty(asked: int, used: int, what: str) -> None:
    """Say on stderr where nothing is left of a size, since only whole elements are moved."""
    if asked and not used:
        note(f"{what}: {asked} bytes hold no element for every rank, so the row has 0 bytes")


def _between(part: str, first: str, *rest: str) -> list[int]:
    factor = rest[1] if len(rest) > 1 else "2"
    if len(rest) > 2 or not factor.isdigit() or int(factor) < 2:
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
