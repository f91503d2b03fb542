"""Fabrics by name: those that ubnet brings, and those of a user's file."""

from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from ubnet.errors import FabricError, OptionError, did_you_mean
from ubnet.fabric import Fabric

FILES = (".toml", ".graphml", ".json")
"""How the name of a fabric's file may end: our own form, or a networkx graph in one of two."""


def fabric_names() -> list[str]:
    """Return the names of the fabrics that ubnet brings.

    >>> fabric_names()
    ['cloudmatrix384', 'cloudmatrix192', 'cloudmatrix96', 'cloudmatrix64', 'h800']
    """
    from ubnet.topologies import FABRICS

    return list(FABRICS)


def load_fabric(name: str | Path, **options: Any) -> Fabric:
    """Return a fabric by its name, or read it from a file of the user's own.

    Parameters
    ----------
    name : str or Path
        One of `fabric_names`, or the path of a TOML file (`ubnet.fabric_file`) or of a networkx
        graph (`ubnet.fabric_graph.read_graph`).
    **options
        Arguments of the function that builds it; a file takes ``paths`` alone.

    Raises
    ------
    FabricError
        If there is no such fabric or file, or the file is wrong.
    OptionError
        If the fabric takes no such option.

    Examples
    --------
    >>> load_fabric("cloudmatrix64", paths="ecmp").planes["ub"].paths
    'ecmp'
    """
    from ubnet.topologies import FABRICS

    if not isinstance(name, (str, PathLike)):
        raise FabricError(
            f"{name!r} is no name of a fabric; give one of {', '.join(FABRICS)}, or a file"
        )
    if str(name) in FABRICS:
        make = FABRICS[str(name)]
        _check_options(name, options, list(signature(make).parameters))
        return make(**options)
    suffix = Path(name).suffix
    if suffix not in FILES:
        hint = did_you_mean(str(name), fabric_names())
        raise FabricError(
            f"there is no fabric {str(name)!r} ({hint}); give such a name or a file that ends "
            f"with {', '.join(FILES)}"
        )
    _check_options(name, options, ["paths"])
    if suffix == ".toml":
        from ubnet.fabric_file import read_fabric

        return read_fabric(name, **options)
    from ubnet.fabric_graph import read_graph

    return read_graph(name, **options)


def _check_options(name: str | Path, options: dict[str, Any], allowed: list[str]) -> None:
    for option in options:
        if option not in allowed:
            hint = did_you_mean(option, allowed)
            raise OptionError(f"fabric {name} has no option {option!r}; {hint}")
