"""Checks of the columns of flows before the engine takes them: what is wrong, and where.

A refused post changes nothing, so everything is checked first. The kernels return the kind of the
first fault and the row it is in; the sentences are made here.
"""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import FlowError
from ubnet.jit import kernel

I8 = NDArray[np.int64]
F8 = NDArray[np.float64]
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
FLOAT64, BOOL = np.dtype(np.float64), np.dtype(np.bool_)
BEHAVED: list[Literal["C", "A", "W"]] = ["C", "A", "W"]  # read-only arrays are types of their own

HORIZON_PS = 1 << 60
"""The latest start and the longest start-up, 13 days: so no sum of times leaves 64 bits."""

FAULTS = {
    1: "{who} has {nbytes} bytes; sizes are integers >= 0",
    2: "{who} starts at {start_ps} ps, before now ({now_ps} ps); start it at now or later",
    3: "{who} has weight {weight}; weights lie between 1e-100 and 1e100 (default 1)",
    4: "{who} has rate cap {rate_cap}; caps are bytes/s > 0, inf for none",
    5: "{who} has a start-up of {startup_ps} ps; start-ups are integers >= 0",
    6: "{who} crosses link {link}; links here are 0 to {last_link}",
    7: "{who} has share {share} of link {link}; shares are finite and > 0 (default 1)",
    8: "{who} crosses link {link} twice; a link stands once in a route: add up its shares",
    9: "{who} waits for flow {dep}; it can wait for flows 0 to {last_flow}, itself excepted",
    10: "{who} starts at {start_ps} ps; the clock takes starts up to {horizon_ps} ps",
    11: "{who} has a start-up of {startup_ps} ps; the longest is {horizon_ps} ps, 13 days",
}
WRONG_DEPENDENCY = 9  # the one of them that a flow's own columns have no part in


@kernel
def first_fault(
    capacity: F8,
    seen: I8,
    stamp: int,
    first: int,
    now_ps: int,
    start_ps: I8,
    nbytes: I8,
    route_ptr: I8,
    route_link: I8,
    route_share: F8,
    weight: F8,
    rate_cap: F8,
    dep_ptr: I8,
    dep: I8,
    startup_ps: I8,
) -> tuple[int, int, int]:
    """Return (fault, row, place) of the first fault, or (0, -1, forward dependencies).

    A column of one row stands for all flows; dependencies have a row for each flow, the others may
    have one for each kind. ``seen`` keeps the stamp of the row that crossed each link last; those
    from ``stamp`` on are of this post.
    """
    n = len(route_ptr) - 1
    forward = 0
    for k in range(n):
        if nbytes[min(k, len(nbytes) - 1)] < 0:
            return 1, k, 0
        if start_ps[min(k, len(start_ps) - 1)] < now_ps:
            return 2, k, 0
        if not (1e-100 < weight[min(k, len(weight) - 1)] < 1e100):
            return 3, k, 0
        if not rate_cap[min(k, len(rate_cap) - 1)] > 0.0:
            return 4, k, 0
        if startup_ps[min(k, len(startup_ps) - 1)] < 0:
            return 5, k, 0
        if start_ps[min(k, len(start_ps) - 1)] > HORIZON_PS:
            return 10, k, 0
        if startup_ps[min(k, len(startup_ps) - 1)] > HORIZON_PS:
            return 11, k, 0
        for h in range(route_ptr[k], route_ptr[k + 1]):
            link = route_link[h]
            if not 0 <= link < len(capacity):
                return 6, k, h
            if not (0.0 < route_share[min(h, len(route_share) - 1)] < np.inf):
                return 7, k, h
            if seen[link] == stamp + k:
                return 8, k, h
            seen[link] = stamp + k
    flows = len(dep_ptr) - 1
    for k in range(flows):
        for j in range(dep_ptr[k], dep_ptr[k + 1]):
            if not 0 <= dep[j] < first + flows or dep[j] == first + k:
                return WRONG_DEPENDENCY, k, j
            if dep[j] > first + k:
                forward += 1
    return 0, -1, forward


