"""Two endpoints by the words of ``--pair``: near, far, package, cpu-near, cpu-far, or names."""

import numpy as np

from ubnet.errors import OptionError, did_you_mean
from ubnet.fabric import FAR, NODE, PACKAGE, Fabric

PAIRS = {
    "near": ("die", NODE),
    "far": ("die", FAR),
    "package": ("die", PACKAGE),
    "cpu-near": ("cpu", NODE),
    "cpu-far": ("cpu", FAR),
}
"""Kind of the other end and its distance from the first die."""


def find_pair(fabric: Fabric, pair: str) -> tuple[int, int]:
    """Return two endpoint numbers.

    Parameters
    ----------
    fabric : Fabric
        Where to look.
    pair : str
        A word of `PAIRS`: the first die and the first endpoint of that kind and distance; or the
        names of two endpoints with a colon between.

    Raises
    ------
    OptionError
        If the word is unknown or the fabric has no such pair.
    FabricError
        If there is no endpoint of a given name.

    Examples
    --------
    >>> from ubnet.fabrics import load_fabric
    >>> find_pair(load_fabric("cloudmatrix64"), "far")
    (0, 16)
    """
    if ":" in pair:
        first, _, other = pair.partition(":")
        for word in (first, other):
            if word in PAIRS:
                raise OptionError(
                    f"pair is {pair!r}, but {word!r} is a pair already: give {word}, a list such "
                    f"as near,far, or two endpoints such as {fabric.endpoints[0].name}:"
                    f"{fabric.endpoints[-1].name}"
                )
        return fabric.endpoint(first).index, fabric.endpoint(other).index
    if pair not in PAIRS:
        hint = did_you_mean(pair, PAIRS)
        raise OptionError(f"pair is {pair!r}; {hint}, or two endpoints such as A:B")
    kind, distance = PAIRS[pair]
    start = int(fabric.of_kind("die")[0]) if "die" in fabric.kinds else 0
    others = fabric.of_kind(fabric.endpoints[start].kind if kind == "die" else kind)
    apart = fabric.distance(np.full(len(others), start), others)
    if distance == NODE and not (apart == NODE).any():
        distance = PACKAGE  # the whole node is one package, or has one package
    found = others[apart == distance]
    if not len(found):
        raise OptionError(
            f"fabric {fabric.name} has no pair {pair!r}; name two endpoints, such as --pair "
            f"{fabric.endpoints[0].name}:{fabric.endpoints[-1].name}"
        )
    return start, int(found[0])
