"""Bodies of calls by mpi4py's names: right on any number of ranks, in whatever order these run."""

import bodies_collectives
import bodies_p2p
import bodies_windows
import pytest

import ubnet

BODIES = [
    pytest.param(body, id=f"{of.__name__.removeprefix('bodies_')}-{name}")
    for of in (bodies_p2p, bodies_collectives, bodies_windows)
    for name, body in of.BODIES.items()
]


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("body", BODIES)
def test_bodies(body, ranks, cloudmatrix):
    ubnet.run(body, ranks, cloudmatrix)


@pytest.mark.parametrize("body", BODIES)
def test_order_in_which_ranks_run_changes_nothing(body, cloudmatrix):
    plain = ubnet.run(body, 5, cloudmatrix)
    for seed in (1, 2):
        shuffled = ubnet.run(body, 5, cloudmatrix, shuffle=seed)
        assert (shuffled.time_ps, shuffled.digest) == (plain.time_ps, plain.digest)
        assert shuffled.values == plain.values