@kernel
def flow_on_cycle(first: int, dep_ptr: I8, dep: I8) -> int:
    """Return a row of this post that waits for itself in the end, or -1."""
    n = len(dep_ptr) - 1
    pending, edge_of = np.zeros(n, np.int64), np.zeros(n, np.int64)  # edges count from 1
    edge_next, waiter = np.zeros(len(dep) + 1, np.int64), np.zeros(len(dep) + 1, np.int64)
    for k in range(n):
        for j in range(dep_ptr[k], dep_ptr[k + 1]):
            before = dep[j] - first
            waiter[j + 1] = k
            if before >= 0:
                pending[k] += 1
                edge_next[j + 1] = edge_of[before]
                edge_of[before] = j + 1
    ready = np.zeros(n, np.int64)
    count = 0
    for k in range(n):
        if pending[k] == 0:
            ready[count] = k
            count += 1
    done = 0
    while done < count:
        j = edge_of[ready[done]]
        done += 1
        while j > 0:
            pending[waiter[j]] -= 1
            if pending[waiter[j]] == 0:
                ready[count] = waiter[j]
                count += 1
            j = edge_next[j]
    at = -1
    for k in range(n):
        if pending[k] > 0:
            at = k
            break
    if at < 0:
        return -1
    for _ in range(n):  # every flow left waits for one left: n steps back end on a cycle
        for j in range(dep_ptr[at], dep_ptr[at + 1]):
            before = dep[j] - first
            if before >= 0 and pending[before] > 0:
                at = before
                break
    return at


def numbers(name: str, given: ArrayLike) -> F8:
    """Return real numbers in any shape.

    Raises
    ------
    FlowError
        Where they are no real numbers.
    """
    array = _array(name, given)
    if array.dtype.kind not in "iuf":
        raise FlowError(f"{name} holds {_kind(array)}; it takes real numbers: use float64")
    return np.require(array, np.float64, BEHAVED)


def _array(name: str, given: ArrayLike) -> NDArray[Any]:
    """Return what is given as an array, whatever it holds."""
    try:
        array = np.asarray(given)
    except ValueError:
        raise FlowError(f"{name} has rows of different lengths; give numbers in a row") from None
    return array if array.size else array.astype(np.float64)


def _kind(array: NDArray[Any]) -> str:
    """Say what an array holds that holds no such numbers as it should."""
    return "text" if array.dtype.kind in "US" else f"{array.dtype} values"


def integers(name: str, given: ArrayLike, n: int | None = None) -> NDArray[np.int64]:
    """Return an int64 column of ``n`` rows (None: as many as given), or of one that stands for all.

    Raises
    ------
    FlowError
        Where the values are not integers or the length is wrong.
    """
    if type(given) is np.ndarray and given.dtype is INT64 and given.flags.carray:
        array = given
    else:
        array = _array(name, given)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise FlowError(f"{name} holds {_kind(array)}; it takes integers: use int64")
        array = np.require(array, np.int64, BEHAVED)
    return _column(name, array, n)


def reals(name: str, given: ArrayLike, n: int) -> NDArray[np.float64]:
    """Return a float64 column of ``n`` rows, or of one that stands for all.

    Raises
    ------
    FlowError
        Where the values are not real numbers or the length is wrong.
    """
    if type(given) is np.ndarray and given.dtype is FLOAT64 and given.flags.carray:
        array = given
    else:
        array = numbers(name, given)
    return _column(name, array, n)


def kinds(given: ArrayLike, rows: int) -> NDArray[np.int32]:
    """Return which of so many rows each flow has.

    Raises
    ------
    FlowError
        Where the values are not integers, there is no such row, or there are rows but no flows.
    """
    if type(given) is np.ndarray and given.dtype is INT32 and given.ndim == 1:
        array = given
    else:
        array = integers("kind", given)
    if rows and not len(array):
        raise FlowError(f"kind is empty, but the columns have {rows} rows; no flows need no rows")
    if len(array) and (array.min() < 0 or array.max() >= rows):
        wrong = int(array[(array < 0) | (array >= rows)][0])
        raise FlowError(f"kind {wrong} is not among the {rows} rows of the columns")
    return np.require(array, np.int32, BEHAVED)


