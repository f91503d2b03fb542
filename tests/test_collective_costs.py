"""Steps, messages and bytes of every schedule equal the formula, for every rank."""

from typing import Any

import numpy as np
import pytest

from ubnet.collectives import OPERATIONS, build, cost
from ubnet.collectives.formulas import FORMULAS, Cost, exchange_cost
from ubnet.collectives.totals import TOTALS, totals
from ubnet.schedule import JOIN, Schedule

RANKS = (1, 2, 3, 4, 5, 7, 8, 16, 48)
COUNTS = (0, 1, 11, 1001)


def counted(schedule: Schedule) -> Cost:
    """Count a schedule's operations one by one."""
    s = schedule
    columns = np.zeros((3, s.ranks), dtype=np.int64)
    depth = [0] * len(s)
    for i in range(len(s)):
        crosses = s.src[i] != s.dst[i] and s.kind[i] != JOIN
        waits = s.dep[s.dep_ptr[i] : s.dep_ptr[i + 1]]
        depth[i] = max([depth[d] for d in waits], default=0) + bool(crosses)
        if crosses:
            columns[0, s.src[i]] += 1
            columns[1, s.src[i]] += s.count[i]
            columns[2, s.dst[i]] += s.count[i] * s.reduces[i]
    steps = np.array([len(s.steps_of(rank)) for rank in range(s.ranks)])
    return Cost(max(depth, default=0), steps, *columns)


def assert_equal(found: Cost, formula: Cost, where: str) -> None:
    assert found.rounds == formula.rounds, where
    for column in ("steps", "messages", "sent", "reduced"):
        mine, right = getattr(found, column), getattr(formula, column)
        assert mine.tolist() == right.tolist(), f"{column} of {where}"


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("op", "algorithm"), FORMULAS)
def test_counted_equals_formula(op: str, algorithm: str, ranks: int) -> None:
    known = OPERATIONS[op]
    for count in COUNTS:
        for root in (0, ranks // 2, ranks - 1) if known.rooted else (0,):
            for chunks in (1, 2, 5) if algorithm in known.chunked else (1,):
                schedule = build(op, ranks, count, algorithm=algorithm, root=root, chunks=chunks)
                formula = cost(op, algorithm, ranks, count, root=root, chunks=chunks)
                where = f"{op} {algorithm} n={ranks} count={count} root={root} chunks={chunks}"
                assert_equal(counted(schedule), formula, where)
                assert (schedule.bytes_sent(4) == formula.sent * 4).all(), where


@pytest.mark.parametrize("algorithm", OPERATIONS["all_to_all_v"].algorithms)
@pytest.mark.parametrize("ranks", RANKS)
def test_all_to_all_v_equals_its_formula(algorithm: str, ranks: int) -> None:
    for dense in (False, True):
        rng = np.random.default_rng(ranks)
        sent = rng.integers(1, 9, (ranks, ranks)) * (dense or rng.integers(0, 2, (ranks, ranks)))
        parts: Any = [
            (sent[r], np.arange(ranks) * 9, sent[:, r], np.arange(ranks) * 9) for r in range(ranks)
        ]
        schedule = build("all_to_all_v", ranks, algorithm=algorithm, parts=parts)
        assert_equal(counted(schedule), exchange_cost(algorithm, parts), f"n={ranks}")


def test_every_algorithm_has_a_formula() -> None:
    registered = {(op.name, name) for op in OPERATIONS.values() for name in op.algorithms}
    assert registered - {pair for pair in registered if pair[0] == "all_to_all_v"} <= {
        *FORMULAS,
        *TOTALS,
    }
    assert set(FORMULAS) <= registered


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(
    ("op", "algorithm"), [pair for pair in TOTALS if pair[1] in OPERATIONS[pair[0]].algorithms]
)
def test_totals_equal_the_formula_where_the_count_divides(
    op: str, algorithm: str, ranks: int
) -> None:
    count = 2 * ranks * 32
    parts = [count] * ranks if OPERATIONS[op].uneven else None
    schedule = build(op, ranks, count, algorithm=algorithm, parts=parts)
    found, wanted = counted(schedule), totals(op, algorithm, ranks, count)
    assert (found.sent.sum(), found.reduced.sum()) == wanted[1:]
    if wanted.rounds is None:
        # Two binary trees, each at most one layer deeper than the logarithm, up and down.
        assert found.rounds <= 2 * (ranks.bit_length() + 1)
    else:
        assert found.rounds == wanted.rounds


@pytest.mark.parametrize("ranks", [2, 3, 8, 48])
def test_published_formulas_where_the_count_divides(ranks: int) -> None:
    """The table of costs: rounds and bytes of ring and mesh, n elements in all."""
    whole = ranks * 10
    for algorithm, rounds in (("mesh", 2), ("ring", 2 * (ranks - 1))):
        found = cost("all_reduce", algorithm, ranks, whole)
        assert found.rounds == rounds
        assert (found.sent * ranks == 2 * (ranks - 1) * whole).all()
        assert (found.reduced * ranks == (ranks - 1) * whole).all()
        found = cost("all_gather", algorithm, ranks, 10)
        assert found.rounds * 2 == rounds
        assert (found.sent * ranks == (ranks - 1) * whole).all()
