"""Times of collectives behave as a user expects: more bytes never take less time."""

from itertools import pairwise

import numpy as np
import pytest

from ubnet.collectives.build import build
from ubnet.timing import time_schedule


@pytest.mark.slow
def test_a_mesh_all_reduce_of_more_elements_never_takes_less_time(cloudmatrix):
    ranks = 384
    times = [
        time_schedule(
            build("all_reduce", ranks, count, algorithm="mesh"),
            cloudmatrix,
            np.arange(ranks),
            8,
            "aiv",
        ).time_ps
        for count in (300, 384, 512, 700, 768)
    ]
    # What does not divide evenly may cost a little more than the next whole number.
    assert all(later >= 0.97 * earlier for earlier, later in pairwise(times))
    assert times[0] < times[-1]
