"""What a request stands for: an operation under way, or one that can be started again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ubnet.errors import Truncated
from ubnet.message import Pending
from ubnet.rank import Rank, current

from .communicator import Communicator
from .constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from .exception import ERR_REQUEST, ERR_TRUNCATE
from .exception import Exception as MPIException
from .status import Status


@dataclass(slots=True, eq=False)
class Operation:
    """One or two calls of a rank that end together.

    Attributes
    ----------
    pendings : tuple of Pending
        The calls.
    receives : bool
        Whether one of them receives a message, which may be one from PROC_NULL.
    message : Pending or None
        The one that receives, unless it is from PROC_NULL.
    received_on : Communicator or None
        The communicator of the message.
    finish : callable or None
        What is left to do at the end; its result is what the lower-case waits return.
    again : callable or None
        Of a persistent operation: starts it anew.
    active : bool
        Whether it has been started and its end has not been asked for yet.
    """

    pendings: tuple[Pending, ...] = ()
    receives: bool = False
    message: Pending | None = None
    received_on: Communicator | None = None
    finish: Callable[[], Any] | None = None
    again: "Start | None" = None
    active: bool = True

    @property
    def done(self) -> bool:
        """Whether all its calls have ended."""
        return all(pending.done for pending in self.pendings)

    @classmethod
    def receiving(
        cls, pending: Pending, comm: Communicator, finish: Callable[[], Any] | None = None
    ) -> "Operation":
        """Return the operation of one receive."""
        return cls((pending,), True, pending, comm, finish)

    def start(self) -> None:
        """Start a persistent operation."""
        if self.again is None or self.active:
            raise MPIException(ERR_REQUEST, "only an inactive persistent request can be started")
        begun = self.again(current())
        self.pendings, self.message = begun.pendings, begun.message
        self.received_on, self.finish, self.active = begun.received_on, begun.finish, True

    def end(self, status: Status | None, *, keep: bool = False) -> Any:
        """Finish what has ended, tell the status, and return the object that was received.

        With `keep` it is only looked at: it stays active, and nothing is finished.
        """
        for pending in self.pendings:
            error = pending.error
            if error is not None:
                pending.error, self.active = None, False
                raise truncated(error)
        if status is not None:
            self.tell(status)
        if keep:
            return None
        self.active = False
        finish, self.finish = self.finish, None
        if finish is None or any(pending.cancelled for pending in self.pendings):
            return None
        return finish()

    def tell(self, status: Status) -> None:
        """Set a status to what is known of the message."""
        if not self.receives:
            cancelled = any(pending.cancelled for pending in self.pendings)
            status._set(ANY_SOURCE, ANY_TAG, 0, cancelled)
        elif self.message is None or self.received_on is None:
            status._set(PROC_NULL, ANY_TAG, 0)
        else:
            message = self.message
            source = self.received_on.source(message.source)
            status._set(source, message.tag, message.nbytes, message.cancelled)


Start = Callable[[Rank], Operation]
"""What starts an operation of a rank, whose arguments have been checked."""


def run(start: Start, status: Status | None = None) -> Any:
    """Start an operation of the running rank, wait until it has ended, and end it."""
    rank = current()
    return end(rank, start(rank), status)


def end(rank: Rank, operation: Operation, status: Status | None) -> Any:
    """Wait until an operation has ended that has just been started, and end it."""
    try:
        rank.finish(operation.pendings)
    except Truncated as error:
        raise truncated(error) from None
    if status is not None:
        operation.tell(status)
    return None if operation.finish is None else operation.finish()


def together(send: Start, receive: Start) -> Start:
    """Return what starts a receive and a send that end together."""

    def start(rank: Rank) -> Operation:
        operation = receive(rank)
        operation.pendings += send(rank).pendings
        return operation

    return start


def truncated(error: Exception) -> MPIException:
    """Return MPI's exception for a message that was too long."""
    return MPIException(ERR_TRUNCATE, str(error))


def wait_for(pendings: Sequence[Pending]) -> None:
    """Wait until all calls have ended."""
    try:
        current().wait(pendings, "all")
    except Truncated as error:
        raise truncated(error) from None


def block(operations: Sequence[Operation], how: str) -> None:
    """Wait until all operations have ended, or any of them."""
    pendings = [p for operation in operations for p in operation.pendings]
    if how == "all":
        wait_for(pendings)
        return
    rank = current()
    try:
        while not any(operation.done for operation in operations):
            rank.wait([p for p in pendings if not p.done], "any")
    except Truncated as error:
        raise truncated(error) from None


def poll(operations: Sequence[Operation], how: str) -> bool:
    """Say whether all operations have ended, or any of them; if not, let time pass."""
    rank = current()
    pendings = [p for operation in operations for p in operation.pendings]
    try:
        if how == "all":
            return rank.test(pendings, "all") is not None
        if not any(operation.done for operation in operations):
            rank.test([p for p in pendings if not p.done], "any")
    except Truncated as error:
        raise truncated(error) from None
    return any(operation.done for operation in operations)
