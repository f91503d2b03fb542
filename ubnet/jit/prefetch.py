"""Rows are brought into the processor's cache before they are needed."""

from typing import Any

from numba.core import types

# LLVM's types by Numba's own names: llvmlite is a package of Numba's, not of ours.
from numba.core.cgutils import int32_t, ir, voidptr_t  # type: ignore[attr-defined]

from .word import word


def _ask_for(typing_context: Any, row: Any) -> Any:
    """Compile the instruction that asks for the cache line at which a row begins."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [voidptr_t, int32_t, int32_t, int32_t])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [voidptr_t], kind)
        to_read, into_all_caches, of_data = int32_t(0), int32_t(3), int32_t(1)
        place = builder.bitcast(arguments[0], voidptr_t)
        builder.call(prefetch, [place, to_read, into_all_caches, of_data])
        return context.get_dummy_value()

    return types.void(row), generate


def _need_not(row: Any) -> None:
    """Do nothing: where nothing is compiled, a cache line does not count."""


fetch = word(_ask_for, _need_not)
