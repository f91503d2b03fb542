"""Error handlers: what a program wants to happen when a call fails."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ubnet.rank import current

from .exception import ERR_ARG, SUCCESS, Get_error_string
from .exception import Exception as MPIException
from .guarded import guard_calls, guard_requests
from .handle import Handle, HandleMethods
from .kept import kept

MOST_OF_A_KIND = 32
"""How many handlers of a program's own there may be of a kind, as in mpi4py."""


class Errhandler(Handle):
    """What happens when a call fails."""

    __slots__ = ()

    def Free(self) -> None:
        """Let it go; the handle is ERRHANDLER_NULL then."""
        if self._ref is None:
            raise MPIException(ERR_ARG, "the error handler is ERRHANDLER_NULL")
        for made in kept("error handlers").values():
            made.pop(id(self._ref), None)
        self._let_go()


Errhandler._kind = Errhandler

ERRHANDLER_NULL = Errhandler._of(None, "ERRHANDLER_NULL")
ERRORS_RETURN = Errhandler._of("raise an exception", "ERRORS_RETURN")
ERRORS_ABORT = Errhandler._of("end the ranks of the handle", "ERRORS_ABORT")
ERRORS_ARE_FATAL = Errhandler._of("end the world", "ERRORS_ARE_FATAL")


class ErrorHandling(HandleMethods):
    """The error handler of a communicator or window, which hears of a call on it that fails.

    A handler of the program's own is called, and the exception is raised then; one that is fatal
    ends the world. A new communicator inherits the handler. Of requests that
    end together it hears as of one.
    """

    __slots__ = ()

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Any, int], None]) -> Errhandler:
        """Return a handler of the program's own: ``f(handle, errorcode)``."""
        made = kept("error handlers").setdefault(cls._kind.__name__, {})
        if len(made) >= MOST_OF_A_KIND:
            raise RuntimeError("cannot create too many user-defined error handlers")
        own = _Own(errhandler_fn)
        made[id(own)] = own
        return Errhandler._of(own)

    def Get_errhandler(self) -> Errhandler:
        """Return its handler."""
        _, handler = self._handlers().get(id(self._owner()), (None, ERRORS_RETURN))
        return Errhandler(handler)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Give it a handler."""
        if not errhandler:
            raise MPIException(ERR_ARG, "the error handler is ERRHANDLER_NULL")
        if errhandler != ERRORS_RETURN:
            guard_calls(ErrorHandling)
            guard_requests()
        self._handlers()[id(self._owner())] = self._owner(), Errhandler(errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        """Let its handler deal with an error."""
        self._deal_with(errorcode, Get_error_string(errorcode))

    def _hear(self, error: MPIException) -> None:
        """Let the handler deal with an error of a call."""
        if self:
            self._deal_with(int(error), str(error))

    def _hand_on(self, made: Any) -> None:
        """Give a new communicator, or the one that comes with a request, the handler of this."""
        if isinstance(made, tuple):
            made = made[0]
        if isinstance(made, ErrorHandling) and made:
            made.Set_errhandler(self.Get_errhandler())

    def _deal_with(self, errorcode: int, text: str) -> None:
        ref = self.Get_errhandler()._ref
        if isinstance(ref, _Own):
            ref.function(self, errorcode)
        elif ref != ERRORS_RETURN._ref and errorcode != SUCCESS:
            _end_world(text)

    def _owner(self) -> Any:
        """Return what the handle stands for, as the running rank sees it."""
        return self._ref

    def _handlers(self) -> dict[int, tuple[Any, Errhandler]]:
        handlers: dict[int, tuple[Any, Errhandler]] = kept("handlers in use")
        return handlers


class _Own:
    """A handler of the program's own."""

    def __init__(self, function: Callable[[Any, int], None]) -> None:
        self.function = function


def _end_world(text: str) -> NoReturn:
    rank = current()
    reason = f"rank {rank.number} met an error that is fatal: {text}"
    print(f"ubnet: {reason}", file=sys.stderr, flush=True)
    rank.abort(1, reason)
