"""The decorators of all Numba kernels: arrays in, arrays out, the same numbers everywhere."""

import hashlib
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.event import Event, Listener, register

from ubnet.garbage import seldom_collected

F = TypeVar("F", bound=Callable[..., Any])

# What unpickling raises for an index that another version wrote or that was cut short.
_UNREADABLE = (
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)

INNER = {"cache": False, "no_cpython_wrapper": True, "_nrt": False, "no_rewrites": True}
"""What Numba leaves out of a kernel that only other kernels call; `inner_kernel` says why."""


class _Compilation(Listener):
    """Lets Python look for garbage seldom while Numba compiles one of our kernels.

    Most of what a compilation makes lives until its end. Python would look over it time and again,
    and ten times over all that was imported: a twentieth of what it takes to compile.
    """

    def __init__(self) -> None:
        self.kernels: set[Any] = set()
        self._running: list[AbstractContextManager[None]] = []  # each compiles those that it calls

    def on_start(self, event: Event) -> None:
        if event.data["dispatcher"] in self.kernels:
            self._running.append(seldom_collected())
            self._running[-1].__enter__()

    def on_end(self, event: Event) -> None:
        if event.data["dispatcher"] in self.kernels:
            self._running.pop().__exit__(None, None, None)


_compilation = _Compilation()
cast(Any, register)("numba:compile", _compilation)


def kernel(function: F) -> F:
    """Compile a kernel with ubnet's settings.

    ``fastmath`` stays off, because results must be the same with the JIT on and off; the compiled
    code is cached on disk, so that only the first use after an installation compiles.

    Parameters
    ----------
    function : callable
        A function of arrays and scalars that Numba's nopython mode accepts.

    Returns
    -------
    callable
        The compiled dispatcher, or the function itself under ``NUMBA_DISABLE_JIT=1``.
    """
    return _compiled(function)


def borrowing_kernel(function: F) -> F:
    """Compile a kernel that makes no arrays, so that it need not count who holds those it is given.

    Python holds them while it runs. Counting would be two fifths of what Numba writes for a kernel
    that hands many tables on, and a third of the time that it takes to call it. Parameters and
    result are those of `kernel`.
    """
    return _compiled(function, _nrt=False, no_rewrites=True)


def inner_kernel(function: F) -> F:
    """Compile a kernel that only other kernels call, never Python.

    It has no entry from Python, whose unpacking of every array is a seventh of what it costs to
    compile a kernel. And it does not count references: it makes no arrays, and its callers hold
    those that it is given. Counting, twice a call and array, was a fifth of the engine's time.
    Nor is it searched for what Numba would rewrite, array expressions and parts of a tuple by
    number: it has none, and the search took a twentieth of the time. Nor is it kept on disk, as
    what is kept of its callers holds it: another twentieth. Parameters and result are those of
    `kernel`.
    """
    return _compiled(function, **INNER)


def inlined_kernel(function: F) -> F:
    """Compile an inner kernel into those that call it.

    Where a kernel is small, or called in one place alone, passing it all that it looks at costs
    more than what it does with that. Parameters and result are those of `kernel`.
    """
    return _compiled(function, **INNER, forceinline=True)


def merged_kernel(function: F) -> F:
    """Write an inner kernel into the one or two that call it, before any of them is compiled.

    LLVM optimises whatever a kernel calls once more with that kernel. So each level between the
    entry and the leaves has its price: the five levels of the engine's loops cost a tenth of the
    time that it takes to compile everything. Numba looks at a long kernel for longer, though; what
    is called in several places is no gain. Parameters and result are those of `kernel`.
    """
    return _compiled(function, **INNER, inline="always")


def _compiled(function: F, **options: Any) -> F:
    njit = cast(Any, numba.njit)  # whose types do not know of every option
    # Nobody calls a kernel as a C function: that entry would be compiled for nothing.
    common = {"cache": True, "fastmath": False, "nogil": True, "no_cfunc_wrapper": True}
    compiled = njit(**common | options)(function)
    _compilation.kernels.add(compiled)
    files = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if files is not None:
        files._load_index = _survive_unreadable(files._load_index)
        files._source_stamp = _stamp(Path(function.__code__.co_filename).parent)
    return cast(F, compiled)


@cache
def _stamp(folder: Path) -> str:
    """Return what tells whether a folder's modules are those that its kernels were compiled from.

    Numba asks for the kernel's own file alone, and would run a kernel on when one that it calls
    has changed in another file. So kernels may call those of their own folder, and what this one
    gives them to write in, but no others.
    """
    text = hashlib.blake2b()
    for path in sorted([*folder.glob("*.py"), *Path(__file__).parent.glob("*.py")]):
        text.update(path.name.encode() + path.read_bytes())
    return text.hexdigest()


def _survive_unreadable(load: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """Let an index that cannot be read count as none: the kernel is compiled once more.

    Numba reads the whole index before it asks whether the source is still the same, so what an
    older version of a module left there (a class since renamed, a file cut short) would raise.
    """

    def load_or_none() -> dict[Any, Any]:
        try:
            return load()
        except _UNREADABLE:
            return {}

    return load_or_none
