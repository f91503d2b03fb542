"""The reductions that have a name: what numpy calls them, and the kernel that does them fast."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet import fold
from ubnet.errors import OptionError, did_you_mean

Array = NDArray[Any]
Combine = Callable[[Array, Array], Array]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A commutative reduction of two arrays of one type.

    Attributes
    ----------
    name : str
        Its name, as in MPI but in small letters.
    combine : numpy.ufunc
        The same on arrays of any type.
    kernel : callable
        ``kernel(flat, src, dst, count, *arguments)`` of `ubnet.fold`.
    arguments : tuple
        What distinguishes it among those that share the kernel.
    kinds : str
        The kinds of numpy types for which the kernel serves.
    """

    name: str
    combine: np.ufunc
    kernel: Callable[..., None]
    arguments: tuple[int, ...] = ()
    kinds: str = "iuf"

    def has_kernel(self, dtype: np.dtype[Any]) -> bool:
        """Whether the kernel takes elements of this type; long doubles and halves it does not."""
        return dtype.kind in self.kinds and dtype.isnative and _SIZES[dtype.kind](dtype.itemsize)

    def check(self, dtype: np.dtype[Any]) -> None:
        """Raise `OptionError` if elements of this type cannot be reduced so."""
        nothing = np.zeros(0, dtype=dtype)
        try:
            self.combine(nothing, nothing)
        except TypeError:
            raise OptionError(
                f"reduction {self.name} has no meaning for {dtype}; allowed types: "
                f"{'whole numbers' if self.kinds == 'iu' else 'numbers'}"
            ) from None


_SIZES: dict[str, Callable[[int], bool]] = {
    "i": lambda size: size <= 8,
    "u": lambda size: size <= 8,
    "f": lambda size: size in (4, 8),
}


def reduction(name: str) -> Reduction:
    """Return the reduction called `name`.

    >>> reduction("sum").combine
    <ufunc 'add'>

    Raises
    ------
    OptionError
        If there is none; the message names the nearest ones.
    """
    if name not in REDUCTIONS:
        hint = did_you_mean(name, REDUCTIONS)
        raise OptionError(f"there is no reduction {name!r}; {hint}, or a callable(left, right)")
    return REDUCTIONS[name]


REDUCTIONS = {
    r.name: r
    for r in (
        Reduction("sum", np.add, fold.add),
        Reduction("prod", np.multiply, fold.multiply),
        Reduction("max", np.maximum, fold.pick, (True,)),
        Reduction("min", np.minimum, fold.pick, (False,)),
        Reduction("land", np.logical_and, fold.judge, (fold.AND,)),
        Reduction("lor", np.logical_or, fold.judge, (fold.OR,)),
        Reduction("lxor", np.logical_xor, fold.judge, (fold.XOR,)),
        Reduction("band", np.bitwise_and, fold.mask, (fold.AND,), "iu"),
        Reduction("bor", np.bitwise_or, fold.mask, (fold.OR,), "iu"),
        Reduction("bxor", np.bitwise_xor, fold.mask, (fold.XOR,), "iu"),
    )
}
