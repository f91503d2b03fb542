"""Datatypes that a program makes of others."""

from collections.abc import Iterator, Sequence
from itertools import product
from operator import index
from typing import Self

from .definition import TypeHandle
from .exception import ERR_ARG, ERR_COUNT
from .exception import Exception as MPIException
from .layout import Layout, Part, compose, duplicate, resize

ORDER_C, ORDER_FORTRAN = 0, 1
DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_NONE = 0, 1, 2
DISTRIBUTE_DFLT_DARG = -1


class DatatypeConstructors(TypeHandle):
    """How a datatype is made of others."""

    __slots__ = ()

    def Dup(self) -> Self:
        """Return another datatype of the same elements."""
        return self._made(duplicate(self._layout), "DUP", [self])

    Create_dup = Dup

    def Create_contiguous(self, count: int) -> Self:
        """Return elements one behind the other.

        Parameters
        ----------
        count : int
            How many.
        """
        (count,) = _counts(count)
        layout = compose(Part(self._layout, (0,), count))
        return self._made(layout, "CONTIGUOUS", [self], count=count)

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Self:
        """Return equal blocks at equal distances, which are counted in elements."""
        count, blocklength = _counts(count, blocklength)
        step = index(stride) * self._layout.extent
        layout = self._strided(count, blocklength, step)
        given = {"count": count, "blocklength": blocklength, "stride": index(stride)}
        return self._made(layout, "VECTOR", [self], **given)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Self:
        """Return equal blocks at equal distances, which are counted in bytes."""
        count, blocklength = _counts(count, blocklength)
        layout = self._strided(count, blocklength, index(stride))
        given = {"count": count, "blocklength": blocklength, "stride": index(stride)}
        return self._made(layout, "HVECTOR", [self], **given)

    def Create_indexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Self:
        """Return blocks at places that are counted in elements."""
        lengths, places = _pair(blocklengths, displacements)
        extent = self._layout.extent
        layout = compose(Part(self._layout, [place * extent for place in places], lengths))
        given = {"blocklengths": lengths, "displacements": places}
        return self._made(layout, "INDEXED", [self], **given)

    def Create_hindexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Self:
        """Return blocks at places that are counted in bytes."""
        lengths, places = _pair(blocklengths, displacements)
        layout = compose(Part(self._layout, places, lengths))
        given = {"blocklengths": lengths, "displacements": places}
        return self._made(layout, "HINDEXED", [self], **given)

    def Create_indexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        """Return equal blocks at places that are counted in elements."""
        (length,), places = _counts(blocklength), [index(place) for place in displacements]
        extent = self._layout.extent
        layout = compose(Part(self._layout, [place * extent for place in places], length))
        given = {"blocklength": length, "displacements": places}
        return self._made(layout, "INDEXED_BLOCK", [self], **given)

    def Create_hindexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        """Return equal blocks at places that are counted in bytes."""
        (length,), places = _counts(blocklength), [index(place) for place in displacements]
        layout = compose(Part(self._layout, places, length))
        given = {"blocklength": length, "displacements": places}
        return self._made(layout, "HINDEXED_BLOCK", [self], **given)

    @classmethod
    def Create_struct(
        cls,
        blocklengths: Sequence[int],
        displacements: Sequence[int],
        datatypes: Sequence[TypeHandle],
    ) -> Self:
        """Return blocks of a datatype each, at places that are counted in bytes."""
        lengths, places = _pair(blocklengths, displacements)
        types = list(datatypes)
        if len(types) != len(lengths):
            raise ValueError(f"expecting {len(lengths)} items, got {len(types)}")
        rows = zip(types, places, lengths, strict=True)
        layout = compose(*(Part(t._layout, (place,), n) for t, place, n in rows))
        given = {"blocklengths": lengths, "displacements": places}
        return cls._made(layout, "STRUCT", types, **given)

    def Create_subarray(
        self,
        sizes: Sequence[int],
        subsizes: Sequence[int],
        starts: Sequence[int],
        order: int = ORDER_C,
    ) -> Self:
        """Return a box of an array.

        Parameters
        ----------
        sizes, subsizes, starts : sequence of int
            Sides of the array and of the box, and where the box begins.
        order : int
            ORDER_C: the last index runs fastest; ORDER_FORTRAN: the first.
        """
        whole, some = _pair(sizes, subsizes)
        _, first = _pair(sizes, starts)
        for size, part, start in zip(whole, some, first, strict=True):
            if not (1 <= part <= size and 0 <= start <= size - part):
                raise MPIException(ERR_ARG, f"a box of {part} from {start} on in a side of {size}")
        taken = [range(start, start + n) for start, n in zip(first, some, strict=True)]
        layout = self._grid(whole, taken, order)
        given = {"sizes": whole, "subsizes": some, "starts": first, "order": order}
        return self._made(layout, "SUBARRAY", [self], **given)

    def Create_darray(
        self,
        size: int,
        rank: int,
        gsizes: Sequence[int],
        distribs: Sequence[int],
        dargs: Sequence[int],
        psizes: Sequence[int],
        order: int = ORDER_C,
    ) -> Self:
        """Return a rank's elements of an array that is dealt out to a grid of ranks.

        Parameters
        ----------
        size, rank : int
            Number of ranks, and which one.
        gsizes, psizes : sequence of int
            Sides of the array and of the grid of ranks.
        distribs : sequence of int
            How each side is dealt out: DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC or DISTRIBUTE_NONE.
        dargs : sequence of int
            Elements of a block, or DISTRIBUTE_DFLT_DARG.
        order : int
            ORDER_C or ORDER_FORTRAN, for the array; ranks are in the order of C.
        """
        whole, grid = _pair(gsizes, psizes)
        _, how = _pair(gsizes, distribs)
        _, blocks = _pair(gsizes, dargs)
        place, taken = index(rank), []
        for side, ranks, kind, block in reversed(list(zip(whole, grid, how, blocks, strict=True))):
            place, coordinate = divmod(place, ranks)
            taken.append(_dealt(side, ranks, coordinate, kind, block))
        given = {
            **{"size": index(size), "rank": index(rank), "gsizes": whole, "distribs": how},
            **{"dargs": blocks, "psizes": grid, "order": order},
        }
        layout = self._grid(whole, taken[::-1], order)
        return self._made(layout, "DARRAY", [self], **given)

    def Create_resized(self, lb: int, extent: int) -> Self:
        """Return the same elements with other bounds."""
        layout = resize(self._layout, index(lb), index(extent))
        return self._made(layout, "RESIZED", [self], lb=index(lb), extent=index(extent))

    Resized = Create_resized

    def _strided(self, count: int, blocklength: int, step: int) -> Layout:
        starts: Sequence[int] = [0] * count
        if step:
            starts = range(0, count * step, step)
        return compose(Part(self._layout, starts, blocklength))

    def _grid(self, sizes: list[int], taken: Sequence[Sequence[int]], order: int) -> Layout:
        """Return the chosen indices of an array, whose bounds are those of the whole array."""
        if order not in (ORDER_C, ORDER_FORTRAN):
            raise MPIException(ERR_ARG, f"order {order}; give ORDER_C or ORDER_FORTRAN")
        if order == ORDER_FORTRAN:
            sizes, taken = sizes[::-1], taken[::-1]
        extent = self._layout.extent
        starts, lengths = [], []
        for start, length in _runs(sizes, taken):
            starts.append(start * extent)
            lengths.append(length)
        whole = extent
        for size in sizes:
            whole *= size
        return resize(compose(Part(self._layout, starts, lengths)), 0, whole)


