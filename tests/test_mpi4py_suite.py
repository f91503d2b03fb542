"""mpi4py's own test suite judges `ubnet.mpi`: the core files at 1 and 3 ranks in one process."""

import os
from concurrent.futures import ThreadPoolExecutor

import mpi4py_suite as judge
import pytest

ALONE = ("msgspec", "datatype")
"""Files whose tests talk to no other rank: more ranks would say the same again."""
LONG = ("cco_buf", "cco_vec", "cco_nb_buf", "cco_nb_vec", "cco_ngh_buf", "p2p_buf", "rma")
"""Files that repeat every test for each kind of array: at 3 ranks numpy's alone."""
CASES = [(file, n) for n in (1, 3) for file in judge.CORE if n == 1 or file not in ALONE]


def test_the_core_score_is_of_856_tests():
    assert sum(judge.CORE.values()) == 856


def test_every_exception_has_a_reason():
    listed = judge.tomllib.loads(judge.EXCEPTIONS.read_text()).get("exception", [])
    assert all(one["test"] and len(one["reason"]) > 10 for one in listed)


@pytest.fixture(scope="module")
def scores():
    """The scores of all cases; as many at a time as there are processors."""
    try:
        judge.suite()
    except judge.NoSuite as missing:
        pytest.fail(str(missing), pytrace=False)
    order = sorted(CASES, key=lambda case: (case[0] not in (*ALONE, *LONG), -case[1]))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(order, pool.map(score, order), strict=True))


def score(case):
    file, ranks = case
    options = ["--no-array"] if ranks > 1 and file in LONG else []
    return judge.run(file, ranks, options=options)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("file", "ranks"), CASES)
def test_core(scores, file, ranks):
    found = scores[file, ranks]
    assert found.held, f"{found}\n{found.text[-6000:]}"
    assert found.tests + found.left_out == judge.CORE[file]
    assert found.left_out == 0 or judge.exceptions(ranks)
