"""Collective operations between the two groups of an intercommunicator, on Python objects."""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from ubnet.message import Collective

from . import schedules
from .buffer_collectives import barrier
from .call import Call
from .communicator import CommHandle
from .constants import PROC_NULL, ROOT
from .inter_collectives import role_of, whole
from .object_collectives import SUM, Combine, data_of
from .pickling import dump_each, framed, load_each, pickle


class InterObjects(CommHandle):
    """Collective operations on objects between two groups."""

    __slots__ = ()

    def barrier(self) -> None:
        """Wait until every member of both groups has come."""
        barrier(self._here).run("Barrier")

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Send the root's object to every member of the other group, and return it there."""
        role = role_of(self._here, root)
        found = self._move("bcast", self._copies(obj) if role == ROOT else [])
        return None if role in (ROOT, PROC_NULL) else found[0]

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Return the objects of the other group at the root, else None."""
        return self._gather(sendobj, root, "gather")

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Return object r of the root at member r of the other group, else None."""
        role = role_of(self._here, root)
        data = dump_each(sendobj, len(self._here.peers)) if role == ROOT else []
        found = self._move("scatter", [framed([one]) for one in data])
        return None if role in (ROOT, PROC_NULL) else found[0]

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return the objects of the other group, in their order."""
        return self._move("allgather", self._copies(sendobj))

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Send object r to member r of the other group, and return one of each of its members."""
        data = dump_each(sendobj, len(self._here.peers))
        return self._move("alltoall", [framed([one]) for one in data])

    def reduce(self, sendobj: Any, op: Combine = SUM, root: int = 0) -> Any:
        """Return the objects of the other group combined at the root, else None."""
        items = self._gather(sendobj, root, "reduce")
        return None if items is None else reduce(op, items)

    def allreduce(self, sendobj: Any, op: Combine = SUM) -> Any:
        """Return the objects of the other group combined, at every member."""
        return reduce(op, self._move("allreduce", self._copies(sendobj)))

    def _gather(self, sendobj: Any, root: int, call: str) -> list[Any] | None:
        role = role_of(self._here, root)
        data = [b""] * len(self._here.peers)
        if role not in (ROOT, PROC_NULL):
            data[role] = framed([pickle.dumps(sendobj)])
        found = self._move(call, data)
        return found if role == ROOT else None

    def _copies(self, obj: Any) -> list[bytes]:
        return [framed([pickle.dumps(obj)])] * len(self._here.peers)

    def _move(self, call: str, data: Sequence[bytes]) -> list[Any]:
        """Send bytes to the members of the other group; return the objects that came."""
        here = self._here
        part = tuple(whole(here, [len(one) for one in data]).tolist())
        source = np.frombuffer(b"".join(data), dtype=np.uint8)
        maker = partial(schedules.between_groups, call=call)
        made = Collective(here.context, here.everybody, "", (), maker, part, 1, source, keep=True)
        return load_each(Call(made, data_of).run(call))
