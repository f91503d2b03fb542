"""The first run after an installation: kernels are compiled in two processes at once.

Numba compiles one kernel at a time in a process and keeps what it has compiled on disk, for every
later run and for other processes. So a second process compiles the engine's clockwork, the largest
part, while this one compiles what it takes to check payloads, to make schedules and to post flows.
"""

import os
import subprocess
import sys
from pathlib import Path

import ubnet

CLOCKWORK = """
import numpy as np
from ubnet.flow_engine.clearing import clear_ended
from ubnet.flow_engine.tables import fresh_engine
from ubnet.flowsim import FlowSim
FlowSim([1.0]).run()
clear_ended(fresh_engine(np.ones(1), 0.0))
"""


def compile_ahead() -> None:
    """Compile what the main job needs, if the engine's kernels are not on disk yet.

    Nothing depends on it: what is missing is compiled when it is called.
    """
    if not _is_first_run():
        return
    print("ubnet: compiling, once after an installation", file=sys.stderr)
    # Its ubnet must be this one, whatever lies in the present folder, a clone of ubnet for example.
    command = [sys.executable, "-P", "-c", CLOCKWORK]
    paths = [str(Path(ubnet.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL) as second:
        try:
            _post_and_check()
            _build()
        except BaseException:
            second.terminate()
            raise


def _is_first_run() -> bool:
    from ubnet.flow_engine.loop import work

    cache = getattr(work, "_cache", None)  # a plain function where compiling is switched off
    place = getattr(cache, "cache_path", None)
    return place is not None and not any(Path(place).glob("loop.work-*.nbi"))


def _post_and_check() -> None:
    """Call the kernels of posts and of payloads once, on next to nothing."""
    from ubnet.cli.expert_rows import Experts
    from ubnet.cli.options import choose_ways
    from ubnet.collectives.expert_parallel import OPS
    from ubnet.flowsim import FlowSim

    FlowSim([1.0]).post([1, 1], [0, 1, 2], [0, 0])
    way = choose_ways()[0]
    for op in OPS:
        Experts(tokens=1).run(way, op, 2).wrong()


def _build() -> None:
    """Make a schedule that is long enough for portions, and post it."""
    import numpy as np

    from ubnet.cli.options import DEFAULT_FABRIC
    from ubnet.collectives import OPERATIONS
    from ubnet.collectives.choice import made
    from ubnet.fabrics import load_fabric
    from ubnet.flowsim import FlowSim
    from ubnet.memory import capacity_with_memory
    from ubnet.portions import LEAST, Portions
    from ubnet.timing import pick_transport, schedule_flows

    fabric = load_fabric(DEFAULT_FABRIC)
    places = np.arange(1 + int(LEAST**0.5))
    schedule = made(OPERATIONS["all_reduce"], "ring", fabric, places, len(places))
    transport, _ = pick_transport(schedule, fabric, places, 4)
    flows = schedule_flows(schedule, fabric, places, 4, transport)
    Portions.of(flows)
    FlowSim(capacity_with_memory(fabric)).post(**flows.post_arguments())
