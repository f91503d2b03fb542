"""What kernels are written in beside Numba's own words means the same with the JIT on and off."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ubnet.jit
from ubnet.jit import (
    at,
    between,
    borrowing_kernel,
    copy_row,
    first_row,
    greater,
    hand_over,
    lesser,
    of_row,
    skip,
    together,
    upto,
)
from ubnet.jit.word import COMPILES

SMALL = st.integers(-3, 5)
EDGES = st.sampled_from([-(2**62), -1, 0, 1, 2**31, 2**62])
ROW = np.dtype([("whole", "i8"), ("real", "f8"), ("small", "i2"), ("many", "3i4")], align=True)


@borrowing_kernel
def counted(first, end, inner, to):
    """Return how often an inner loop ran, and write down what the outer one counted."""
    n = 0
    for i in between(first, end):
        to[i - first] = i
        for j in upto(inner):
            if j == 3:
                break
            n += 1
    return n


@given(SMALL, SMALL, SMALL)
def test_counts_are_those_of_range(first, end, inner):
    to = np.full(9, 99)
    outer = range(first, end)
    assert counted(first, end, inner, to) == len(outer) * len(range(min(inner, 3)))
    assert to.tolist() == [*outer, *[99] * (9 - len(outer))]


def test_a_count_ends_before_the_largest_whole_number():
    to, most = np.zeros(2, np.int64), 2**63 - 1
    assert counted(most - 2, most, 1, to) == 2
    assert to.tolist() == [most - 2, most - 1]


@borrowing_kernel
def chosen(one, other):
    return lesser(one, other), greater(one, other)


@given(SMALL | EDGES, SMALL | EDGES)
def test_whole_numbers_are_chosen_as_python_does(one, other):
    assert chosen(one, other) == (min(one, other), max(one, other))
    # Other widths: the wider of the two.
    if abs(one) < 2**31 - 1:
        assert chosen(np.int32(one), other) == (min(one, other), max(one, other))


REALS = st.floats(allow_nan=True)


@given(REALS, REALS | SMALL)
def test_reals_are_chosen_as_python_does_nan_and_zeros_included(one, other):
    # Python keeps the first where neither is less: so nan stays where it stands first.
    found = np.array(chosen(one, other), float)
    wanted = np.array([min(one, float(other)), max(one, float(other))])
    assert found.view(np.int64).tolist() == wanted.view(np.int64).tolist()


@pytest.mark.skipif(not COMPILES, reason="is refused by the compiler")
def test_what_has_no_sign_is_refused():
    with pytest.raises(numba.TypingError, match="signed integers and reals"):
        chosen(np.uint64(1), np.uint64(2))


@borrowing_kernel
def move_on(table, column, n):
    """Copy row n of a table over the first; add to a column from its nth entry on."""
    rows, rest = first_row(table), skip(first_row(column), n)
    copy_row(at(rows, n), at(rows, 0))
    copy_row(at(rows, n), at(rows, n))
    at(rows, n).whole += 10
    rest[0] += 5
    return rest[0]


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.float64, np.uint8])
def test_rows_are_read_and_written_where_they_are(kind):
    table, column = np.zeros(4, ROW).view(np.recarray), np.arange(4, dtype=kind)
    for k in range(4):
        table[k] = (k, k / 2, -k, [k, 2 * k, 3 * k])
    before = [row.tobytes() for row in table]
    assert move_on(table, column, 2) == 7
    assert column.tolist() == [0, 1, 7, 3]
    assert table[0].whole == 2
    assert table[2].whole == 12
    table[2].whole = 2
    assert [row.tobytes() for row in table] == [before[k] for k in (2, 1, 2, 3)]


def test_a_matrix_is_read_row_after_row():
    matrix = np.arange(12).reshape(3, 4)
    assert move_on(np.zeros(12, ROW).view(np.recarray), matrix, 6) == 11
    assert matrix[1, 2] == 11


@borrowing_kernel
def summed(column, n):
    total = 0.0
    for k in upto(n):
        total += of_row(column, k)
    return total


@pytest.mark.parametrize("kind", [np.bool_, np.int64, np.float64])
@pytest.mark.parametrize("n", [0, 1, 3, 7])
def test_a_column_of_one_row_stands_for_all(kind, n):
    assert summed(np.ones(1, kind), n) == n
    own = np.arange(n, dtype=np.int64).astype(kind)
    assert summed(own, n) == own.sum()


def test_rows_are_not_counted_where_they_do_not_follow_each_other():
    apart = np.arange(8)[::2]
    with pytest.raises((numba.TypingError, ValueError), match="contiguous"):
        move_on(np.zeros(4, ROW).view(np.recarray), apart, 1)
    with pytest.raises((numba.TypingError, ValueError), match="contiguous"):
        summed(apart, 4)
    with pytest.raises(ValueError, match="contiguous"):
        hand_over([np.arange(4), apart])


class Tables(NamedTuple):
    first: np.recarray
    second: np.ndarray


find = together(Tables(first=ROW, second=np.dtype(np.int32)))


@borrowing_kernel
def swapped(where):
    """Let the first entries of two tables change places."""
    given = find(where)
    row, second = at(given.first, 0), given.second
    row.whole, second[0] = second[0], row.whole


def test_tables_handed_over_together_are_those_of_the_caller():
    tables = Tables(np.zeros(2, ROW).view(np.recarray), np.array([7, 8], np.int32))
    where = hand_over(tables)
    swapped(where)
    assert (tables.first.whole.tolist(), tables.second.tolist()) == ([7, 0], [0, 8])
    swapped(where)
    assert (tables.first.whole.tolist(), tables.second.tolist()) == ([0, 0], [7, 8])


def test_kernels_are_stale_when_what_they_are_written_in_has_changed(tmp_path):
    folder = Path(ubnet.jit.__file__).parent
    copy = tmp_path / "copied"
    shutil.copytree(folder, copy)
    spec = importlib.util.spec_from_file_location("copied.decorators", copy / "decorators.py")
    decorators = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(decorators)
    (tmp_path / "kernels").mkdir()
    before = decorators._stamp(tmp_path / "kernels")
    (copy / "counting.py").write_text("")
    decorators._stamp.cache_clear()
    assert decorators._stamp(tmp_path / "kernels") != before


@pytest.mark.slow
@pytest.mark.skipif(not COMPILES, reason="is what is run")
def test_all_of_it_with_the_jit_off():
    bare = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        command,
        env=bare,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
