"""The module that programs import as ``mpi4py.MPI``: its names, on the ranks of a ubnet world.

`ubnet.mpi.install` puts it there for the programs that ``ubnet run`` starts; the ``comm`` that
`ubnet.run` passes is its COMM_WORLD. Reductions, datatypes and error classes are the same objects
for all ranks; communicators that a rank makes are its own.
"""

from .comm import COMM_NULL, COMM_SELF, COMM_WORLD, Comm, Intracomm
from .comm import compute_dims as Compute_dims
from .constants import (
    ANY_SOURCE,
    ANY_TAG,
    BOTTOM,
    BSEND_OVERHEAD,
    CONGRUENT,
    IDENT,
    IN_PLACE,
    MAX_ERROR_STRING,
    MAX_LIBRARY_VERSION_STRING,
    MAX_OBJECT_NAME,
    MAX_PROCESSOR_NAME,
    PROC_NULL,
    ROOT,
    SIMILAR,
    SUBVERSION,
    THREAD_FUNNELED,
    THREAD_MULTIPLE,
    THREAD_SERIALIZED,
    THREAD_SINGLE,
    UNDEFINED,
    UNEQUAL,
    VERSION,
    BottomType,
    InPlaceType,
)
from .datatype import DATATYPES, Datatype
from .environment import (
    Attach_buffer,
    Detach_buffer,
    Finalize,
    Get_library_version,
    Get_processor_name,
    Get_version,
    Init,
    Init_thread,
    Is_finalized,
    Is_initialized,
    Is_thread_main,
    Pcontrol,
    Query_thread,
    Wtick,
    Wtime,
    get_vendor,
)
from .exception import (
    ERR_LASTCODE,
    ERROR_CLASSES,
    SUCCESS,
    Exception,
    Get_error_class,
    Get_error_string,
)
from .group import GROUP_EMPTY, GROUP_NULL, Group
from .matched import MESSAGE_NO_PROC, MESSAGE_NULL, Message
from .op import OPS, Op
from .pickling import Pickle, pickle
from .request import REQUEST_NULL, Prequest, Request
from .status import Status

__all__ = [
    "ANY_SOURCE",
    "ANY_TAG",
    "Attach_buffer",
    "BOTTOM",
    "BSEND_OVERHEAD",
    "BottomType",
    "COMM_NULL",
    "COMM_SELF",
    "COMM_WORLD",
    "CONGRUENT",
    "Comm",
    "Compute_dims",
    "Datatype",
    "Detach_buffer",
    "ERR_LASTCODE",
    "Exception",
    "Finalize",
    "GROUP_EMPTY",
    "GROUP_NULL",
    "Get_error_class",
    "Get_error_string",
    "Get_library_version",
    "Get_processor_name",
    "Get_version",
    "Group",
    "IDENT",
    "IN_PLACE",
    "InPlaceType",
    "Init",
    "Init_thread",
    "Intracomm",
    "Is_finalized",
    "Is_initialized",
    "Is_thread_main",
    "MAX_ERROR_STRING",
    "MAX_LIBRARY_VERSION_STRING",
    "MAX_OBJECT_NAME",
    "MAX_PROCESSOR_NAME",
    "MESSAGE_NO_PROC",
    "MESSAGE_NULL",
    "Message",
    "Op",
    "PROC_NULL",
    "Pcontrol",
    "Pickle",
    "Prequest",
    "Query_thread",
    "REQUEST_NULL",
    "ROOT",
    "Request",
    "SIMILAR",
    "SUBVERSION",
    "SUCCESS",
    "Status",
    "THREAD_FUNNELED",
    "THREAD_MULTIPLE",
    "THREAD_SERIALIZED",
    "THREAD_SINGLE",
    "UNDEFINED",
    "UNEQUAL",
    "VERSION",
    "Wtick",
    "Wtime",
    "get_vendor",
    "pickle",
    *DATATYPES,
    *OPS,
    *ERROR_CLASSES,
]

# The predefined datatypes, operations and error classes stand in tables of their own files.
globals().update(DATATYPES, **OPS, **ERROR_CLASSES)
