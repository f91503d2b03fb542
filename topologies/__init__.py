"""Fabrics that ubnet brings: functions that return a `Fabric` with its transports."""

from collections.abc import Callable
from functools import partial

from ubnet.fabric import Fabric

from .cloudmatrix import cloudmatrix384
from .h800 import h800

__all__ = ["FABRICS", "cloudmatrix384", "h800"]

FABRICS: dict[str, Callable[..., Fabric]] = {
    "cloudmatrix384": cloudmatrix384,
    "cloudmatrix192": partial(cloudmatrix384, 24),
    "cloudmatrix96": partial(cloudmatrix384, 12),
    "cloudmatrix64": partial(cloudmatrix384, 8),
    "h800": h800,
}
