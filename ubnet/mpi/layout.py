"""How the elements of a datatype stand in memory, and how a layout is made of others."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Part(NamedTuple):
    """Blocks of elements of one layout.

    Attributes
    ----------
    layout : Layout
        That of an element.
    starts : sequence of int
        Where each block begins, in bytes.
    lengths : sequence of int, or int
        Elements of each block, or of every block.
    """

    layout: "Layout"
    starts: Sequence[int]
    lengths: Sequence[int] | int

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Return start and length of each block that is not empty."""
        lengths = repeat(self.lengths) if isinstance(self.lengths, int) else self.lengths
        return ((start, n) for start, n in zip(self.starts, lengths, strict=False) if n)

    def elements(self) -> int:
        """Return the number of elements of all blocks."""
        if isinstance(self.lengths, int):
            return self.lengths * len(self.starts)
        return sum(self.lengths)

    def span(self) -> tuple[int, int] | None:
        """Return where the first and the last element in memory begin, None if there is none."""
        extent = self.layout.extent
        if not isinstance(self.lengths, int):
            ends = [(start, (n - 1) * extent) for start, n in self.blocks()]
            if not ends:
                return None
            first = min(start + reach if reach < 0 else start for start, reach in ends)
            return first, max(start + reach if reach > 0 else start for start, reach in ends)
        if not self.lengths or not self.starts:
            return None
        reach = (self.lengths - 1) * extent
        return min(self.starts) + min(0, reach), max(self.starts) + max(0, reach)

    def bytes_index(self) -> Ints:
        """Return where in memory each byte of the wire stands."""
        starts = np.array(self.starts, dtype=np.int64)
        lengths = np.broadcast_to(np.array(self.lengths, dtype=np.int64), starts.shape)
        first = np.cumsum(lengths) - lengths
        within = np.arange(lengths.sum()) - np.repeat(first, lengths)
        elements = np.repeat(starts, lengths) + within * self.layout.extent
        inside = self.layout.index
        one = np.arange(self.layout.size) if inside is None else inside
        index: Ints = (elements[:, None] + one).reshape(-1)
        return index


@dataclass(slots=True, eq=False)
class Layout:
    """What a datatype says of memory.

    Attributes
    ----------
    name : str
        Its name in MPI, empty for those of the program.
    size : int
        Bytes of an element on the wire.
    extent, lb : int
        Bytes from an element to the next in memory, and the lower bound.
    kind : str
        What can be computed with it: integer, floating, complex, logical, byte, pair, derived or
        none.
    dtype : numpy.dtype or None
        An element as numpy sees it.
    true_lb, true_ub : int
        From where to where its bytes stand.
    dense : bool
        Whether elements one after the other stand in memory as on the wire.
    align : int
        What its address should be a multiple of.
    bounded : bool
        Whether its bounds were given, not found.
    parts : tuple of Part
        What it is made of; empty if it is one of MPI's own.
    """

    name: str
    size: int
    extent: int
    lb: int
    kind: str
    dtype: np.dtype[Any] | None
    true_lb: int
    true_ub: int
    dense: bool
    align: int
    bounded: bool = False
    parts: tuple[Part, ...] = ()
    _index: Ints | None = None

    @property
    def index(self) -> Ints | None:
        """Where in memory each byte of the wire stands; None: as on the wire."""
        if self.dense:
            return None
        if self._index is None:
            none = np.zeros(0, dtype=np.int64)
            self._index = np.concatenate([none, *(part.bytes_index() for part in self.parts)])
        return self._index

    @property
    def element(self) -> np.dtype[Any]:
        """An element as numpy sees it, a heap of bytes if it has no word for it."""
        return self.dtype or np.dtype(f"V{max(self.extent, 1)}")

    def places(self, count: int) -> Ints:
        """Return where in memory each byte of `count` elements stands."""
        index = self.index
        element = np.arange(self.size) if index is None else index
        return (np.arange(count)[:, None] * self.extent + element).reshape(-1)

    def reach(self, count: int) -> tuple[int, int]:
        """Return from where to where the bytes of `count` elements stand, one at least."""
        last = (count - 1) * self.extent
        return self.true_lb + min(0, last), self.true_ub + max(0, last)

    def basics(self) -> Iterator[tuple["Layout", int]]:
        """Return the basic elements that an element is made of, as (layout, how many)."""
        if not self.parts:
            yield self, 1
            return
        for part in self.parts:
            inside = list(part.layout.basics())
            if len(inside) == 1:
                yield inside[0][0], inside[0][1] * part.elements()
                continue
            for _ in range(part.elements()):
                yield from inside


def basic(name: str, kind: str, dtype: np.dtype[Any], index: Ints | None = None) -> Layout:
    """Return the layout of one of MPI's own datatypes; `index` if it has a hole."""
    size = dtype.itemsize if index is None else len(index)
    end = dtype.itemsize if index is None else int(index.max()) + 1
    layout = Layout(
        name, size, dtype.itemsize, 0, kind, dtype, 0, end, index is None, dtype.alignment
    )
    layout._index = index
    return layout


def compose(*parts: Part) -> Layout:
    """Return the layout that is made of parts; their order is that on the wire.

    Notes
    -----
    The upper bound is rounded up so that each of its basic elements is aligned in every element
    (MPI 4.1, section 5.1.6), unless bounds were given for a part.
    """
    size, used = 0, []
    for part in parts:
        span = part.span()
        if span is not None:
            size += part.layout.size * part.elements()
            used.append((part.layout, *span))
    bounds = _hull((first + one.lb, last + one.lb + one.extent) for one, first, last in used)
    true = _hull((first + one.true_lb, last + one.true_ub) for one, first, last in used if one.size)
    align = max((one.align for one, _, _ in used), default=1)
    bounded = any(one.bounded for one, _, _ in used)
    lb, extent = bounds[0], bounds[1] - bounds[0]
    if not bounded:
        extent += -extent % align
    dense = lb == 0 and extent == size and _without_gaps(parts)
    return Layout("", size, extent, lb, "derived", None, *true, dense, align, bounded, parts)


def resize(layout: Layout, lb: int, extent: int) -> Layout:
    """Return a layout with bounds of its own."""
    dense = layout.dense and lb == 0 and extent == layout.size
    true = layout.true_lb, layout.true_ub
    parts = (Part(layout, (0,), 1),)
    return Layout(
        "", layout.size, extent, lb, "derived", None, *true, dense, layout.align, True, parts
    )


def duplicate(layout: Layout) -> Layout:
    """Return another layout that says the same."""
    made = Layout(
        "",
        layout.size,
        layout.extent,
        layout.lb,
        layout.kind,
        layout.dtype,
        layout.true_lb,
        layout.true_ub,
        layout.dense,
        layout.align,
        layout.bounded,
        (Part(layout, (0,), 1),),
    )
    made._index = layout._index
    return made


def _hull(reaches: Iterable[tuple[int, int]]) -> tuple[int, int]:
    there = list(reaches)
    if not there:
        return 0, 0
    if len(there) == 1:
        return there[0]
    return min(low for low, _ in there), max(high for _, high in there)


def _without_gaps(parts: Sequence[Part]) -> bool:
    """Say whether the wire's bytes stand one after the other, the first at 0."""
    end = 0
    for part in parts:
        layout = part.layout
        if not layout.size or not part.elements():
            continue
        if not layout.dense:
            return False
        for start, n in part.blocks():
            if start != end:
                return False
            end += n * layout.size
    return True
