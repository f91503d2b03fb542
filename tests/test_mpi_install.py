"""`ubnet.mpi` in mpi4py's place: every form of import, with and without mpi4py installed."""

import ast
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from ubnet import mpi as MPI
from ubnet.mpi import install as place
from ubnet.mpi.handle import Handle

ROOT = Path(__file__).parents[1]


@pytest.fixture
def installed():
    place.install()
    yield
    place.uninstall()
    for name in [n for n in sys.modules if n == "mpi4py" or n.startswith("mpi4py.")]:
        del sys.modules[name]


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "form",
    [
        "from mpi4py import MPI",
        "import mpi4py.MPI as MPI",
        "import mpi4py.MPI; MPI = mpi4py.MPI",
        "from importlib import import_module; MPI = import_module('mpi4py.MPI')",
        "from mpi4py.MPI import COMM_WORLD; import sys; MPI = sys.modules['mpi4py.MPI']",
        "import mpi4py; mpi4py.rc(initialize=False); mpi4py.rc.threads = False; "
        "from mpi4py import MPI",
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_every_form_of_import(form, there, installed, monkeypatch):
    find = PathFinder.find_spec
    if not there:
        monkeypatch.setattr(
            PathFinder,
            "find_spec",
            lambda name, *rest: None if name == "mpi4py" else find(name, *rest),
        )
    names = {}
    exec(form, names)
    assert names["MPI"] is MPI
    assert sys.modules["mpi4py"].MPI is MPI
    if not there:
        assert sys.modules["mpi4py"].__version__ == place.STANDS_FOR


def test_installing_twice_installs_once(installed):
    before = list(sys.meta_path)
    place.install()
    assert sys.meta_path == before
    assert isinstance(sys.meta_path[0], place.PlaceFinder)


def test_outside_of_mpirun_the_real_module_is_never_loaded():
    seen = python(
        "import sys, ubnet.mpi.install as place; place.install(); from mpi4py import MPI; "
        "import ubnet; ubnet.run(lambda comm: comm.barrier(), 2);"
        "print([n for n in sys.modules if 'openmpi' in n or 'mpich' in n], MPI.__name__)"
    )
    assert seen.split() == ["[]", "ubnet.mpi"]


@pytest.mark.slow
def test_a_real_module_that_is_loaded_stays_usable():
    pytest.importorskip("mpi4py")
    seen = python(
        "import os; os.environ['OMPI_COMM_WORLD_SIZE'] = '1'\n"
        "from ubnet.mpi.install import install; install()\n"
        "import mpi4py; from mpi4py import MPI; import ubnet.mpi\n"
        "from ubnet.real_mpi import load_real_mpi; real = load_real_mpi()\n"
        "assert MPI is ubnet.mpi and mpi4py.MPI is ubnet.mpi and real is not MPI\n"
        "print(real.COMM_WORLD.size, real.__name__)"
    )
    assert seen.split() == ["1", "mpi4py.MPI"]


def test_the_face_has_no_names_of_its_own():
    mpi4py = pytest.importorskip("mpi4py")
    tree = ast.parse(Path(mpi4py.__file__).with_name("MPI.pyi").read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    theirs = set(names_in(tree))
    for name in MPI.__all__:
        assert name in theirs, f"mpi4py.MPI has no {name}"
        ours = getattr(MPI, name)
        if isinstance(ours, type) and name in classes and issubclass(ours, Handle):
            known = {n for base in lineage(name, classes) for n in names_in(base)}
            own = {n for base in ours.__mro__[:-1] for n in vars(base) if not n.startswith("_")}
            assert own <= known, f"mpi4py.MPI.{name} has no {sorted(own - known)}"


def names_in(node):
    for child in node.body:
        if isinstance(child, ast.Assign):
            yield from (target.id for target in child.targets)
        elif isinstance(child, ast.AnnAssign):
            yield child.target.id
        elif isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield child.name


def lineage(name, classes):
    yield classes[name]
    for base in classes[name].bases:
        yield from lineage(base.id, classes)