def _runs(sizes: Sequence[int], taken: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Return where runs of elements begin and how long they are; the last index runs fastest."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    strides.reverse()
    rows = list(_stretches(taken[-1])) if taken else [(0, 1)]
    for outer in product(*taken[:-1]):
        base = sum(i * stride for i, stride in zip(outer, strides, strict=False))
        for first, length in rows:
            yield base + first, length


def _stretches(taken: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return ascending numbers as stretches (first, how many)."""
    first = length = 0
    for i in taken:
        if length and i == first + length:
            length += 1
            continue
        if length:
            yield first, length
        first, length = i, 1
    if length:
        yield first, length


def _dealt(size: int, ranks: int, rank: int, how: int, block: int) -> list[int]:
    """Return the indices of one side that a rank of the grid gets."""
    if how == DISTRIBUTE_NONE:
        return list(range(size))
    if how == DISTRIBUTE_BLOCK:
        length = -(-size // ranks) if block == DISTRIBUTE_DFLT_DARG else block
        if length * ranks < size:
            raise MPIException(ERR_ARG, f"blocks of {block} do not cover {size} on {ranks} ranks")
        return list(range(rank * length, min((rank + 1) * length, size)))
    length = 1 if block == DISTRIBUTE_DFLT_DARG else block
    return [i for i in range(size) if i // length % ranks == rank]


def _counts(*given: int) -> tuple[int, ...]:
    counts = tuple(index(count) for count in given)
    if any(count < 0 for count in counts):
        raise MPIException(ERR_COUNT, f"negative count in {counts}")
    return counts


def _pair(one: Sequence[int], other: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return two lists of numbers that must be as long as each other."""
    first, second = [index(n) for n in one], [index(n) for n in other]
    if len(first) != len(second):
        raise ValueError(f"expecting {len(first)} items, got {len(second)}")
    return first, second
