"""Requests: handles of operations under way, to wait for and to ask."""

from collections.abc import Sequence
from typing import Any, Literal, Self

from ubnet.rank import current

from .constants import ANY_SOURCE, ANY_TAG, UNDEFINED
from .exception import ERR_REQUEST
from .exception import Exception as MPIException
from .handle import Handle
from .operation import Operation, Start, block, poll, wait_for
from .status import Status

Statuses = list[Status] | None


class Request(Handle):
    """A handle of an operation under way.

    The methods in small letters return what was received as an object, where it was one.
    """

    __slots__ = ()

    @classmethod
    def _begun(cls, start: Start) -> Self:
        """Return the request of an operation that the running rank starts now."""
        return cls._of(start(current()))

    @property
    def _operation(self) -> Operation | None:
        """The operation, None where there is nothing to wait for."""
        operation: Operation | None = self._ref
        return operation if operation is not None and operation.active else None

    def Wait(self, status: Status | None = None) -> Literal[True]:
        """Wait for the operation."""
        self.wait(status)
        return True

    def Test(self, status: Status | None = None) -> bool:
        """Return whether the operation has ended; if it has not, time passes."""
        return self.test(status)[0]

    def Get_status(self, status: Status | None = None) -> bool:
        """Return whether the operation has ended, and leave it alone."""
        return _look([self], [status] if status is not None else None, "all") is not None

    @classmethod
    def Waitall(cls, requests: Sequence["Request"], statuses: Statuses = None) -> Literal[True]:
        """Wait for all operations."""
        cls.waitall(requests, statuses)
        return True

    @classmethod
    def Testall(cls, requests: Sequence["Request"], statuses: Statuses = None) -> bool:
        """Return whether all operations have ended."""
        return cls.testall(requests, statuses)[0]

    @classmethod
    def Get_status_all(cls, requests: Sequence["Request"], statuses: Statuses = None) -> bool:
        """Return whether all operations have ended, and leave them alone."""
        return _look(requests, statuses, "all") is not None

    @classmethod
    def Waitany(cls, requests: Sequence["Request"], status: Status | None = None) -> int:
        """Wait for any operation and return its place, UNDEFINED if there is none."""
        return cls.waitany(requests, status)[0]

    @classmethod
    def Testany(
        cls, requests: Sequence["Request"], status: Status | None = None
    ) -> tuple[int, bool]:
        """Return the place of an operation that has ended, and whether there is one."""
        return cls.testany(requests, status)[:2]

    @classmethod
    def Get_status_any(
        cls, requests: Sequence["Request"], status: Status | None = None
    ) -> tuple[int, bool]:
        """Return the place of an operation that has ended, and leave it alone."""
        places = _look(requests, None if status is None else [status], "any")
        if places is None:
            return UNDEFINED, False
        return (places[0], True) if places else (UNDEFINED, True)

    @classmethod
    def Waitsome(cls, requests: Sequence["Request"], statuses: Statuses = None) -> list[int] | None:
        """Wait for any operation and return the places of all that have ended."""
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def Testsome(cls, requests: Sequence["Request"], statuses: Statuses = None) -> list[int] | None:
        """Return the places of all operations that have ended."""
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def Get_status_some(
        cls, requests: Sequence["Request"], statuses: Statuses = None
    ) -> list[int] | None:
        """Return the places of all operations that have ended, and leave them alone."""
        if not _active(requests):
            return None
        return _look(requests, statuses, "some") or []

    def wait(self, status: Status | None = None) -> Any:
        """Wait for the operation and return what it received."""
        operation = self._operation
        if operation is None:
            return _nothing(status)
        wait_for(operation.pendings)
        return self._end(status)

    def test(self, status: Status | None = None) -> tuple[bool, Any]:
        """Return whether the operation has ended, and what it received."""
        operation = self._operation
        if operation is None:
            return True, _nothing(status)
        return (True, self._end(status)) if poll([operation], "all") else (False, None)

    def get_status(self, status: Status | None = None) -> bool:
        """Return whether the operation has ended, and leave it alone."""
        return self.Get_status(status)

    @classmethod
    def waitall(cls, requests: Sequence["Request"], statuses: Statuses = None) -> list[Any]:
        """Wait for all operations and return what they received."""
        block([operation for _, operation in _active(requests)], "all")
        return _end_all(requests, statuses)

    @classmethod
    def testall(
        cls, requests: Sequence["Request"], statuses: Statuses = None
    ) -> tuple[bool, list[Any] | None]:
        """Return whether all operations have ended, and what they received."""
        if not poll([operation for _, operation in _active(requests)], "all"):
            return False, None
        return True, _end_all(requests, statuses)

    @classmethod
    def waitany(
        cls, requests: Sequence["Request"], status: Status | None = None
    ) -> tuple[int, Any]:
        """Wait for any operation; return its place and what it received."""
        active = _active(requests)
        if not active:
            return UNDEFINED, _nothing(status)
        block([operation for _, operation in active], "any")
        first = _ended(active)[0]
        return first, requests[first]._end(status)

    @classmethod
    def testany(
        cls, requests: Sequence["Request"], status: Status | None = None
    ) -> tuple[int, bool, Any]:
        """Return the place of an operation that has ended, whether there is one, its object."""
        active = _active(requests)
        if not active:
            return UNDEFINED, True, _nothing(status)
        if not poll([operation for _, operation in active], "any"):
            return UNDEFINED, False, None
        first = _ended(active)[0]
        return first, True, requests[first]._end(status)

    @classmethod
    def waitsome(
        cls, requests: Sequence["Request"], statuses: Statuses = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Wait for any operation; return the places of all that have ended, and their objects."""
        active = _active(requests)
        if not active:
            return None, None
        block([operation for _, operation in active], "any")
        places = _ended(active)
        return places, _end_all([requests[i] for i in places], statuses)

    @classmethod
    def testsome(
        cls, requests: Sequence["Request"], statuses: Statuses = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Return the places of all operations that have ended, and their objects."""
        active = _active(requests)
        if not active:
            return None, None
        poll([operation for _, operation in active], "any")
        places = _ended(active)
        return places, _end_all([requests[i] for i in places], statuses)

    @classmethod
    def get_status_any(
        cls, requests: Sequence["Request"], status: Status | None = None
    ) -> tuple[int, bool]:
        """Return the place of an operation that has ended, and leave it alone."""
        return cls.Get_status_any(requests, status)

    @classmethod
    def get_status_all(cls, requests: Sequence["Request"], statuses: Statuses = None) -> bool:
        """Return whether all operations have ended, and leave them alone."""
        return cls.Get_status_all(requests, statuses)

    @classmethod
    def get_status_some(
        cls, requests: Sequence["Request"], statuses: Statuses = None
    ) -> list[int] | None:
        """Return the places of all operations that have ended, and leave them alone."""
        return cls.Get_status_some(requests, statuses)

    def Cancel(self) -> None:
        """Withdraw a receive that nothing has met yet; it is to be waited for all the same."""
        if self._ref is None:
            raise MPIException(ERR_REQUEST, "the request is REQUEST_NULL")
        for pending in self._ref.pendings:
            if not pending.done:
                current().cancel(pending)

    def cancel(self) -> None:
        """Withdraw a receive that nothing has met yet."""
        self.Cancel()

    def Free(self) -> None:
        """Let the operation go on without a handle."""
        if self._ref is None:
            raise MPIException(ERR_REQUEST, "the request is REQUEST_NULL")
        self._let_go()

    def _end(self, status: Status | None) -> Any:
        """Take the end of the operation; unless it can be started again the request is null."""
        operation: Operation = self._ref
        if operation.again is None:
            self._ref = None
        return operation.end(status)


Request._kind = Request

REQUEST_NULL = Request._of(None, "REQUEST_NULL")


def _active(requests: Sequence[Request]) -> list[tuple[int, Operation]]:
    found = [(place, request._operation) for place, request in enumerate(requests)]
    return [(place, operation) for place, operation in found if operation is not None]


def _ended(active: Sequence[tuple[int, Operation]]) -> list[int]:
    return [place for place, operation in active if operation.done]


def _end_all(requests: Sequence[Request], statuses: Statuses) -> list[Any]:
    told = _room(statuses, len(requests))
    objects = []
    for request, status in zip(requests, told, strict=True):
        known = request._operation is not None
        objects.append(request._end(status) if known else _nothing(status))
    return objects


def _room(statuses: Statuses, count: int) -> list[Status | None]:
    """Return a status for each request; a list that is too short grows."""
    if statuses is None:
        return [None] * count
    if isinstance(statuses, list):
        statuses += [Status() for _ in range(count - len(statuses))]
    return [*statuses[:count], *([None] * (count - len(statuses)))]


def _nothing(status: Status | None) -> Any:
    """Say that there was nothing to wait for; the object of that is None."""
    if status is not None:
        status._set(ANY_SOURCE, ANY_TAG, 0)
    return None


def _look(requests: Sequence[Request], statuses: Statuses, how: str) -> list[int] | None:
    """Return the places of what has ended, and tell the statuses; None if not enough has."""
    active = _active(requests)
    operations = [operation for _, operation in active]
    if not active:
        for status in _room(statuses, len(requests)):
            _nothing(status)
        return []
    if not poll(operations, "all" if how == "all" else "any"):
        return None
    places = _ended(active)[: 1 if how == "any" else None]
    if how == "all":
        for request, status in zip(requests, _room(statuses, len(requests)), strict=True):
            operation = request._operation
            if operation is None:
                _nothing(status)
            else:
                operation.end(status, keep=True)
        return places
    by_place = dict(active)
    for place, status in zip(places, _room(statuses, len(places)), strict=True):
        by_place[place].end(status, keep=True)
    return places