def truths(name: str, given: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return a column of ``n`` truth values, or of one that stands for all.

    Raises
    ------
    FlowError
        Where the length is wrong.
    """
    if not (type(given) is np.ndarray and given.dtype is BOOL and given.flags.carray):
        given = np.require(given, np.bool_, BEHAVED)
    return _column(name, given, n)


def _column(name: str, array: NDArray[Any], n: int | None) -> NDArray[Any]:
    """Refuse another shape than a scalar, which becomes one row, or ``n`` rows."""
    if n is None and array.ndim == 1:
        return array
    if n is not None and array.ndim == 0:
        return array.reshape(1)
    if array.shape != (n,):
        right = "numbers in a row" if n is None else f"one number or {n} in a row"
        raise FlowError(f"{name} has shape {array.shape}; give {right}")
    return array


def pointers(name: str, given: ArrayLike, n: int | None, entries: int) -> NDArray[np.int64]:
    """Return the row pointers of ``n`` ragged rows over ``entries`` entries.

    Raises
    ------
    FlowError
        Where they do not start at 0, fall, or do not end at ``entries``.
    """
    array = _array(name, given)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) < 1:
        raise FlowError(
            f"{name} is not a row of integers; give the pointers of a CSR, [0] for none"
        )
    if n is not None and len(array) != n + 1:
        raise FlowError(f"{name} has {len(array)} entries for {n} flows; give {n + 1}")
    if array.dtype is not INT64 or not array.flags.carray:
        array = np.require(array, np.int64, BEHAVED)
    if array[0] != 0 or array[-1] != entries or falls(array):
        raise FlowError(
            f"{name} runs from {array[0]} to {array[-1]}; it must start at 0, never fall and end "
            f"at {entries}, the number of entries it divides"
        )
    return array


@kernel
def falls(row: I8) -> bool:
    """Tell whether an entry is less than the one before it."""
    count = 0
    for k in range(1, len(row)):
        count += 1 if row[k] < row[k - 1] else 0
    return count > 0


def check_names(caller: str, like: Callable[..., Any], columns: Mapping[str, Any]) -> None:
    """Refuse columns that another function does not take, or lacks, in the caller's name.

    Raises
    ------
    TypeError
        As Python does where a function is called with such arguments.
    """
    try:
        signature(like).bind(capacity=None, **columns)
    except TypeError as error:
        raise TypeError(f"{caller}() {error}") from None


def fault_text(
    fault: int,
    flow: int,
    last_flow: int,
    row: int,
    place: int,
    now_ps: int,
    capacity: F8,
    columns: tuple[NDArray[Any], ...],
) -> str:
    """Return the sentence about a fault of a flow that `first_fault` found in these columns.

    Where ``flow`` is -1 no flow has that row, and the sentence is about the row.
    """
    start_ps, nbytes, _, link, share, weight, rate_cap, _, dep, startup_ps = columns
    named = {
        "start_ps": start_ps,
        "nbytes": nbytes,
        "weight": weight,
        "rate_cap": rate_cap,
        "startup_ps": startup_ps,
    }
    facts = {name: column[min(row, len(column) - 1)] for name, column in named.items()}
    if fault in (6, 7, 8):
        facts["link"] = link[place]
        facts["share"] = share[min(place, len(share) - 1)]
    if fault == WRONG_DEPENDENCY:
        facts["dep"] = dep[place]
    facts["who"] = f"flow {flow}" if flow >= 0 else f"row {row} of the columns"
    facts["last_flow"] = last_flow
    facts["now_ps"], facts["horizon_ps"] = now_ps, HORIZON_PS
    facts["last_link"] = len(capacity) - 1
    return FAULTS[fault].format(**facts)
