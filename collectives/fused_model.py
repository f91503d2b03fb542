"""What the fused dispatch and combine cost beside the bytes on the fabric: a table of constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ubnet.units import PS_PER_US


@dataclass(frozen=True)
class FusedModel:
    """Constants of the fused operators on one kind of chip.

    Attributes
    ----------
    launch_ps : int
        From an operator's start to its first token in a unified buffer.
    barrier_ps : int
        Dispatch, from a rank's last token written to its first flag.
    token_ps : int
        Dispatch, a vector core's time to quantise one token and to find the slots of its copies.
        It delays the first write; the other tokens pass behind the writes.
    cores : int
        Vector cores of a chip; all together they use the whole rate of its memory.
    flag_bytes : int
        A flag with its count.
    direct : tuple of str
        Transports that write straight out of the unified buffer.
    sources : mapping of str to str
        For each constant the letter of its source, "fitted" or "assumed", and why.
    """

    launch_ps: int
    barrier_ps: int
    token_ps: int
    cores: int = 48
    flag_bytes: int = 512
    direct: tuple[str, ...] = ("aiv",)
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)


CLOUDMATRIX = FusedModel(
    launch_ps=int(20.5 * PS_PER_US),
    barrier_ps=32 * PS_PER_US,
    token_ps=4 * PS_PER_US,
    sources={
        "launch_ps": "fitted to P Table 7, combine at EP 8, 32, 256; dispatch takes the same",
        "barrier_ps": "fitted to P Table 7, dispatch at EP 8, 32, 256: all that is left there; "
        "the rows determine its sum with launch_ps and token_ps only",
        "token_ps": "assumed: a few thousand cycles of a vector core for a row of 7,168",
        "cores": "P: 48 vector cores a die; that they just fill the HBM is assumed",
        "flag_bytes": "assumed: like a token's scale, which P pads to 512 B",
        "direct": "P: AIV-Direct",
    },
)
