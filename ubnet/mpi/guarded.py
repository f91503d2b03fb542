"""Calls whose errors a handler hears: every method, from the first handler of a program on.

Programs without handlers of their own, which are nearly all, do not pay for it.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from types import FunctionType
from typing import Any

from ubnet.rank import current

from .communicator import CommHandle, Communicator, handle_of
from .exception import Exception as MPIException
from .handle import predefined
from .request import Request

MAKERS = ("Clone", "Create", "Dup", "Idup", "Merge", "Split", "Sub")
"""How the names of methods begin that make communicators, which inherit the handler."""

UNHEARD = ("Call_errhandler", "Get_errhandler", "Set_errhandler")
"""Methods that deal with handlers themselves."""


def guard_calls(kind: type) -> None:
    """Let the handlers of all handles of a kind hear of calls that fail.

    Parameters
    ----------
    kind : type
        A class whose ``_hear`` takes the error, and whose ``_hand_on`` takes what a method has
        made; its subclasses and what they are made of are changed in place, once.
    """
    for owner in _classes(kind):
        if owner.__module__.startswith(f"{__package__}."):
            for name, method in list(vars(owner).items()):
                if _is_call(name, method):
                    setattr(owner, name, _guarded(method))


def guard_requests() -> None:
    """Let the handler of a communicator hear of what it receives by requests and goes wrong."""
    for name, method in list(vars(Request).items()):
        ends = name.lower().startswith(("wait", "test"))
        if ends and isinstance(method, FunctionType) and not hasattr(method, "guarded"):
            setattr(Request, name, _guarded_end(method, lambda given: [given]))
        elif ends and isinstance(method, classmethod) and not hasattr(method.__func__, "guarded"):
            setattr(Request, name, classmethod(_guarded_end(method.__func__, lambda given: given)))


def _classes(kind: type) -> Iterator[type]:
    subclasses: list[type] = kind.__subclasses__()
    for subclass in subclasses:
        yield from subclass.__mro__
        yield from _classes(subclass)


def _is_call(name: str, method: Any) -> bool:
    public = not name.startswith("_") and name not in UNHEARD
    return public and isinstance(method, FunctionType) and not hasattr(method, "guarded")


def _guarded(method: Callable[..., Any]) -> Any:
    makes = method.__name__.startswith(MAKERS)

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = method(self, *args, **kwargs)
        except MPIException as error:
            if not error.heard:  # one call may make others
                error.heard = True
                hear = getattr(self, "_hear", None)
                if hear is not None:
                    hear(error)
            raise
        if makes and hasattr(self, "_hand_on"):
            self._hand_on(result)
        return result

    return _in_place_of(call, method)


def _guarded_end(method: Callable[..., Any], requests_of: Callable[[Any], Any]) -> Any:
    """Return a method that ends requests: one, or a sequence of them behind the class."""

    @wraps(method)
    def call(first: Any, *args: Any, **kwargs: Any) -> Any:
        given = first if not isinstance(first, type) else (args[0] if args else kwargs["requests"])
        operations = [request._ref for request in requests_of(given)]
        try:
            return method(first, *args, **kwargs)
        except MPIException as error:
            receives = [o.received_on for o in operations if o is not None and o.received_on]
            if receives and not error.heard:
                error.heard = True
                _handle(receives[0])._hear(error)
            raise

    return _in_place_of(call, method)


def _in_place_of(call: Any, method: Callable[..., Any]) -> Any:
    """Let tracebacks and recordings find the method's name, and nobody guard it again."""
    names = {"co_name": method.__name__, "co_qualname": method.__qualname__}
    call.__code__ = call.__code__.replace(**names)
    call.guarded = True
    return call


def _handle(communicator: Communicator) -> Any:
    for name in ("COMM_WORLD", "COMM_SELF"):
        if current().kept.get(name) is communicator:
            return predefined(name)
    handle: CommHandle = handle_of(communicator)
    return handle
