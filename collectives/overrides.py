"""Which algorithm the user asks for by the environment: oneCCL's form, or HCCL's own."""

import os
from collections.abc import Mapping

from ubnet.errors import OptionError
from ubnet.units import parse_size

from .registry import Operation

HCCL_NAMES = {
    "fullmesh": "mesh",
    "h-d_r": "halving_doubling",
    "pipeline": "ring",
    "pairwise": "mesh",
    "double-ring": "ring",
}
"""HCCL's names of algorithms that are called otherwise here; a level knows one ring."""

NOT_CHOSEN = {0: "mesh"}
"""What stands for NA at a level; above level 0 it is nhr, HCCL's own default for many servers."""


def override(known: Operation, size_bytes: int, environment: Mapping[str, str]) -> str | None:
    """Return the algorithm that the environment wants for an operation, None = no wish.

    ``UBNET_ALL_REDUCE="recursive_doubling:0-8KiB;ring:8KiB-max"`` is asked first: sizes from the
    first one on and below the second, ``max`` included. ``HCCL_ALGO="level0:NA;level1:ring"``
    comes second, for operations that are composed of levels; with ``op=`` in front, as in
    ``HCCL_ALGO="allreduce=level0:NA;level1:ring/others=level0:NA;level1:NHR"``, by operation.

    Raises
    ------
    OptionError
        If what stands there cannot be read, or names an algorithm that does not exist.

    Examples
    --------
    >>> from ubnet.collectives import operation
    >>> wish = {"UBNET_ALL_REDUCE": "mesh:0-8KiB;ring:8KiB-max"}
    >>> [override(operation("all_reduce"), size, wish) for size in (8191, 8192)]
    ['mesh', 'ring']
    >>> override(operation("all_reduce"), 1, {"HCCL_ALGO": "level0:NA;level1:H-D_R"})
    'level0:mesh;level1:halving_doubling'
    """
    variable = f"UBNET_{known.name.upper()}"
    if environment.get(variable):
        return _by_size(known, size_bytes, variable, environment[variable])
    if environment.get("HCCL_ALGO") and known.leveled and known.name != "all_to_all":
        return _by_level(known, environment["HCCL_ALGO"])
    return None


def environment_override(known: Operation, size_bytes: int) -> str | None:
    """Return what the process's own environment wants."""
    return override(known, size_bytes, os.environ)


def _by_size(known: Operation, size_bytes: int, variable: str, text: str) -> str | None:
    for part in filter(None, text.split(";")):
        name, _, sizes = part.partition(":") if not part.startswith("level") else (part, "", "")
        low, _, high = (sizes or "0-max").partition("-")
        if name not in known.algorithms and not name.startswith("level"):
            names = ", ".join(known.algorithms)
            raise OptionError(f"{variable}={text!r}: {name!r} is none of {names}")
        try:
            first = parse_size(low)
            last = None if high == "max" else parse_size(high)
        except Exception:
            raise OptionError(
                f"{variable}={text!r}: {part!r} is not NAME:FROM-TO, such as ring:8KiB-max"
            ) from None
        if first <= size_bytes and (last is None or size_bytes < last):
            return name
    return None


def _by_level(known: Operation, text: str) -> str | None:
    """Return the levels that HCCL_ALGO gives an operation, in this library's names."""
    chosen = text
    if "=" in text:
        parts = dict(part.partition("=")[::2] for part in text.split("/"))
        plain = known.name.replace("_", "")
        chosen = parts.get(plain, parts.get("others", ""))
        if not chosen:
            return None
    levels = levels_of(chosen)
    return ";".join(f"level{i}:{name}" for i, name in enumerate(levels))


def levels_of(text: str) -> tuple[str, ...]:
    """Return the algorithm of each level, from level 0 up.

    >>> levels_of("level0:NA;level1:NHR")
    ('mesh', 'nhr')

    Raises
    ------
    OptionError
        If the text has another form or leaves a level out.
    """
    found: dict[int, str] = {}
    for part in filter(None, text.strip().split(";")):
        level, _, name = part.partition(":")
        number = level.removeprefix("level")
        if not level.startswith("level") or not number.isdecimal() or not name:
            raise OptionError(
                f"{text!r} is no list of levels: give level0:NAME;level1:NAME, such as "
                f"level0:NA;level1:ring"
            )
        plain = name.strip().lower()
        if plain in ("na", "null"):
            plain = NOT_CHOSEN.get(int(number), "nhr")
        found[int(number)] = HCCL_NAMES.get(plain, plain)
    if sorted(found) != list(range(len(found))) or not found:
        raise OptionError(f"{text!r} leaves a level out: give level0, level1 ... without a gap")
    return tuple(found[level] for level in range(len(found)))
