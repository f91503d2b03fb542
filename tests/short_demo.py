"""Run a script of OSU with few repetitions: ``ubnet run -n 2 tests/short_demo.py osu_bw.py 1024``.

The script itself stays as it is: its one function takes the numbers as arguments. The second
argument is the largest size in bytes, by default the script's own.
"""

import inspect
import runpy
import sys
from pathlib import Path

REPETITIONS = {
    **{"skip": 1, "skip_small": 1, "skip_large": 1},
    **{"loop": 2, "loop_small": 2, "loop_large": 2},
}


def main() -> None:
    """Call the function that bears the script's name."""
    script, *largest = sys.argv[1:]
    call = runpy.run_path(script)[Path(script).stem]
    chosen = REPETITIONS | ({"MAX_MSG_SIZE": int(largest[0])} if largest else {})
    known = inspect.signature(call).parameters
    call(**{name: value for name, value in chosen.items() if name in known})


if __name__ == "__main__":
    main()
