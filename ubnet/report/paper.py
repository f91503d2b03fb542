"""Published figures beside ubnet's own, section by section: what ``ubnet paper`` prints."""

from collections.abc import Callable, Iterator

from ubnet.errors import OptionError, did_you_mean
from ubnet.fabric import Fabric

from .paper_collectives import collective_rows
from .paper_figure import Figure
from .paper_moe import h800_rows, moe_predictions, moe_rows, skew_rows
from .paper_pool import loading_rows, pool_rows
from .paper_steps import step_rows
from .paper_transfers import kv_rows, shape_rows, transfer_rows

Section = Callable[[Callable[..., Fabric]], Iterator[Figure]]
"""Yields the figures of a section; the argument loads a fabric, as `load_fabric` does."""


def section(name: str) -> Section:
    """Return what yields the figures of a section.

    Raises
    ------
    OptionError
        If there is none of that name.
    """
    if name not in SECTIONS:
        hint = did_you_mean(name, SECTIONS)
        raise OptionError(f"ubnet paper has no section {name!r}; {hint}")
    return SECTIONS[name]


SECTIONS: dict[str, Section] = {
    "shape": shape_rows,
    "transfers": transfer_rows,
    "collectives": collective_rows,
    "moe": moe_rows,
    "h800": h800_rows,
    "kv": kv_rows,
    "loading": loading_rows,
    "pool": pool_rows,
    "steps": step_rows,
    "skew": skew_rows,
    "predictions": moe_predictions,
}
"""All sections, in the order in which they are printed."""

NOTES: dict[str, tuple[str, ...]] = {
    "moe": (
        "compare microseconds: the GB/s that P prints beside them count the bytes 2^20 / 10^6 =",
        "1.0486 times larger than they are, so that bench moe shows lower ones",
    ),
    "collectives": (
        "S publishes a ring's time over the one-step mesh's by size, but not of how many ranks;",
        "who leads from 8 MiB on depends on what many targets cost an engine, assumed 10 %",
    ),
}
"""What stands above the figures of a section."""
