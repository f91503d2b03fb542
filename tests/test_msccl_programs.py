"""Random MSCCL programs: legal ones do what they mean, overwriting or not; races are refused."""

from collections import Counter

import numpy as np

from tests.msccl_programs import CHUNKS, SENDING, random_program
from ubnet.errors import ScheduleError
from ubnet.fabrics import load_fabric
from ubnet.msccl_reader import read_msccl
from ubnet.replay import Arena, replay
from ubnet.timing import time_schedule


def outputs(schedule):
    arena = Arena(schedule.sizes, "int64")
    for rank in range(schedule.ranks):
        arena.input(rank)[:] = [100**rank * 10**k for k in range(CHUNKS)]
    replay(schedule, arena)
    return [arena.output(rank).tolist() for rank in range(schedule.ranks)]


def names_a_send(program):
    """Tell whether a step waits by name for one that sends, which here waits for its data, too."""
    return any(
        step.wait is not None and program.blocks[gpu, step.wait[0]][step.wait[1]].kind in SENDING
        for (gpu, _), steps in program.blocks.items()
        for step in steps
    )


def refusal(path):
    """Return why a file is refused, or None."""
    try:
        read_msccl(path)
    except ScheduleError as error:
        return str(error)
    return None


def test_legal_programs_do_what_they_mean_and_races_are_refused(tmp_path):
    path = tmp_path / "made.xml"
    fabric = load_fabric("cloudmatrix384")
    seen = Counter()
    for seed in range(300):
        program = random_program(np.random.default_rng([3, seed]))
        path.write_text(program.xml())
        if program.races():
            why = refusal(path)
            assert why or names_a_send(program), seed
            assert not why or "in no fixed order; let one wait for the other (depid and" in why
            seen["refused"] += why is not None
            continue
        schedule = read_msccl(path)
        assert outputs(schedule) == program.run(), seed
        time_ps = time_schedule(schedule, fabric, np.arange(program.gpus), 4096, "aiv").time_ps
        assert time_ps > 0 or not schedule.transfers.any()
        seen["legal"] += 1
        seen["staged"] += int(schedule.sizes[:, 2].sum()) > CHUNKS * program.gpus + sum(
            step.count for steps in program.blocks.values() for step in steps if step.kind == "rrs"
        )
    assert min(seen["refused"], seen["legal"]) > 60, seen
    assert seen["staged"] > 3, seen
