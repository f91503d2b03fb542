"""The real mpi4py, which ubnet uses under mpirun only: found once, kept under a name of its own."""

import os
from typing import Any

from ubnet.errors import OptionError

LAUNCHER_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")

_real: Any = None


def under_mpirun() -> bool:
    """Say whether this process was started by mpirun (Open MPI, MPICH or another PMI launcher)."""
    return any(name in os.environ for name in LAUNCHER_VARIABLES)


def load_real_mpi() -> Any:
    """Return the real module ``mpi4py.MPI``.

    The first call must come before ubnet takes mpi4py's place for the program; from then on the
    module is kept here, whatever happens to ``sys.modules``.

    Raises
    ------
    OptionError
        If mpi4py or an MPI runtime is not installed.
    """
    global _real
    if _real is None:
        # Open MPI's way to fabrics of other makers, which messages do not take, sleeps for a second
        # when it is started. Who has chosen ways gets those.
        os.environ.setdefault("OMPI_MCA_btl", "^ofi")
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise OptionError(
                f"mpirun started this process, but mpi4py cannot be used ({error}): run without "
                "mpirun, or pip install mpi4py, or, where ubnet's sources are, "
                'pip install ".[mpi]"'
            ) from error
        _real = MPI
    return _real
