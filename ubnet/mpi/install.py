"""Taking mpi4py's place: ``from mpi4py import MPI`` gives a program the module `ubnet.mpi`.

A finder stands first in ``sys.meta_path``. It answers for ``mpi4py.MPI``, and for ``mpi4py`` itself
where that is not installed, so that a program needs no MPI at all. Under mpirun ubnet needs the
real module for itself: that is loaded first, and a module which is loaded is never looked for
again, so it is taken out of ``sys.modules`` (`ubnet.real_mpi` keeps it).
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ubnet.real_mpi import load_real_mpi, under_mpirun

PACKAGE, MODULE = "mpi4py", "mpi4py.MPI"
STANDS_FOR = "4.1.2"
"""The version of mpi4py whose names `ubnet.mpi` has."""


class RuntimeChoices:
    """What ``mpi4py.rc`` is: settings for the start of MPI, which change nothing here."""

    def __call__(self, **settings: Any) -> None:
        """Keep settings."""
        self.__dict__.update(settings)


class _Place(Loader):
    """Loads `ubnet.mpi` under mpi4py's name, and a bare mpi4py where there is none."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == MODULE:
            sys.modules[MODULE] = import_module("ubnet.mpi")
            return
        module.__dict__.update(__version__=STANDS_FOR, rc=RuntimeChoices(), __path__=[])


class PlaceFinder(MetaPathFinder):
    """Finds ``mpi4py.MPI`` in `ubnet.mpi`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for mpi4py's module, and for its package where nobody else has one."""
        if name == MODULE:
            return ModuleSpec(name, _Place())
        if name == PACKAGE and PathFinder.find_spec(name, path) is None:
            return ModuleSpec(name, _Place(), is_package=True)
        return None


def install() -> None:
    """Put `ubnet.mpi` in mpi4py's place for everything that is imported from now on."""
    if any(isinstance(finder, PlaceFinder) for finder in sys.meta_path):
        return
    if under_mpirun():
        load_real_mpi()
    sys.modules.pop(MODULE, None)
    package = sys.modules.get(PACKAGE)
    if package is not None and hasattr(package, "MPI"):
        del package.MPI
    sys.meta_path.insert(0, PlaceFinder())


def uninstall() -> None:
    """Give mpi4py its place back."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, PlaceFinder)]
    sys.modules.pop(MODULE, None)
    package = sys.modules.get(PACKAGE)
    if package is not None and hasattr(package, "MPI"):
        del package.MPI
