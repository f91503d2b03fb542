"""What a program asks of its surroundings: time, names, versions, start and end."""

from typing import Any

from ubnet import __version__
from ubnet.rank import current

from .constants import SUBVERSION, THREAD_FUNNELED, VERSION
from .exception import ERR_ARG
from .exception import Exception as MPIException
from .info import Info
from .memory import buffer


def Wtime() -> float:
    """Return the virtual time in seconds; asked again and again, it lets time pass."""
    return current().wtime()


def Wtick() -> float:
    """Return the resolution of `Wtime`: a picosecond.

    >>> Wtick()
    1e-12
    """
    return 1e-12


def Get_processor_name() -> str:
    """Return the name of the endpoint that this rank sits on."""
    rank = current()
    return rank.host.endpoint_names[rank.number]


def Get_library_version() -> str:
    """Return the name and version of the library."""
    return f"ubnet {__version__}: MPI on a virtual supernode"


def Get_version() -> tuple[int, int]:
    """Return the version of the MPI standard."""
    return VERSION, SUBVERSION


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    """Return the name and version of the library in parts."""
    major, minor, patch = (int(part) for part in __version__.split("."))
    return "ubnet", (major, minor, patch)


def Init() -> None:
    """Begin with MPI, which every rank has done when its program starts."""


def Init_thread(required: int = THREAD_FUNNELED) -> int:
    """Begin with MPI; return the level of threads that is provided."""
    return THREAD_FUNNELED


def Finalize() -> None:
    """End with MPI; a rank may call it once."""
    current().kept["finalized"] = True


def Is_initialized() -> bool:
    """Return whether `Init` has been called."""
    return True


def Is_finalized() -> bool:
    """Return whether `Finalize` has been called."""
    return bool(current().kept.get("finalized", False))


def Query_thread() -> int:
    """Return the level of threads: only the one that runs the program may call."""
    return THREAD_FUNNELED


def Is_thread_main() -> bool:
    """Return whether this thread may call."""
    return True


def Alloc_mem(size: int, info: Any = None) -> buffer:
    """Return memory of `size` bytes, zeroed."""
    if size < 0:
        raise MPIException(ERR_ARG, f"memory of {size} bytes")
    return buffer.allocate(size, clear=True)


def Free_mem(mem: buffer) -> None:
    """Let memory go that `Alloc_mem` has given."""
    mem.release()


def Pcontrol(level: int) -> None:
    """Set the level of profiling, which has no meaning here."""


def Get_hw_resource_info() -> Info:
    """Return what is known of where this rank sits."""
    return Info.Create({"mpi_hw_resource_type": Get_processor_name()})


def _set_abort_status(status: object) -> None:
    """Say with which status the program ends; it ends with that of its exception here."""
