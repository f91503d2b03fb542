"""What the fused dispatch and combine cost beside the bytes on the fabric: a table of constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ubnet.fabric import Fabric
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
    host_sync_ps : int
        Unfused operators without static buffers: the host reads the counts, allocates, and goes on.
    sources : mapping of str to str
        For each constant the letter of its source, "fitted" or "assumed", and why.
    """

    launch_ps: int
    barrier_ps: int
    token_ps: int
    cores: int = 48
    flag_bytes: int = 512
    direct: tuple[str, ...] = ("aiv",)
    host_sync_ps: int = 20 * PS_PER_US
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
        "host_sync_ps": "assumed: a device-to-host copy, an allocation and a launch; P names the "
        "cost of dynamic shapes without a figure",
    },
)

H800 = FusedModel(
    launch_ps=3 * PS_PER_US,
    barrier_ps=0,
    token_ps=1 * PS_PER_US,
    cores=132,
    flag_bytes=8,
    direct=("ibgda", "nvlink"),
    sources={
        "launch_ps": "fitted to P Table 7, DeepEP's dispatch and combine at EP 8, 32, 256",
        "barrier_ps": "assumed: counts follow the tokens of their expert, without a barrier",
        "token_ps": "assumed: a block of threads casts a row of 7,168",
        "cores": "assumed: the multiprocessors of an H800",
        "flag_bytes": "assumed: an atomic add",
        "direct": "P: the kernel writes to the network card itself",
        "host_sync_ps": "assumed: as on CloudMatrix",
    },
)

MODELS = {"cloudmatrix": CLOUDMATRIX, "h800": H800}
"""The constants of each kind of chip."""


def model_of(fabric: Fabric) -> FusedModel:
    """Return the constants for a fabric: those whose direct transports it has.

    A fabric with none of them gets CloudMatrix's.
    """
    for model in MODELS.values():
        if any(name in fabric.transports for name in model.direct):
            return model
    return CLOUDMATRIX
