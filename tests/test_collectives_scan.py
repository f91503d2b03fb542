"""Scan, exscan and uneven reduce-scatter: equal to numpy, in rank order, in the steps they say."""

import numpy as np
import pytest

from ubnet.collectives import reduce_scatter_v, scan
from ubnet.replay import Arena, replay

RANKS = (1, 2, 3, 7, 8, 16)


def words(left, right):
    """Concatenate: base and length packed into a number, associative and not commutative."""
    return left * 10 ** np.floor(np.log10(right) + 1).astype(np.int64) + right


def run(schedule, inputs, reduce):
    schedule.validate()
    arena = Arena(schedule.sizes, "int64")
    for rank, values in enumerate(inputs):
        arena.input(rank)[:] = values
    replay(schedule, arena, reduce)
    return [arena.output(rank).copy() for rank in range(len(inputs))]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_scan_and_exscan_are_prefixes_in_rank_order(ranks, count):
    inputs = [np.full(count, 1 + rank % 9) for rank in range(ranks)]
    prefixes = []
    for values in inputs:
        prefixes.append(words(prefixes[-1], values) if prefixes else values)
    for rank, result in enumerate(run(scan.inclusive(ranks, count), inputs, words)):
        np.testing.assert_array_equal(result, prefixes[rank])
    results = run(scan.exclusive(ranks, count), inputs, words)
    for rank in range(1, ranks):
        np.testing.assert_array_equal(results[rank], prefixes[rank - 1])


@pytest.mark.parametrize("ranks", RANKS)
def test_scan_steps(ranks):
    steps = (ranks - 1).bit_length()
    transfers = scan.inclusive(ranks, 1).transfers
    assert transfers.sum() == sum(ranks - (1 << k) for k in range(steps))


@pytest.mark.parametrize("counts", [[3], [0, 2], [2, 0, 1], [1, 2, 3, 4, 0, 1, 5]])
def test_uneven_reduce_scatter(counts):
    ranks = len(counts)
    inputs = [np.arange(sum(counts)) + 1 + rank for rank in range(ranks)]
    starts = np.cumsum(counts) - counts
    total = inputs[0]
    for values in inputs[1:]:
        total = words(total, values)
    for rank, result in enumerate(run(reduce_scatter_v.mesh(counts), inputs, words)):
        block = slice(starts[rank], starts[rank] + counts[rank])
        np.testing.assert_array_equal(result, total[block])
