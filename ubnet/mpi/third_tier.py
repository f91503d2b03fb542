"""The calls of MPI that a virtual supernode does not serve: each says so by its name.

Files, processes that are started later, sessions, partitioned messages, requests of the program's
own and recovery from failures of processes (mpi4py 4.1.2's names).
"""

from typing import Any, NoReturn

from .handle import Handle


class _Absent:
    """A call that is not there: of a class, of its objects, or of the module."""

    def __init__(self, name: str) -> None:
        self._called = name

    def __get__(self, owner: Any, kind: type[Any]) -> "_Absent":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self._called} is not served by ubnet's MPI")


def absent(name: str) -> Any:
    """Return what a class has in the place of a call that is not served."""
    return _Absent(f"MPI.{name}")


class File(Handle):
    """A file that ranks share."""

    __slots__ = ()

    Open, Delete = absent("File.Open"), absent("File.Delete")


class Session(Handle):
    """A start of MPI among others."""

    __slots__ = ()

    Init = absent("Session.Init")


File._kind, Session._kind = File, Session

FILE_NULL = File._of(None, "FILE_NULL")
SESSION_NULL = Session._of(None, "SESSION_NULL")

FUNCTIONS: dict[str, Any] = {
    name: absent(name)
    for name in (
        *("Add_error_class", "Remove_error_class", "Add_error_code", "Remove_error_code"),
        *("Add_error_string", "Remove_error_string"),
        *("Open_port", "Close_port", "Publish_name", "Unpublish_name", "Lookup_name"),
        *("Register_datarep", "Get_abi_version", "Get_abi_info", "Get_abi_fortran_info"),
    )
}
"""Functions of the module."""


class AbsentCalls:
    """Calls of a communicator."""

    __slots__ = ()

    Get_parent, Join = absent("Comm.Get_parent"), absent("Comm.Join")
    Psend_init, Precv_init = absent("Comm.Psend_init"), absent("Comm.Precv_init")
    Revoke, Is_revoked = absent("Comm.Revoke"), absent("Comm.Is_revoked")
    Get_failed, Ack_failed = absent("Comm.Get_failed"), absent("Comm.Ack_failed")
    Agree, Iagree = absent("Comm.Agree"), absent("Comm.Iagree")
    Shrink, Ishrink = absent("Comm.Shrink"), absent("Comm.Ishrink")


class AbsentIntraCalls:
    """Calls of an intracommunicator."""

    __slots__ = ()

    Spawn, Spawn_multiple = absent("Intracomm.Spawn"), absent("Intracomm.Spawn_multiple")
    Accept, Connect = absent("Intracomm.Accept"), absent("Intracomm.Connect")
