"""Accesses to a window: the methods that read and change the memory of another rank."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.access import Access

from .buffers import read_spec
from .constants import PROC_NULL, WIN_FLAVOR_DYNAMIC
from .datatype import DATATYPES, Datatype
from .exception import ERR_DISP, ERR_OP, ERR_RMA_RANGE
from .exception import Exception as MPIException
from .op import OPS, Op
from .operation import Operation
from .request import Request
from .spec import Spec
from .win_state import WinHandle, WinState

SUM = OPS["SUM"]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Target:
    """Which elements of the target's window an access touches."""

    displacement: int
    count: int
    datatype: Datatype


class WinAccess(WinHandle):
    """Puts, gets and atomics; the target is ``displacement`` or a list ``[displacement, count,
    datatype]``, by default as many elements as the origin has, at the start of the window."""

    __slots__ = ()

    def Put(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Write elements into the window of another rank."""
        _put(self._here, origin, target_rank, target, None)

    def Get(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Read elements from the window of another rank."""
        _get(self._here, origin, target_rank, target)

    def Accumulate(self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM) -> None:
        """Combine elements into the window of another rank."""
        _put(self._here, origin, target_rank, target, op)

    def Get_accumulate(
        self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> None:
        """Combine elements into the window of another rank; return what stood there before."""
        _fetch(self._here, origin, result, target_rank, target, op)

    def Rput(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """Start to write; the request ends when the origin's buffer is free."""
        return Request._of(_put(self._here, origin, target_rank, target, None))

    def Rget(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """Start to read."""
        return Request._of(_get(self._here, origin, target_rank, target))

    def Raccumulate(
        self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> Request:
        """Start to combine; the request ends when the origin's buffer is free."""
        return Request._of(_put(self._here, origin, target_rank, target, op))

    def Rget_accumulate(
        self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> Request:
        """Start to combine and to return what stood there before."""
        return Request._of(_fetch(self._here, origin, result, target_rank, target, op))

    def Fetch_and_op(
        self, origin: Any, result: Any, target_rank: int, target_disp: int = 0, op: Op = SUM
    ) -> None:
        """Combine one element into the window of another rank; return what stood there before."""
        given = read_spec(origin, writable=False, rank=target_rank)
        into = read_spec(result, writable=True, rank=target_rank)
        if target_rank != PROC_NULL:
            _check_single(origin=given, result=into)
        _fetch(self._here, origin, result, target_rank, target_disp, op)

    def Compare_and_swap(
        self, origin: Any, compare: Any, result: Any, target_rank: int, target_disp: int = 0
    ) -> None:
        """Replace one element that equals `compare`; return what stood there before."""
        given = read_spec(origin, writable=False, rank=target_rank)
        expected = read_spec(compare, writable=False, rank=target_rank)
        into = read_spec(result, writable=True, rank=target_rank)
        if target_rank != PROC_NULL:
            _check_single(origin=given, compare=expected, result=into)
        access = partial(
            Access, data=bytes(given.wire()), compare=bytes(expected.wire()), fetch=True
        )
        target = Target(index(target_disp), given.count, given.datatype)
        _start(self._here, "Compare_and_swap", access, target_rank, target, into, ordered=True)


def _put(here: WinState, origin: Any, rank: int, target: Any, op: Op | None) -> Operation:
    """Start a Put, or an Accumulate with an operation; return what ends at the origin."""
    given = read_spec(origin, writable=False, rank=rank)
    there = _target(given, target)
    if op is None:
        access = partial(Access, data=bytes(given.wire()))
        return _start(here, "Put", access, rank, there)
    combine = None if rank == PROC_NULL else _combining(op, there)
    if op == OPS["NO_OP"]:
        return Operation()
    access = partial(
        Access, data=bytes(given.wire()), combine=combine, dtype=_elements(there.datatype)
    )
    return _start(here, "Accumulate", access, rank, there, ordered=True)


def _get(here: WinState, origin: Any, rank: int, target: Any) -> Operation:
    into = read_spec(origin, writable=True, rank=rank)
    access = partial(Access, fetch=True)
    return _start(here, "Get", access, rank, _target(into, target), into)


def _fetch(here: WinState, origin: Any, result: Any, rank: int, target: Any, op: Op) -> Operation:
    given = read_spec(origin, writable=False, rank=rank)
    into = read_spec(result, writable=True, rank=rank)
    there = _target(given if op != OPS["NO_OP"] else into, target)
    if rank == PROC_NULL:
        return Operation()
    access = partial(Access, fetch=True)
    if op != OPS["NO_OP"]:
        combine, dtype = _combining(op, there), _elements(there.datatype)
        access = partial(access, data=bytes(given.wire()), combine=combine, dtype=dtype)
    return _start(here, "Get_accumulate", access, rank, there, into, ordered=True)


def _start(
    here: WinState,
    call: str,
    make: Callable[..., Access],
    rank: int,
    target: Target,
    into: Spec | None = None,
    *,
    ordered: bool = False,
) -> Operation:
    """Start an access; return the operation that its request stands for."""
    world = here.world(rank)
    if world == PROC_NULL:
        return Operation()
    here.check_open(rank)
    offset, span, places = _reached(here, rank, target)
    access = make(offset, span, places, ordered=ordered)
    landing, unpack = (None, None) if into is None else into.land()
    local, whole = here.window.access(world, access, landing, call)
    finish = None if unpack is None or into is None else partial(unpack, into.nbytes)
    operation = Operation((whole,), finish=finish)
    here.track(rank, local, operation)
    return operation if local is whole else Operation((local,))


def _reached(
    here: WinState, rank: int, target: Target
) -> tuple[int, int, NDArray[np.int64] | None]:
    """Return the first byte of a target, how far it reaches, and which bytes it touches."""
    layout, count = target.datatype._layout, target.count
    first = target.displacement * here.units[rank]
    if layout.index is None:
        offset, span, places = first, count * layout.size, None
    else:
        places = layout.places(count)
        low = int(places.min(initial=0)) if not len(places) else int(places.min())
        span = int(places.max(initial=low - 1)) + 1 - low
        offset, places = first + low, places - low
    if here.flavor == WIN_FLAVOR_DYNAMIC:
        return offset, span, places
    if target.displacement < 0:
        raise MPIException(ERR_DISP, f"displacement {target.displacement}; give 0 or more")
    if span and not 0 <= offset <= here.sizes[rank] - span:
        raise MPIException(
            ERR_RMA_RANGE,
            f"bytes {offset} to {offset + span} of the {here.sizes[rank]} bytes of rank {rank}",
        )
    return offset, span, places


def _target(given: Spec, target: Any) -> Target:
    if target is None:
        return Target(0, given.count, given.datatype)
    if isinstance(target, (list, tuple)):
        if len(target) > 3:
            raise ValueError("target: expecting 3 items at most")
        given_anew = dict(zip(("displacement", "count", "code"), target, strict=False))
        code = given_anew.get("code", given.datatype)
        return Target(
            index(given_anew.get("displacement", 0)),
            index(given_anew.get("count", given.count)),
            code if isinstance(code, Datatype) else Datatype.fromcode(code),
        )
    try:
        return Target(index(target), given.count, given.datatype)
    except TypeError:
        raise ValueError("target: expecting integral or list/tuple") from None


def _combining(op: Op, target: Target) -> Any:
    """Return how an operation combines elements; it must be one of MPI's own.

    What is returned can go to another process.
    """
    if op in (OPS["REPLACE"], OPS["NO_OP"]) or not target.count:
        return None
    if not op._name:
        raise MPIException(ERR_OP, "an access combines by MPI's own operations only")
    datatype = _basic(target.datatype)
    combine = op._on(datatype)
    return combine if isinstance(combine, str) else partial(_by_name, op._name, datatype._name)


def _by_name(operation: str, datatype: str, held: Array, data: Array) -> Array:
    combine = OPS[operation]._on(DATATYPES[datatype])
    assert not isinstance(combine, str)
    return combine(held, data)


def _basic(datatype: Datatype) -> Datatype:
    """Return MPI's own datatype that a derived one is made of alone, else the datatype itself."""
    inside = {id(layout): layout for layout, _ in datatype._layout.basics()}
    if len(inside) > 1 or not datatype._layout.parts:
        return datatype
    own = (d for d in DATATYPES.values() if d and id(d._layout) in inside)
    return next(own, datatype)


def _elements(datatype: Datatype) -> Any:
    """Return the elements of a datatype as they stand on the wire, without holes."""
    dtype = _basic(datatype)._layout.dtype
    if dtype is None or dtype.names is None:
        return dtype
    return np.dtype([(name, dtype[name]) for name in dtype.names])


def _check_single(**specs: Spec) -> None:
    for name, spec in specs.items():
        if spec.count != 1:
            raise ValueError(f"{name}: expecting a single element, got {spec.count}")
    origin = specs["origin"]
    for name, spec in specs.items():
        if spec.datatype != origin.datatype:
            raise ValueError(f"mismatch in origin and {name} MPI datatypes")
