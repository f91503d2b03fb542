"""What mpi4py's own helper modules (util, run, futures) ask for by names that are not public."""

from typing import Any

from .datatype import Datatype, _datatype_create, _typecode, _typedict
from .environment import _set_abort_status
from .locks import _comm_lock, _comm_lock_table, _commctx_inter, _commctx_intra


def _datatype_decode(datatype: Datatype, mark: bool = False) -> tuple[Any, str, dict[str, Any]]:
    """Return what `Datatype.decode` does."""
    return datatype.decode()


def _typealign(datatype: Datatype) -> int | None:
    """Return what the address of an element should be a multiple of, None if unknown."""
    if not datatype or datatype._layout.dtype is None:
        return None
    return datatype._layout.align


HELPER_NAMES: dict[str, Any] = {
    "_comm_lock": _comm_lock,
    "_comm_lock_table": _comm_lock_table,
    "_commctx_inter": _commctx_inter,
    "_commctx_intra": _commctx_intra,
    "_datatype_create": _datatype_create,
    "_datatype_decode": _datatype_decode,
    "_set_abort_status": _set_abort_status,
    "_typealign": _typealign,
    "_typecode": _typecode,
    "_typedict": _typedict,
}
"""Each by its name in mpi4py 4.1.2."""
