"""Collective operations on Python objects: the methods in small letters.

Objects are pickled to bytes, each behind its own length (8 bytes). How long they are only their
ranks know, so the members' sizes are the parts from which the clock holder makes the schedule.
Reductions gather the objects at one member, which combines them there in rank order: how long a
partial result is, nobody could know before.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ubnet.message import Collective, Pending

from . import schedules
from .buffer_collectives import barrier
from .call import Call
from .communicator import CommHandle, Communicator, inner_lock
from .op import OPS
from .pickling import LENGTH_BYTES, dump_each, framed, load, load_each, pickle

SUM = OPS["SUM"]

Combine = Callable[[Any, Any], Any]


class ObjectCollectives(CommHandle):
    """Collective operations on Python objects."""

    __slots__ = ()

    def barrier(self) -> None:
        """Wait until every member has come."""
        barrier(self._here).run("Barrier")

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Send the root's object to every member, and return it."""
        inner_lock(self._here, "bcast")  # only shown: no other thread can be in this call
        return _bcast(self._here, obj, root, "bcast")

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Return the objects of all members at the root, in their order, else None."""
        return gather(self._here, sendobj, root, "gather")

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Return object r of the root at member r."""
        return scatter(self._here, sendobj, root, "scatter")

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return the objects of all members, in their order."""
        here = self._here
        data = [pickle.dumps(sendobj)]
        return load_each(_run(here, "all_gather", "allgather", data))

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Send object r to member r, and return one of every member."""
        here = self._here
        data = dump_each(sendobj, here.size)
        return load_each(_run(here, "all_to_all", "alltoall", data))

    def reduce(self, sendobj: Any, op: Combine = SUM, root: int = 0) -> Any:
        """Return the objects of all members combined at the root, else None."""
        return _reduce(self._here, sendobj, op, root, "reduce")

    def allreduce(self, sendobj: Any, op: Combine = SUM) -> Any:
        """Return the objects of all members combined: reduced at member 0 and sent to all."""
        here = self._here
        return _bcast(here, _reduce(here, sendobj, op, 0, "allreduce"), 0, "allreduce")


def _bcast(here: Communicator, obj: Any, root: int, call: str) -> Any:
    mine = here.check_root(root) == here.rank
    data = pickle.dumps(obj) if mine else b""
    part = (len(data),) if mine else ()
    received = _start(here, "broadcast", call, data if mine else None, part, root, keep=not mine)
    return load(data if mine else received)


def gather(here: Communicator, obj: Any, root: int, call: str) -> list[Any] | None:
    """Return all members' objects at the root, in the name of a call."""
    mine = here.check_root(root) == here.rank
    received = _run(here, "gather", call, [pickle.dumps(obj)], root)
    return load_each(received) if mine else None


def scatter(here: Communicator, objects: Any, root: int, call: str) -> Any:
    """Return this member's one of the root's objects, in the name of a call."""
    mine = here.check_root(root) == here.rank
    data = dump_each(objects, here.size) if mine else []
    return load_each(_run(here, "scatter", call, data, root))[0]


def _reduce(here: Communicator, obj: Any, op: Combine, root: int, call: str) -> Any:
    items = gather(here, obj, root, call)
    if items is None:
        return None
    result = items[0]
    for item in items[1:]:
        result = op(result, item)
    return result


def _run(
    here: Communicator, pattern: str, call: str, data: Sequence[bytes], root: int = 0
) -> NDArray[np.uint8]:
    """Send the objects' bytes, each behind its length; return what this rank received."""
    part = tuple(LENGTH_BYTES + len(d) for d in data)
    received: NDArray[np.uint8] = _start(here, pattern, call, framed(data), part, root, keep=True)
    return received


def _start(
    here: Communicator,
    pattern: str,
    call: str,
    data: bytes | None,
    part: tuple[int, ...],
    root: int,
    *,
    keep: bool,
) -> Any:
    maker = partial(schedules.objects, pattern=pattern, root=root)
    source = None if data is None else np.frombuffer(data, dtype=np.uint8)
    collective = Collective(
        here.context, here.group, "", (("root", root),), maker, part, 1, source, keep=keep
    )
    return Call(collective, data_of).run(call)


def data_of(pending: Pending) -> Any:
    """Return what an operation hands out of a size that only its schedule knows."""
    return pending.data
