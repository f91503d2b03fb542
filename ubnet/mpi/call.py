"""A collective call: what goes to the world, what is left to do at its end, its three forms."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from ubnet.message import Collective, Pending
from ubnet.rank import Rank

from .communicator import CommHandle
from .operation import Operation, run
from .prequest import Prequest
from .request import Request

P = ParamSpec("P")
C = TypeVar("C", bound=CommHandle)


@dataclass(slots=True)
class Call:
    """One rank's part in a collective operation.

    Attributes
    ----------
    collective : Collective
        What goes to the world.
    finish : callable or None
        What is left to do when this rank's part is done; its result is that of the call.
    """

    collective: Collective
    finish: Callable[[Pending], Any] | None = None

    def start(self, name: str, rank: Rank) -> Operation:
        """Start it under the name of the method that the program called."""
        self.collective.op = name
        pending = rank.start(self.collective)
        finish = self.finish
        return Operation((pending,), finish=None if finish is None else lambda: finish(pending))

    def run(self, name: str) -> Any:
        """Start it and wait for this rank's part."""
        return run(lambda rank: self.start(name, rank))


def forms(
    body: Callable[Concatenate[C, P], Call],
) -> tuple[Callable[..., None], Callable[..., Request], Callable[..., Prequest]]:
    """Return the three methods of an operation: blocking, started, and to be started.

    Parameters
    ----------
    body : function
        Reads the arguments and returns the call; its name is that of the blocking method with a
        line in front, as in ``_Bcast``.
    """
    name = body.__name__.lstrip("_")
    started, kept = "I" + name[0].lower() + name[1:], name + "_init"

    def blocking(self: C, *args: P.args, **kwargs: P.kwargs) -> None:
        body(self, *args, **kwargs).run(name)

    def starting(self: C, *args: P.args, **kwargs: P.kwargs) -> Request:
        call = body(self, *args, **kwargs)
        return Request._begun(lambda rank: call.start(started, rank))

    def keeping(self: C, *args: P.args, **kwargs: P.kwargs) -> Prequest:
        kwargs.pop("info", None)  # hints, which change nothing here
        body(self, *args, **kwargs)  # wrong arguments fail here, not when it is started

        def again(rank: Rank) -> Operation:
            return body(self, *args, **kwargs).start(kept, rank)

        return Prequest._of(Operation(again=again, active=False))

    methods: list[tuple[Any, str]] = [(blocking, name), (starting, started), (keeping, kept)]
    for method, its_name in methods:
        update_wrapper(method, body)
        method.__name__ = its_name
        method.__qualname__ = f"Comm.{its_name}"
    return blocking, starting, keeping
