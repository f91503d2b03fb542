"""A column as a caller gives it: an array of the type and length that is meant, or a refusal."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ubnet.errors import FlowError
from ubnet.jit import between, borrowing_kernel, first_row

I8 = NDArray[np.int64]
F8 = NDArray[np.float64]
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
FLOAT64, BOOL = np.dtype(np.float64), np.dtype(np.bool_)
MOST_INT64 = np.iinfo(np.int64).max
BEHAVED: list[Literal["C", "A", "W"]] = ["C", "A", "W"]  # read-only arrays are types of their own


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


def capacities(given: ArrayLike) -> F8:
    """Return the bytes/s of links, an array of its own.

    Raises
    ------
    FlowError
        Where they are no row of finite numbers > 0.
    """
    rates = np.atleast_1d(numbers("capacity", given)).copy()
    if rates.ndim != 1 or not (np.isfinite(rates) & (rates > 0)).all():
        raise FlowError("capacity must be a row of finite bytes/s > 0, one for each link")
    return rates


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
        array = _signed(name, array)
    return _column(name, array, n)


def _signed(name: str, array: NDArray[Any]) -> I8:
    """Return integers of any type as int64; the largest of uint64 would come out negative."""
    if array.dtype.kind == "u" and array.size and array.max() > MOST_INT64:
        raise FlowError(f"{name} holds {array.max()}; integers here are at most 2**63 - 1")
    return np.require(array, np.int64, BEHAVED)


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
        Where the values are no truth values, nor integers, or the length is wrong.
    """
    if type(given) is np.ndarray and given.dtype is BOOL and given.flags.carray:
        array = given
    else:
        array = _array(name, given)
        if array.size and array.dtype.kind not in "biu":
            raise FlowError(f"{name} holds {_kind(array)}; it takes truth values: use bool")
        array = np.require(array, np.bool_, BEHAVED)
    return _column(name, array, n)


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
        array = _signed(name, array)
    if array[0] != 0 or array[-1] != entries or (len(array) > 2 and falls(array)):
        raise FlowError(
            f"{name} runs from {array[0]} to {array[-1]}; it must start at 0, never fall and end "
            f"at {entries}, the number of entries it divides"
        )
    return array


@borrowing_kernel
def falls(row: I8) -> bool:
    """Tell whether an entry is less than the one before it."""
    entries, count = first_row(row), 0
    for k in between(1, len(row)):
        count += 1 if entries[k] < entries[k - 1] else 0
    return count > 0
