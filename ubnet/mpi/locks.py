"""What mpi4py's own helper modules ask of a communicator: locks, and one for themselves."""

from threading import Lock
from typing import Any

from .communicator import Communicator, inner_lock
from .intercomm import local_side


def _comm_lock_table(comm: Any) -> dict[str, Lock]:
    """Return the locks of a communicator by what they guard."""
    return _here(comm).locks


def _comm_lock(comm: Any, key: str) -> Lock:
    """Return the lock that guards one kind of call of a communicator."""
    return inner_lock(_here(comm), key)


def _commctx_intra(comm: Any) -> tuple[Any, int]:
    """Return a communicator of the same members for messages of one's own, and a tag."""
    here = _here(comm)
    if here.inner is None:
        here.inner = comm.Dup()
    here.inner_calls += 1
    return here.inner, here.inner_calls & 0xFFFF


def _commctx_inter(comm: Any) -> tuple[Any, int, Any, bool]:
    """Return the same of an intercommunicator, with its local side, and whether that is first."""
    here = _here(comm)
    if here.inner is None:
        here.inner = comm.Dup(), local_side(comm)
    here.inner_calls += 1
    inner, local = here.inner
    return inner, here.inner_calls & 0xFFFF, local, here.first


def _here(comm: Any) -> Communicator:
    here: Communicator = comm._here
    return here
