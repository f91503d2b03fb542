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
    combine : callable
        The same on arrays of any type.
    kernel : callable or None
        ``kernel(flat, src, dst, count, *arguments)`` of `ubnet.fold`.
    arguments : tuple
        What distinguishes it among those that share the kernel.
    kinds : str
        The kinds of numpy types for which the kernel serves; none where there is no kernel.
    """

    name: str
    combine: np.ufunc | Combine
    kernel: Callable[..., None] | None
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
                f"{_TYPES.get(self.kinds, 'numbers')}"
            ) from None


_TYPES = {"iu": "whole numbers", "": "structured ones of a value and an index"}

_SIZES: dict[str, Callable[[int], bool]] = {
    "i": lambda size: size <= 8,
    "u": lambda size: size <= 8,
    "f": lambda size: size in (4, 8),
}


def located(better: np.ufunc) -> Combine:
    """Return the reduction of pairs to the better value, and its index; of equals the lower one.

    The element type has two fields, the value and the index, as MPI's pair types have.

    Examples
    --------
    >>> pair = np.dtype([("value", "f8"), ("index", "i4")])
    >>> a, b = np.array([(5, 2), (7, 1)], pair), np.array([(5, 1), (3, 0)], pair)
    >>> located(np.greater)(a, b).tolist()
    [(5.0, 1), (7.0, 1)]
    """

    def combine(left: Array, right: Array) -> Array:
        if len(left.dtype.names or ()) != 2:
            raise TypeError(left.dtype)
        value, index = left.dtype.names  # type: ignore[misc]
        taken = better(right[value], left[value])
        taken |= (right[value] == left[value]) & (right[index] < left[index])
        return np.where(taken, right, left)

    return combine


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
        Reduction("maxloc", located(np.greater), None, kinds=""),
        Reduction("minloc", located(np.less), None, kinds=""),
    )
}
