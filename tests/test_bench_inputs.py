"""The numbers that benches send: the same everywhere, exact in every type, wrong ones found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ubnet.cli.inputs import DTYPES, LARGEST, PRIME, Numbers, bench_dtype, wrong_repeated
from ubnet.errors import OptionError


def one_number(numbers: Numbers, rank: int, index: int) -> int:
    values = np.zeros(1, dtype=np.int64)
    numbers.fill(values, rank, index)
    return int(values[0])


@given(
    seed=st.integers(0, 2**31),
    rank=st.integers(0, 10**6),
    first=st.integers(0, 2**40),
    count=st.integers(0, 40),
)
def test_a_number_depends_on_seed_rank_and_index_alone(seed, rank, first, count):
    numbers = Numbers(seed, 16, 1)
    values = np.zeros(count, dtype=np.float32)
    numbers.fill(values, rank, first)
    assert [one_number(numbers, rank, first + i) for i in range(count)] == list(values)
    assert ((values >= 1) & (values <= LARGEST)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [1, 2, 7, 48, 768])
def test_sums_over_all_ranks_are_exact_in_every_type(dtype, ranks):
    dtype = bench_dtype(dtype)
    numbers = Numbers.for_sums(5, dtype, ranks)
    total = np.zeros(33, dtype=dtype)
    exact = np.zeros(33, dtype=np.int64)
    part = np.zeros(33, dtype=dtype)
    for rank in range(ranks):
        numbers.fill(part, rank, first=11)
        total = (total + part).astype(dtype)
        exact += part.astype(np.int64)
    assert (total.astype(np.int64) == exact).all()
    assert exact.any()
    part_of_it = [np.array([value]) for value in (0, 11, 33)]
    assert numbers.wrong_sums(total, ranks, *part_of_it) == 0
    total[7] = 0 if exact[7] else 1
    assert numbers.wrong_sums(total, ranks, *part_of_it) == 1


def test_every_wrong_element_is_counted():
    numbers = Numbers.for_sums(1, np.dtype("float32"), 4)
    values = np.zeros(12, dtype=np.float32)
    numbers.fill(values[0:5], rank=2, first=100)
    numbers.fill(values[5:12], rank=3, first=0)
    parts = [np.array(c) for c in ([0, 5], [2, 3], [100, 0], [5, 7])]
    assert numbers.wrong_moved(values, *parts) == 0
    values[[0, 4, 11]] = [0, np.nan, -1]
    assert numbers.wrong_moved(values, *parts) == 3
    assert wrong_repeated(values, np.array([-1])) == 11


@pytest.mark.parametrize(("width", "unit"), [(1 << 60, 0), (3, 10), (PRIME + 5, 2 * PRIME)])
def test_numbers_go_on_where_they_repeat(width, unit):
    """Element by element as their docstring says, over more than one round of them."""
    numbers, count = Numbers(3, 16, 1), 2 * PRIME + 9
    values = np.zeros(count, dtype=np.float32)
    numbers.fill(values, 2, 1000, width, unit)
    for p in [0, 1, 2, 3, PRIME - 1, PRIME, PRIME + 5, count - 1]:
        assert values[p] == one_number(numbers, 2, 1000 + p // width * unit + p % width)
    whole = numbers.of_rank(2).astype(np.float32)
    assert (whole == [one_number(numbers, 2, p) for p in range(PRIME)]).all()
    assert wrong_repeated(values, whole, 1000, width, unit) == 0
    values[[5, count - 1]] = 0
    assert wrong_repeated(values, whole, 1000, width, unit) == 2


def test_two_ranks_and_two_seeds_send_different_numbers():
    sent = np.zeros((3, 1000))
    for row, (seed, rank) in zip(sent, [(1, 0), (1, 1), (2, 0)], strict=True):
        Numbers(seed, 16, 1).fill(row, rank)
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        assert 0.02 < (sent[a] == sent[b]).mean() < 0.12


def test_unknown_type_is_refused_with_the_nearest():
    with pytest.raises(OptionError, match="did you mean float32"):
        bench_dtype("float33")
