"""A script that every rank runs for itself: own ``__main__``, own modules, own arguments.

All ranks of a process share the interpreter. What belongs to the program (its ``__main__``, the
modules in its folder, ``sys.argv``) is exchanged each time another rank runs, so that each has its
own, as it would in a process of its own. Installed packages are shared.
"""

import atexit
import builtins
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from greenlet import GreenletExit

from ubnet.errors import OptionError, RankFailed
from ubnet.host import HUB
from ubnet.rank import Rank

MAIN = "__main__"
NEEDED = ("array", "numba", "numpy")
"""Packages that ubnet imports from as it goes on: a program that hides them hides its own view."""


class Program(MetaPathFinder):
    """A script and what each rank has of it.

    Parameters
    ----------
    path : str or Path
        The script.
    arguments : sequence of str
        What it finds in ``sys.argv[1:]``.

    Raises
    ------
    OptionError
        If there is no such file.
    RankFailed
        If it is not Python.
    """

    def __init__(self, path: str | Path, arguments: Sequence[str]) -> None:
        self.path = Path(path)
        self._arguments = [str(path), *arguments]
        self._code = _compile(self.path)
        self._folder = self.path.resolve().parent
        self._foreign = _installed_folders(self._folder)
        self._before = frozenset(sys.modules)
        self._needed = {name: import_module(name) for name in NEEDED}
        self._own = dict.fromkeys((MAIN, *NEEDED))
        self._modules: dict[int, dict[str, ModuleType]] = {}
        self._argv: dict[int, list[str]] = {}
        self._at_exit: dict[int, list[Callable[[], Any]]] = {}
        self._running = HUB

    def run(self, rank: Rank) -> None:
        """Run the script as `rank`; the world calls this on every rank."""
        main = ModuleType(MAIN)
        main.__dict__.update(
            __file__=str(self.path), __builtins__=builtins, __cached__=None, __spec__=None
        )
        sys.modules[MAIN] = main
        try:
            exec(self._code, main.__dict__)
        except GreenletExit:  # the world has ended already
            raise
        except BaseException:
            self._call_at_exit(rank.number)
            raise
        self._call_at_exit(rank.number)

    def enter(self, rank: int) -> None:
        """Exchange what belongs to the program for what `rank` has of it, or the host."""
        if rank == self._running:
            return
        modules = sys.modules
        there = {name: modules[name] for name in self._own if name in modules}
        self._modules[self._running], self._argv[self._running] = there, sys.argv
        here = self._modules.get(rank, self._needed)
        if here.keys() != there.keys():
            for name in there.keys() - here.keys():
                del modules[name]
        modules.update(here)
        sys.argv = self._argv.get(rank) or list(self._arguments)
        self._running = rank

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as Python does, and note whether it is the program's own."""
        if name.partition(".")[0] in self._before:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and self._is_own(spec):
            self._own[name] = None
        return spec

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the program's folder come first in the import path, for as long as ranks run."""
        kept = list(sys.path), atexit.register
        sys.path.insert(0, str(self._folder))
        sys.meta_path.insert(0, self)
        atexit.register = self._register  # type: ignore[assignment]  # what ranks see of it
        try:
            yield
        finally:
            self.enter(HUB)
            sys.meta_path.remove(self)
            sys.path[:], atexit.register = kept

    def _call_at_exit(self, rank: int) -> None:
        for call in reversed(self._at_exit.pop(rank, [])):
            call()

    def _is_own(self, spec: ModuleSpec) -> bool:
        places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
        for place in places:
            file = Path(place).resolve()
            inside = self._folder in file.parents or self._folder == file
            if not inside or any(folder in file.parents for folder in self._foreign):
                return False
        return bool(places)

    def _register(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Register what a rank's program wants to be called at its end; others' for the process."""
        caller = sys._getframe(1).f_globals.get("__name__")
        if self._running == HUB or caller not in self._own or caller in NEEDED:
            return _register_for_process(call, *args, **kwargs)
        self._at_exit.setdefault(self._running, []).append(lambda: call(*args, **kwargs))
        return call


_register_for_process = atexit.register


def _compile(path: Path) -> CodeType:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise OptionError(
            f"there is no program {str(path)!r} ({error.strerror}): give the path of a Python file"
        ) from None
    try:
        return compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        text = "".join(traceback.format_exception_only(error))
        raise RankFailed(f"{path} is no Python program:\n{text.rstrip()}") from None


def _installed_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of installed packages that lie inside of the program's folder."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = {Path(sysconfig.get_path(name)).resolve() for name in names}
    places.add(Path(__file__).resolve().parent)
    return tuple(sorted(place for place in places if folder in place.parents))
